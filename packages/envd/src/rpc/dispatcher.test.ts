import { once } from "node:events";
import { Agent, createServer, type IncomingMessage, request } from "node:http";
import type { AddressInfo } from "node:net";

import { Filesystem } from "@org/envd-client";
import { expect, test } from "vitest";

import { EnvdError } from "../errors.ts";
import type { ServiceImpl } from "./call.ts";
import { createDispatcher } from "./dispatcher.ts";

const STAT = "/filesystem.Filesystem/Stat";
const WATCH = "/filesystem.Filesystem/WatchDir";

interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

interface Served extends AsyncDisposable {
  /** Calls a method over the one connection of this client. */
  call(path: string, type: string, body: Buffer | string): Promise<Answer>;
}

async function serve(impl: Partial<ServiceImpl<typeof Filesystem>>): Promise<Served> {
  const dispatcher = createDispatcher({
    userOf: () => {
      throw new EnvdError("unauthenticated", "nobody");
    },
    maxMessageBytes: 1_000,
    logger: { warn: () => undefined, error: () => undefined },
  });
  dispatcher.add(Filesystem, impl as ServiceImpl<typeof Filesystem>, undefined);
  const server = createServer((req, res) => {
    void dispatcher.serve({ req, res, method: req.method ?? "", path: req.url ?? "", query: "" }, undefined);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const { port } = server.address() as AddressInfo;
  return {
    async call(path, type, body) {
      const headers = { "content-type": type, "content-length": Buffer.byteLength(body) };
      const sent = request({ port, path, agent, method: "POST", headers });
      sent.end(body);
      const [reply] = (await once(sent, "response")) as [IncomingMessage];
      const chunks: Buffer[] = [];
      for await (const chunk of reply as AsyncIterable<Buffer>) chunks.push(chunk);
      return { status: reply.statusCode ?? 0, headers: reply.headers, body: Buffer.concat(chunks) };
    },
    async [Symbol.asyncDispose]() {
      agent.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function envelope(text: string, flags = 0): Buffer {
  const head = Buffer.from([flags, 0, 0, 0, 0]);
  head.writeUInt32BE(Buffer.byteLength(text), 1);
  return Buffer.concat([head, Buffer.from(text)]);
}

/** The JSON of the last frame of a stream. */
function end({ body }: Answer): unknown {
  let at = 0;
  for (;;) {
    const length = body.readUInt32BE(at + 1);
    if (body[at] === 2) return JSON.parse(body.subarray(at + 5, at + 5 + length).toString());
    at += 5 + length;
  }
}

test.each([
  ["a message over the limit", STAT, "application/json", "x".repeat(3_000_000), "resource_exhausted"],
  [
    "two messages instead of one",
    WATCH,
    "application/connect+json",
    envelope("{}").toString().repeat(2),
    "unimplemented",
  ],
  ["no message", WATCH, "application/connect+json", "", "unimplemented"],
  ["a message that claims to be compressed", WATCH, "application/connect+json", envelope("{}", 1), "internal"],
])("%s is refused, and the connection serves the next request", async (_name, path, type, body, code) => {
  await using served = await serve({ stat: () => ({ entry: { name: "x" } }), watchDir: async () => undefined });
  const refused = await served.call(path, type, body);
  const error = path === STAT ? JSON.parse(refused.body.toString()) : (end(refused) as { error: unknown }).error;
  expect(error).toMatchObject({ code, message: expect.any(String) });
  const next = await served.call(STAT, "application/json", '{"path":"/"}');
  expect([next.status, next.body.toString()]).toEqual([200, '{"entry":{"name":"x"}}']);
});

test("metadata and attached messages go with answers, errors and ends of streams", async () => {
  const attached = [{ type: "a.B", value: Buffer.from([1, 2, 3, 4]) }];
  await using served = await serve({
    stat(asked, { metadata }) {
      metadata?.replyHeaders.push(["x-a", "1"], ["x-a", "2"]);
      metadata?.replyTrailers.push(["x-t", "3"]);
      if (asked.path === "fail") throw new EnvdError("not_found", "gone", { attached });
      return {};
    },
    async watchDir(_request, { metadata }, stream) {
      metadata?.replyHeaders.push(["x-a", "1"]);
      metadata?.replyTrailers.push(["x-t", "3"]);
      await stream.send({ event: { case: "start", value: {} } });
      throw new EnvdError("aborted", "no more", { attached });
    },
  });
  const details = [{ type: "a.B", value: "AQIDBA" }];
  for (const path of ["/", "fail"]) {
    const { headers, body } = await served.call(STAT, "application/json", JSON.stringify({ path }));
    expect(headers).toMatchObject({ "x-a": "1, 2", "trailer-x-t": "3" });
    const told = path === "fail" ? { code: "not_found", message: "gone", details } : {};
    expect(JSON.parse(body.toString())).toEqual(told);
  }
  const stream = await served.call(WATCH, "application/connect+json", envelope("{}"));
  expect(stream.headers["x-a"]).toBe("1");
  expect(stream.body.subarray(5, 17).toString()).toBe('{"start":{}}');
  expect(end(stream)).toEqual({ error: { code: "aborted", message: "no more", details }, metadata: { "x-t": ["3"] } });
});
