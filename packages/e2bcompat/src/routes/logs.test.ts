import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { setImmediate as nextTurn, setTimeout as delay } from "node:timers/promises";
import { GUEST_LOGS_TYPE, MAX_LOG_LINES } from "@org/envd-client";
import { guestAccessToken } from "@org/scale";
import { answers, fails, staysSilent } from "@org/scale/testing";
import { describe, expect, it } from "vitest";
import { createFleet, NODE } from "../testing/fleet.ts";
import type { Fleet, FleetOptions } from "../testing/fleet.ts";

const SECRET = "a secret";
const V1 = "/sandboxes";
const V2 = "/v2/sandboxes";
const EMPTY: Readonly<Record<string, string>> = { [V1]: '{"logs":[],"logEntries":[]}', [V2]: '{"logs":[]}' };
const MS = Date.UTC(2026, 1, 3, 4, 5, 6, 78);

const OUT = { seq: 3, timestampMs: MS, level: "info", logger: "process.stdout", pid: 7, message: 'say "€"' };
const ERR = { seq: 9, timestampMs: MS + 1, level: "error", logger: "process.stderr", pid: 8, message: "" };

function ndjson(...entries: readonly unknown[]): string {
  return entries.map((entry) => `${JSON.stringify(entry)}\n`).join("");
}

