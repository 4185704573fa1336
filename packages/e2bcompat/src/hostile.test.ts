import { connect } from "node:net";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { publicSandboxId } from "@org/sandbox-address";
import * as fc from "fast-check";
import { expect, it, onTestFinished } from "vitest";
import { routesOf } from "./app.ts";
import { createFleet, KEY_1 } from "./testing/fleet.ts";
import type { Fleet } from "./testing/fleet.ts";
import { guestDaemon } from "./testing/guest-daemon.ts";

const RUNS = 200;

async function listen(fleet: Fleet): Promise<number> {
  const life = new AbortController();
  const { promise: bound, resolve } = Promise.withResolvers<AddressInfo>();
  const served = fleet.server.serve("127.0.0.1:0", { signal: life.signal, onListening: resolve });
  onTestFinished(async () => {
    life.abort();
    await served;
  });
  return (await bound).port;
}

/** Sends bytes on a connection of their own and reads what comes until its end. */
async function exchange(port: number, request: Buffer): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined);
  // Not ended: a connection whose client has ended its half counts as given up.
  socket.write(request);
  return (await buffer(socket)).toString("latin1");
}

const anyBytes = fc.uint8Array({ maxLength: 30 }).map((bytes) => Buffer.from(bytes).toString("latin1"));

/** What may stand in the place of an id, and in that of a value. */
const segment = fc.oneof(
  fc.constantFrom("ID", "base", "%", "%zz", "%00", "%ff%fe", "%2e%2e", "..", "%2F", "%25%32%46", "\xff\xfe", "é", "-1"),
  fc.constantFrom("x".repeat(7000), "9".repeat(400), "__proto__", "constructor", "tags", "metrics", "aliases", "\x00"),
  anyBytes.map((text) => text.replaceAll(/[\r\n ]/g, "")),
  fc.string().map(encodeURIComponent.bind(undefined)).map(String),
);
const names = ["limit", "state", "metadata", "order", "nextToken", "startedAfter", "start", "end", "sandbox_ids", "ns"];
const pair = fc.tuple(fc.constantFrom(...names, "cursor", "logsOffset", "search", "x"), segment);
const query = fc.array(pair, { maxLength: 4 }).map((pairs) => pairs.map(([name, value]) => `${name}=${value}`));

const number = fc.constantFrom("1e999", "-1e999", "2147483648", "1e300", "-0", "0.1", "9".repeat(400), "01", "NaN");
const field = fc.constantFrom(
  "templateID",
  "timeout",
  "metadata",
  "envVars",
  "tags",
  "name",
  "count",
  "steps",
  "memory",
);
const body = fc.oneof(
  fc.constantFrom("", " ", "null", "[]", "{", '"', "{}", "\ufeff{}", '{"a":1}{"b":2}', '{"templateID":"base"}'),
  fc.constantFrom("[".repeat(60_000), `${"[".repeat(50_000)}${"]".repeat(50_000)}`, '{"a":'.repeat(20_000)),
  fc.tuple(field, number).map(([name, value]) => `{"templateID":"base","${name}":${value}}`),
  fc.tuple(field, fc.json()).map(([name, value]) => `{"templateID":"base","target":"a","${name}":${value}}`),
  fc.tuple(field, fc.json()).map(([name, value]) => `{"${name}":{"__proto__":${value},"\\ud800":"\\udfff"}}`),
  fc.json(),
  anyBytes,
);

const header = fc.oneof(
  fc.constantFrom("Content-Type: text/html", "Content-Type: ", "Content-Type: application/json; charset=utf-16"),
  fc.constantFrom("Content-Encoding: gzip", "Accept: image/png", "X-HTTP-Method-Override: DELETE", "X-Api-Key: twice"),
  fc.constantFrom(
    "Origin: null",
    `Origin: ${"o".repeat(3000)}`,
    "Access-Control-Request-Headers: \xff",
    "If-None-Match: *",
  ),
  fc.constantFrom("Idempotency-Key: \xe9", `Idempotency-Key: ${"k".repeat(256)}`, "Idempotency-Key: one", "Upgrade: x"),
  fc.constantFrom("X-Request-Id: \t", `X-Request-Id: ${"i".repeat(200)}`, "X-Forwarded-Proto: javascript", "TE: x"),
  anyBytes.map((text) => `X-Any: ${text.replaceAll(/[\r\n\0]/g, "")}`),
);

const operation = fc.constantFrom(...routesOf({ settings: { authenticated: true } }));
const method = fc.option(fc.constantFrom("TRACE", "OPTIONS", "HEAD", "QUERY", "PROPFIND", "get", "M-SEARCH"), {
  freq: 8,
  nil: undefined,
});

const request = fc.record({
  operation,
  method,
  segments: fc.array(segment, { minLength: 2, maxLength: 2 }),
  query,
  headers: fc.array(header, { maxLength: 3 }),
  body,
  withKey: fc.integer({ min: 0, max: 9 }).map((part) => part > 0),
});

it("whatever a request is made of, its answer is JSON with code and message, or a success, and never a 5xx", async () => {
  const fleet = createFleet({ envdSecret: "s3cret", bodyIdleTimeoutMs: 1000 });
  guestDaemon(fleet.node, {
    "/metrics": { ts: 1, cpu_count: 1, cpu_used_pct: 0, mem_used: 1, mem_total: 2 },
    "/logs": 404,
  });
  const port = await listen(fleet);
  let id = await fleet.create();
  await fc.assert(
    fc.asyncProperty(request, async (wanted) => {
      if (!fleet.node.sandboxes.some((sandbox) => publicSandboxId(sandbox.entry.id) === id)) {
        id = await fleet.create();
      }
      let next = 0;
      const path = wanted.operation.path.replaceAll(/\{\w+\}/g, () => wanted.segments[next++] ?? "");
      const search = wanted.query.length === 0 ? "" : `?${wanted.query.join("&")}`;
      const content = Buffer.from(wanted.body, /[\x80-\xff]/.test(wanted.body) ? "latin1" : "utf8");
      const head = [
        `${wanted.method ?? wanted.operation.method} ${path.replaceAll("ID", id)}${search} HTTP/1.1`,
        "Host: localhost",
        "Connection: close",
        ...(wanted.withKey ? [`X-API-Key: ${KEY_1}`] : []),
        ...wanted.headers,
        `Content-Length: ${content.length}`,
        "",
        "",
      ].join("\r\n");
      const answer = await exchange(port, Buffer.concat([Buffer.from(head, "latin1"), content]));
      const [, status = ""] = /^HTTP\/1\.1 (\d{3}) /.exec(answer) ?? [];
      expect(status, answer.slice(0, 200)).toMatch(/^[234]/);
      if (status.startsWith("4") && wanted.method !== "HEAD") {
        const said: unknown = JSON.parse(answer.slice(answer.indexOf("\r\n\r\n") + 4));
        expect(said).toStrictEqual({ code: Number(status), message: expect.stringMatching(/./s) });
      }
    }),
    { numRuns: RUNS },
  );
});
