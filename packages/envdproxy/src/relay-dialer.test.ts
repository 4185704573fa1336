import { duplexPair } from "node:stream";
import type { Duplex } from "node:stream";
import { ScaleError } from "@org/scale";
import { describe, expect, it } from "vitest";
import type { Owner, OwnerResolver } from "./owner-resolver.ts";
import { Counters } from "./counters.ts";
import { createRelayDialer } from "./relay-dialer.ts";
import type { Lease } from "./relay-dialer.ts";
import { RelayPool } from "./relay-pool.ts";
import { RelaySlots } from "./relay-slots.ts";
import { ScriptedStore } from "./testing/scripted-store.ts";

const ROUTE = { port: 49_983, id: "sb-a" };
const CREDENTIAL = { kind: "token", token: "t" } as const;

describe("the first of those who wait for a wake", () => {
  it("may leave: the others wake the sandbox, one of them for all", async () => {
    const owner: Owner = { node: "n", id: "sb_a", token: "t", accessToken: Buffer.from("t"), paused: true };
    const resolver: OwnerResolver = {
      known: () => owner,
      resolve: () => Promise.resolve(owner),
      refresh: () => expect.unreachable("nothing is refreshed"),
      evict: () => undefined,
      close: () => undefined,
    };
    const store = new ScriptedStore();
    const wakes: PromiseWithResolvers<Duplex>[] = [];
    store.dialGuestPort = (_node, _id, _token, _port, options) => {
      const wake = Promise.withResolvers<Duplex>();
      wakes.push(wake);
      options?.signal?.addEventListener("abort", () => wake.reject(new ScaleError("aborted", "left")));
      return wake.promise;
    };
    const dialer = createRelayDialer({
      store,
      resolver,
      derived: false,
      pool: new RelayPool({ idleMs: 0, maxPerOwner: 1, maxIdle: 1, now: () => 0, onDropped: () => undefined }),
      slots: new RelaySlots({ total: Number.POSITIVE_INFINITY, perSandbox: Number.POSITIVE_INFINITY }),
      counters: new Counters(),
      dialTimeoutMs: 60_000,
    });
    const open = (signal: AbortSignal): Promise<Lease | string> =>
      dialer.open({ route: ROUTE, credential: CREDENTIAL, passive: false, fresh: false }, signal);
    const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
    const client = new AbortController();
    const first = open(client.signal).catch(() => "left");
    await turn();
    const others = Array.from({ length: 20 }, () => open(new AbortController().signal));
    await turn();
    expect(wakes).toHaveLength(1);
    client.abort();
    expect(await first).toBe("left");
    await turn();
    expect(wakes).toHaveLength(2);
    wakes[1]?.resolve(duplexPair()[0]);
    await turn();
    // Awake: each of them has a relay of its own.
    expect(wakes).toHaveLength(21);
    wakes.slice(2).forEach((wake) => wake.resolve(duplexPair()[0]));
    expect(await Promise.all(others)).toHaveLength(20);
  });
});