function answerOf(body: string, head = `HTTP/1.1 200 OK\r\ncontent-type: ${GUEST_LOGS_TYPE}\r\n`): string {
  return `${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

interface Asked {
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly token: string | string[] | undefined;
}

/** A fleet whose guests are daemons with this log. */
function loggingFleet(entries: readonly unknown[], options: FleetOptions = {}): { fleet: Fleet; asked: Asked[] } {
  const fleet = createFleet(options);
  const asked: Asked[] = [];
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    const url = new URL(request.url ?? "", "http://guest");
    if (url.pathname === "/init") {
      request.resume();
      response.writeHead(204).end();
      return;
    }
    const token = request.headers["x-access-token"];
    asked.push({ path: url.pathname, query: Object.fromEntries(url.searchParams), token });
    response.writeHead(200, { "content-type": GUEST_LOGS_TYPE }).end(ndjson(...entries));
  };
  const daemon = createServer(answer);
  fleet.node.guest(49_983, (socket: Duplex) => daemon.emit("connection", socket));
  return { fleet, asked };
}

/** Writes until the other side has had enough. */
async function writeOn(socket: Duplex, piece: string | Buffer): Promise<number> {
  let written = 0;
  while (socket.writable) {
    written += piece.length;
    if (!socket.write(piece)) {
      await new Promise<void>((resolve) => {
        socket.once("drain", resolve).once("close", resolve);
      });
    }
    await nextTurn();
  }
  return written;
}

describe("the log of a sandbox", () => {
  it("comes as the first version's clients read it: each line a JSON text with a level, and once more in parts", async () => {
    const { fleet } = loggingFleet([OUT, ERR]);
    const reply = await fleet.send("GET", `${V1}/${await fleet.create()}/logs`);
    expect(reply.status).toBe(200);
    expect(reply.headers.get("content-type")).toBe("application/json");
    expect(reply.body.logs.map((item: { timestamp: string }) => item.timestamp)).toStrictEqual([
      "2026-02-03T04:05:06.078Z",
      "2026-02-03T04:05:06.079Z",
    ]);
    expect(reply.body.logs.map((item: { line: string }): unknown => JSON.parse(item.line))).toStrictEqual([
      { level: "info", logger: "process.stdout", message: 'say "€"', pid: 7 },
      { level: "error", logger: "process.stderr", message: "", pid: 8 },
    ]);
    expect(reply.body.logEntries[0]).toStrictEqual({
      timestamp: "2026-02-03T04:05:06.078Z",
      level: "info",
      message: 'say "€"',
      fields: { logger: "process.stdout", pid: "7" },
    });
  });

  it("comes as the second version's clients read it", async () => {
    const { fleet } = loggingFleet([OUT, ERR]);
    const reply = await fleet.send("GET", `${V2}/${await fleet.create()}/logs`);
    expect(reply.body).toStrictEqual({
      logs: [
        {
          timestamp: "2026-02-03T04:05:06.078Z",
          level: "info",
          message: 'say "€"',
          fields: { logger: "process.stdout", pid: "7" },
        },
        {
          timestamp: "2026-02-03T04:05:06.079Z",
          level: "error",
          message: "",
          fields: { logger: "process.stderr", pid: "8" },
        },
      ],
    });
  });

  it.each([
    [V1, "", { limit: "10000" }],
    [V1, "?start=1700000000000&limit=5", { cursor: "1700000000000", limit: "5" }],
    [V1, "?limit=2147483647", { limit: "10000" }],
    [V1, "?start=9223372036854775807", { cursor: "9007199254740991", limit: "10000" }],
    [V2, "", { limit: "1000" }],
    [
      V2,
      "?cursor=12&limit=7&direction=backward&level=warn&search=a%20%26b",
      { cursor: "12", limit: "7", direction: "backward", level: "warn", search: "a &b" },
    ],
  ])("is cut out by the guest: %s%s", async (base, text, query) => {
    const { fleet, asked } = loggingFleet([]);
    const reply = await fleet.send("GET", `${base}/${await fleet.create()}/logs${text}`);
    expect(reply.status).toBe(200);
    expect(asked).toStrictEqual([{ path: "/_sandbox/logs", query, token: undefined }]);
  });

  it("is asked for with the guest's own token when there is a secret, and with none when there is not", async () => {
    const { fleet, asked } = loggingFleet([OUT], { envdSecret: SECRET });
    const id = await fleet.create();
    expect((await fleet.send("GET", `${V1}/${id}/logs`)).body.logs).toHaveLength(1);
    const claimToken = fleet.node.sandboxes[0]?.token ?? "";
    expect(asked.map(({ token }) => token)).toStrictEqual([guestAccessToken(claimToken, SECRET)]);
    const plain = loggingFleet([OUT]);
    await plain.fleet.send("GET", `${V1}/${await plain.fleet.create()}/logs`);
    expect(plain.asked.map(({ token }) => token)).toStrictEqual([undefined]);
  });

  it.each([V1, V2])("of a paused sandbox is an empty page, and it stays paused: %s", async (base) => {
    const { fleet, asked } = loggingFleet([OUT]);
    const id = await fleet.create();
    await fleet.send("GET", `${base}/${id}/logs`);
    await fleet.send("POST", `/sandboxes/${id}/pause`);
    const reply = await fleet.send("GET", `${base}/${id}/logs`);
    expect([reply.status, reply.text]).toStrictEqual([200, EMPTY[base]]);
    expect(asked).toHaveLength(1);
    expect(fleet.calls("dialPort").map(({ token }) => token)).toStrictEqual([""]);
    expect(fleet.calls("wake")).toHaveLength(0);
    expect((await fleet.send("GET", `/sandboxes/${id}`)).body.state).toBe("paused");
  });

  it("of a sandbox that falls asleep in between is an empty page", async () => {
    const { fleet } = loggingFleet([OUT]);
    const id = await fleet.create();
    fleet.node.script("dialPort", answers(409, "sandbox is paused"));
    expect((await fleet.send("GET", `${V1}/${id}/logs`)).text).toBe(EMPTY[V1]);
  });

  it.each([
    [V1, "start=-1"],
    [V1, "start=1.5"],
    [V1, "start=now"],
    [V1, "start="],
    [V1, "start=9223372036854775808"],
    [V1, "limit=-1"],
    [V1, "limit=2147483648"],
    [V1, "limit=ten"],
    [V2, "cursor=-1"],
    [V2, "cursor=1e3"],
    [V2, "limit=1001"],
    [V2, "limit="],
    [V2, "direction=down"],
    [V2, "level=INFO"],
    [V2, "level=fatal"],
    [V2, `search=${"x".repeat(257)}`],
  ])("with a bad query is a 400 that names it, before anything is asked: %s %s", async (base, query) => {
    const { fleet } = loggingFleet([]);
    const before = fleet.nodes.calls.length;
    const reply = await fleet.send("GET", `${base}/sb-00ff/logs?${query}`);
    expect(reply.status).toBe(400);
    expect(reply.body).toStrictEqual({ code: 400, message: expect.stringContaining(`${query.split("=")[0]}: want`) });
    expect(fleet.nodes.calls).toHaveLength(before);
  });

  it.each([V1, V2])("of an unknown sandbox, or one that its node has lost, is a 404 with a code: %s", async (base) => {
    const { fleet } = loggingFleet([]);
    const id = await fleet.create();
    fleet.node.lose(id.replace("-", "_"));
    for (const asked of ["sb-00ff", id]) {
      const reply = await fleet.send("GET", `${base}/${asked}/logs`);
      expect([reply.status, reply.body.code]).toStrictEqual([404, 404]);
    }
  });

  it("is a 500 when the node fails: an empty page would be a lie", async () => {
    const { fleet } = loggingFleet([]);
    const id = await fleet.create();
    fleet.node.always("sandbox", fails({ kind: "unsent" }));
    expect((await fleet.send("GET", `${V1}/${id}/logs`)).status).toBe(500);
  });

  it("is not read on for a client that has left", async () => {
    const fleet = createFleet();
    const id = await fleet.create();
    const dialled = Promise.withResolvers<Duplex>();
    fleet.node.guest(49_983, dialled.resolve);
    const client = new AbortController();
    const reply = fleet.send("GET", `${V1}/${id}/logs`, undefined, { signal: client.signal });
    const guest = await dialled.promise;
    guest.resume();
    client.abort();
    expect((await reply).status).toBe(499);
    await expect.poll(() => guest.readableEnded || guest.destroyed).toBe(true);
  });
});

const HEAD = `HTTP/1.1 200 OK\r\ncontent-type: ${GUEST_LOGS_TYPE}\r\n`;
const UNREACHABLE = /could not be reached/;
const NO_ENTRY = /not a log entry/;
const LONG = "m".repeat(32_000);
const CHUNKED = `${HEAD}transfer-encoding: chunked\r\n\r\n`;

describe("a guest without a log of ours", () => {
  const say =
    (bytes: string) =>
    (socket: Duplex): void =>
      void socket.end(bytes);
  const sayOn =
    (bytes: string, piece: string | Buffer) =>
    (socket: Duplex): void => {
      socket.write(bytes);
      void writeOn(socket, piece);
    };
  const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
  const line = (change: object): string => answerOf(ndjson({ ...OUT, ...change }));

  it.each<readonly [string, RegExp, (socket: Duplex) => void]>([
    ["of another daemon", /with 404/, say(answerOf('{"code":404}', "HTTP/1.1 404 Not Found\r\n"))],
    ["with another token", /with 401/, say(answerOf('{"code":401}', "HTTP/1.1 401 Unauthorized\r\n"))],
    ["that fails", /with 500/, say(answerOf("", "HTTP/1.1 500 Oh\r\n"))],
    ["that redirects", /with 302/, say(answerOf("", "HTTP/1.1 302 Found\r\nlocation: http://10.0.0.1/\r\n"))],
    ["that answers every path", /type/, say(answerOf("<html>", "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n"))],
    ["that switches protocols", /switched/, say("HTTP/1.1 101 Go\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nx")],
    ["that hangs up at once", UNREACHABLE, (socket) => void socket.destroy()],
    ["that ends at once", UNREACHABLE, say("")],
    ["that speaks no HTTP", UNREACHABLE, say("SSH-2.0-OpenSSH_9.6\r\n")],
    ["that sends zeros for ever", UNREACHABLE, sayOn("", Buffer.alloc(65_536))],
    ["with headers without an end", UNREACHABLE, sayOn(HEAD, `x: ${"y".repeat(1000)}\r\n`)],
    ["with interim answers without an end", /within 2000 ms/, sayOn("", "HTTP/1.1 100 Continue\r\n\r\n".repeat(100))],
    ["with one line without an end", /line is too long/, sayOn(CHUNKED, chunk("z".repeat(32_768)))],
    ["with a log without an end", /longer than 8388608/, sayOn(CHUNKED, chunk(ndjson({ ...OUT, message: LONG })))],
    ["with short lines without an end", /more than 10000 lines/, sayOn(CHUNKED, chunk(ndjson(OUT).repeat(500)))],
    ["with one line too many", /more than 10000 lines/, say(answerOf(ndjson(OUT).repeat(MAX_LOG_LINES + 1)))],
    ["that stops in the middle", UNREACHABLE, say(`${HEAD}content-length: 10000\r\n\r\n${ndjson(OUT)}`)],
    ["with half a last line", /not complete/, say(answerOf(ndjson(OUT).slice(0, -2)))],
    ["with a last line without an end", /not complete/, say(answerOf(ndjson(OUT).slice(0, -1)))],
    ["with lines that are no JSON", /not JSON/, say(answerOf(`${ndjson(OUT)}nonsense\n`))],
    ["with an empty line", /not JSON/, say(answerOf(`${ndjson(OUT)}\n`))],
    ["with JSON of another kind", NO_ENTRY, say(answerOf("[1]\n"))],
    ["with null", NO_ENTRY, say(answerOf("null\n"))],
    ["with an unknown level", NO_ENTRY, say(line({ level: "fatal" }))],
    ["with a level that is an object", NO_ENTRY, say(line({ level: { toString: "x" } }))],
    ["with a message that is a number", NO_ENTRY, say(line({ message: 5 }))],
    ["without a message", NO_ENTRY, say(line({ message: undefined }))],
    ["with a time that is no date", NO_ENTRY, say(line({ timestampMs: 9e15 }))],
    ["with a time before all times", NO_ENTRY, say(line({ timestampMs: -1 }))],
    ["with a pid that is text", NO_ENTRY, say(line({ pid: "7" }))],
    ["with a number that is none", NO_ENTRY, say(answerOf(ndjson(OUT).replace('"seq":3', '"seq":1e999')))],
  ])("%s gives the empty page, and a line at debug: %s", async (_what, reason, guest) => {
    const fleet = createFleet();
    const id = await fleet.create();
    fleet.node.guest(49_983, (socket) => {
      socket.on("error", () => undefined);
      guest(socket);
    });
    const since = fleet.lines.length;
    // One after the other: the guest's time is limited, and some of these answers are long.
    const older = await fleet.send("GET", `${V1}/${id}/logs`);
    const newer = await fleet.send("GET", `${V2}/${id}/logs`);
    expect([older.status, older.text]).toStrictEqual([200, EMPTY[V1]]);
    expect([newer.status, newer.text]).toStrictEqual([200, EMPTY[V2]]);
    const said = fleet.lines.slice(since).filter(({ message }) => message !== "request");
    const wanted = {
      level: "debug",
      message: "the guest gave no log",
      fields: { sandboxId: id, node: NODE, err: { message: expect.stringMatching(reason) } },
    };
    expect(said).toMatchObject([wanted, wanted]);
  });

  it.each([
    ["whose port is closed", answers(502, "guest port unreachable")],
    ["whose node does not relay", fails({ kind: "uncertain" })],
    ["whose node keeps silent", staysSilent()],
  ])("%s gives the empty page", async (_what, step) => {
    const { fleet } = loggingFleet([OUT]);
    const id = await fleet.create();
    fleet.node.script("dialPort", step);
    expect((await fleet.send("GET", `${V1}/${id}/logs`)).text).toBe(EMPTY[V1]);
    expect((await fleet.send("GET", `${V1}/${id}/logs`)).body.logs).toHaveLength(1);
  });

  it("that keeps silent holds up no more than a few reads at a time, and none for long", async () => {
    const fleet = createFleet();
    const id = await fleet.create();
    let open = 0;
    fleet.node.guest(49_983, (socket) => {
      open += 1;
      socket.on("error", () => undefined);
      socket.on("close", () => {
        open -= 1;
      });
      socket.resume().on("end", () => socket.destroy());
    });
    const replies = Array.from({ length: 30 }, () => fleet.send("GET", `${V1}/${id}/logs`));
    await expect.poll(() => open).toBe(8);
    await delay(50);
    expect(open).toBe(8);
    expect((await Promise.all(replies)).every(({ text }) => text === EMPTY[V1])).toBe(true);
    await expect.poll(() => open).toBe(0);
  });
});
