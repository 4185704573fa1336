import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { createNodePool, createSandboxdClient } from "@org/sandboxd-client";
import type { SandboxdClient } from "@org/sandboxd-client";
import { entryFromRow, poolsFromInfo } from "@org/scale/sandboxd";
import { describe, expect, it } from "vitest";
import { FleetSource, nodeName, POOL } from "../fleet.ts";
import { ScriptedNode } from "./scripted-node.ts";
import type { NodeScript } from "./scripted-node.ts";

const SIZE = { nodes: 2, perNode: 150 };

async function serving(
  script: Partial<NodeScript> = {},
): Promise<AsyncDisposable & { node: ScriptedNode; client: SandboxdClient }> {
  const node = new ScriptedNode({
    index: 0,
    size: SIZE,
    order: "kept",
    address: "10.0.0.1:7777",
    peers: ["10.0.0.1:7777", "10.0.0.2:7777"],
    warm: 9,
    redirectTo: undefined,
    ...script,
  });
  const server = createServer((socket) => node.serve(socket));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const pool = createNodePool();
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    node,
    client: createSandboxdClient({ address, token: "t", pool }),
    [Symbol.asyncDispose]: async () => {
      await pool.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

describe("a scripted node, asked by the real client", () => {
  it("tells its pool and its peers", async () => {
    await using served = await serving();
    const info = await served.client.info();
    expect(info).toMatchObject({ advertise_addr: "10.0.0.1:7777", peers: ["10.0.0.2:7777"] });
    expect(poolsFromInfo(info)).toStrictEqual([{ ...POOL, warm: 9, target: 9 }]);
  });

  it("lists what the fleet in memory lists, before and after a flip", async () => {
    await using served = await serving();
    const source = new FleetSource(SIZE);
    const same = async (): Promise<void> => {
      const entries = (await served.client.index()).map(entryFromRow);
      expect(entries).toEqual(source.nodeInventory(nodeName(0))?.entries);
    };
    await same();
    served.node.flip();
    source.churn();
    await same();
  });

  it("lists the same in another order when told to", async () => {
    await using kept = await serving();
    await using other = await serving({ order: "shuffled" });
    const ids = (await kept.client.index()).map(({ id }) => id);
    const mixed = (await other.client.index()).map(({ id }) => id);
    expect(mixed).not.toStrictEqual(ids);
    expect(mixed.toSorted()).toStrictEqual(ids.toSorted());
  });

  it("delivers claims with ids of their own, and counts them", async () => {
    await using served = await serving();
    const [a, b] = [await served.client.claim({ template: "rt" }), await served.client.claim({ template: "rt" })];
    expect(a.kind === "delivered" && b.kind === "delivered" && a.reply.id !== b.reply.id).toBe(true);
    expect(served.node.delivered).toBe(2);
  });

  it("sends claims on that may be sent on", async () => {
    await using served = await serving({ redirectTo: "10.0.0.2:7777" });
    expect(await served.client.claim({ template: "rt" })).toMatchObject({
      kind: "redirect",
      targets: ["10.0.0.2:7777"],
    });
    expect(await served.client.claim({ template: "rt", no_redirect: true })).toMatchObject({ kind: "delivered" });
    expect(served.node.delivered).toBe(1);
  });

  it("knows every id as a running sandbox and takes every verb", async () => {
    await using served = await serving();
    const { client } = served;
    expect(await client.sandbox("sb_0123456789abcdef")).toMatchObject({ id: "sb_0123456789abcdef", hibernated: false });
    await client.hibernate("sb_1");
    await client.wake("sb_1");
    await client.release("sb_1");
    expect(await client.renew("sb_1", { ttl_seconds: 60 })).toBeInstanceOf(Date);
  });
});
