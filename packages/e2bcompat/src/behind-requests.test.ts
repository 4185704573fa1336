import { connect } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import type { SandboxStore } from "@org/scale";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { createFleet, KEY_1 } from "./testing/fleet.ts";
import type { Fleet } from "./testing/fleet.ts";

const HEAD = `Host: localhost\r\nX-API-Key: ${KEY_1}\r\n`;
const CLOSE = "Connection: close\r\n";
const CREATE = '{"templateID":"base"}';
const create = (headers = ""): string =>
  `POST /v2/sandboxes HTTP/1.1\r\n${HEAD}${headers}Content-Length: ${CREATE.length}\r\n\r\n${CREATE}`;
const chunked = (): string => `POST /v2/sandboxes HTTP/1.1\r\n${HEAD}Transfer-Encoding: chunked\r\n\r\n`;
const LIST = `GET /v2/sandboxes HTTP/1.1\r\n${HEAD}\r\n`;
const GARBAGE = "\0\x01\x02 no request at all\r\n\r\n";

async function late(claim: unknown): Promise<unknown> {
  const made = await claim;
  await delay(60);
  return made;
}

/** A service that takes its time to make a sandbox. */
async function slowFleet(): Promise<Fleet & { readonly port: number }> {
  const fleet = createFleet({
    store: (store) =>
      new Proxy(store, {
        get: (target, name: keyof SandboxStore) => {
          const method = (target[name] as (...args: unknown[]) => unknown).bind(target);
          return name === "claim" ? (...args: unknown[]) => late(method(...args)) : method;
        },
      }),
  });
  const end = new AbortController();
  const { promise: bound, resolve } = Promise.withResolvers<AddressInfo>();
  const done = fleet.server.serve("127.0.0.1:0", { signal: end.signal, onListening: resolve });
  onTestFinished(() => {
    end.abort();
    return done;
  });
  return { ...fleet, port: (await bound).port };
}

function open(port: number): Socket {
  const socket = connect({ host: "127.0.0.1", port, noDelay: true });
  socket.on("error", () => undefined);
  onTestFinished(() => void socket.destroy());
  return socket;
}

/** The statuses of what came back, each of which must be whole JSON or empty. */
function statusesIn(answers: string): number[] {
  return answers
    .split(/(?=HTTP\/1\.1 \d)/)
    .filter((answer) => answer !== "")
    .map((answer) => {
      const [head = "", body = ""] = answer.split("\r\n\r\n");
      expect(body).toHaveLength(Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0));
      return Number(head.split(" ")[1]);
    });
}

describe("a sandbox that was made is reported as made, whatever stands behind the request", () => {
  it.each([
    ["another one behind a closing request", create(CLOSE) + create(), [201]],
    ["garbage behind a closing request", create(CLOSE) + GARBAGE, [201]],
    ["another one behind HTTP/1.0", create().replace("HTTP/1.1", "HTTP/1.0") + create(), [201]],
    ["garbage", create() + GARBAGE, [201, 400]],
    ["garbage behind an answer that comes at once", LIST + GARBAGE, [200, 400]],
    ["a head that is too large", `${create()}GET /${"x".repeat(70_000)}`, [201, 431]],
    ["a second body that breaks", `${create()}${chunked()}zz\r\n`, [201, 400]],
    ["CONNECT", `${create()}CONNECT a:1 HTTP/1.1\r\n\r\n`, [201, 405]],
    ["a wish that nobody grants", `${create()}${create("Expect: miracles\r\n")}`, [201, 417]],
    ["garbage behind several", create() + LIST + create() + GARBAGE, [201, 200, 201, 400]],
    [
      "another one behind several of which the last closes",
      create() + LIST + create(CLOSE) + create(),
      [201, 200, 201],
    ],
  ])("%s", async (_what, bytes, statuses) => {
    const fleet = await slowFleet();
    for (const split of [false, true]) {
      const before = fleet.node.sandboxes.length;
      const socket = open(fleet.port);
      const at = split ? bytes.indexOf(`\r\n\r\n${CREATE}`) + 4 + CREATE.length : bytes.length;
      socket.write(bytes.slice(0, at), "latin1");
      if (split) {
        await delay(15);
        socket.write(bytes.slice(at), "latin1");
      }
      expect(statusesIn(await text(socket))).toEqual(statuses);
      const made = statuses.filter((status) => status === 201).length;
      expect(fleet.node.sandboxes.length - before).toBe(made);
    }
  });

  it("bytes without end", async () => {
    const fleet = await slowFleet();
    const socket = open(fleet.port);
    socket.write(create() + GARBAGE, "latin1");
    const timer = setInterval(() => socket.write(GARBAGE), 1);
    const answers = await text(socket);
    clearInterval(timer);
    expect(statusesIn(answers)).toEqual([201, 400]);
  });
});

describe("a body that breaks", () => {
  it("is what its own request is refused for, and nothing is made", async () => {
    const fleet = await slowFleet();
    const socket = open(fleet.port);
    socket.write(`${chunked()}3\r\n{"a\r\nzz\r\n`);
    expect(statusesIn(await text(socket))).toEqual([400]);
    expect(fleet.node.sandboxes).toHaveLength(0);
  });

  it("has no second answer when its request was answered before", async () => {
    const fleet = await slowFleet();
    const socket = open(fleet.port);
    socket.write(chunked().replace(KEY_1, "stranger"));
    await new Promise((resolve) => socket.once("readable", resolve));
    socket.write("zz\r\n");
    expect(statusesIn(await text(socket))).toEqual([401]);
  });
});

it.each([
  ["garbage", GARBAGE],
  ["CONNECT", "CONNECT a:1 HTTP/1.1\r\n\r\n"],
  ["half a head", "GET /next HTTP/1.1\r\n"],
])("a client that leaves while its sandboxes are made leaves none behind: %s", async (_what, rest) => {
  const fleet = await slowFleet();
  for (const leave of ["end", "resetAndDestroy"] as const) {
    const socket = open(fleet.port);
    socket.write(create() + create() + rest, "latin1");
    await vi.waitFor(() => expect(fleet.node.sandboxes).toHaveLength(2), { interval: 5 });
    socket[leave]();
    await vi.waitFor(() => expect(fleet.node.sandboxes).toHaveLength(0));
  }
});
