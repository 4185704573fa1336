import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { buffer } from "node:stream/consumers";

import { describe, expect, it } from "vitest";

import { putBootDocument } from "./boot-document.ts";
import { EnvdClientError } from "./errors.ts";
import { putGuestFile } from "./guest-files.ts";
import type { DialGuest } from "./guest-call.ts";
import { runGuestCommand } from "./run-command.ts";

interface Daemon extends AsyncDisposable {
  readonly dial: DialGuest;
  readonly seen: {
    readonly method: string;
    readonly target: string;
    readonly headers: object;
    readonly body: Buffer;
  }[];
  /** Connections that are open now. */
  readonly open: () => Promise<number>;
}

/** A daemon that answers each request as told. */
async function daemon(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<Daemon> {
  const seen: Daemon["seen"] = [];
  const server = createServer((request, response) => {
    const serve = async (): Promise<void> => {
      const body = await buffer(request);
      seen.push({ method: request.method ?? "", target: request.url ?? "", headers: request.headers, body });
      answer(request, response);
    };
    serve().catch(() => undefined);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    seen,
    dial: async () => {
      const socket = connect(port, "127.0.0.1");
      await once(socket, "connect");
      return socket;
    },
    open: () =>
      new Promise((resolve, reject) => {
        server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)));
      }),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

function frame(value: unknown, flags = 0): Buffer {
  const payload = Buffer.from(typeof value === "string" ? value : JSON.stringify(value));
  const head = Buffer.alloc(5);
  head.writeUInt8(flags, 0);
  head.writeUInt32BE(payload.length, 1);
  return Buffer.concat([head, payload]);
}

const START = frame({ event: { start: { pid: 42 } } });
const out = (text: string, name = "stdout"): Buffer =>
  frame({ event: { data: { [name]: Buffer.from(text).toString("base64") } } });
const END = frame({ event: { end: { exited: true, status: "exit status 0" } } });
const LAST = frame({}, 2);
const STREAM = { "content-type": "application/connect+json" };

/** A daemon whose answer to every command are these bytes; `false` at the end keeps the answer open. */
const playing = (...frames: readonly (Buffer | false)[]): Promise<Daemon> =>
  daemon((_request, response) => {
    response.writeHead(200, STREAM);
    const bytes = Buffer.concat(frames.filter((one): one is Buffer => one !== false));
    if (frames.at(-1) === false) response.write(bytes);
    else response.end(bytes);
  });

async function failureOf(call: Promise<unknown>): Promise<EnvdClientError> {
  const error: unknown = await call.then(
    () => new Error("the call was expected to fail"),
    (reason: unknown) => reason,
  );
  if (error instanceof EnvdClientError) return error;
  throw error;
}

describe("runGuestCommand", () => {
  it("tells the daemon all of the command, and the caller all of its output and its end", async () => {
    const end = frame({ event: { end: { exitCode: 3, exited: true, status: "exit status 3", error: "x" } } });
    const keepalive = frame({ event: { keepalive: {} } });
    await using guest = await playing(START, out("a"), keepalive, out("e", "stderr"), out("ü\n"), end, LAST);
    const said: string[] = [];
    const outcome = await runGuestCommand(
      guest.dial,
      { cmd: "/bin/sh", args: ["-c", "exit 3"], user: "üser", cwd: "/x", envs: { A: "1" } },
      {
        accessToken: "secret",
        onStart: (pid) => said.push(`pid ${pid}`),
        onOutput: (stream, bytes) => said.push(`${stream} ${Buffer.from(bytes).toString()}`),
      },
    );
    expect(outcome).toEqual({ exitCode: 3, status: "exit status 3" });
    expect(said).toEqual(["pid 42", "stdout a", "stderr e", "stdout ü\n"]);
    const [request] = guest.seen;
    expect([request?.method, request?.target]).toEqual(["POST", "/process.Process/Start"]);
    expect(request?.headers).toMatchObject({
      authorization: `Basic ${Buffer.from("üser:").toString("base64")}`,
      "x-access-token": "secret",
      "content-type": "application/connect+json",
      "keepalive-ping-interval": "20",
    });
    expect(JSON.parse(request?.body.subarray(5).toString() ?? "")).toEqual({
      process: { cmd: "/bin/sh", args: ["-c", "exit 3"], envs: { A: "1" }, cwd: "/x" },
      stdin: false,
    });
  });

  it("names neither user, folder nor token that it was not given", async () => {
    await using guest = await playing(START, END, LAST);
    expect(await runGuestCommand(guest.dial, { cmd: "true" })).toEqual({ exitCode: 0, status: "exit status 0" });
    expect(Object.keys(guest.seen[0]?.headers ?? {})).not.toContain("authorization");
    expect(guest.seen[0]?.body.toString()).not.toContain("cwd");
  });

  it("reads a stream however it is cut", async () => {
    const bytes = Buffer.concat([START, out("x".repeat(5000)), END, LAST]);
    await using guest = await daemon((_request, response) => {
      response.writeHead(200, STREAM);
      void (async () => {
        for (let at = 0; at < bytes.length; at += 700) {
          response.write(bytes.subarray(at, at + 700));
          await new Promise((resolve) => setImmediate(resolve));
        }
        response.end();
      })();
    });
    let length = 0;
    const onOutput = (_stream: string, chunk: Uint8Array): void => void (length += chunk.length);
    await runGuestCommand(guest.dial, { cmd: "x" }, { onOutput });
    expect(length).toBe(5000);
  });

  it("gives -1 for a command that a signal ended", async () => {
    const end = frame({ event: { end: { exitCode: -1, status: "signal: killed" } } });
    await using guest = await playing(START, end, LAST);
    expect(await runGuestCommand(guest.dial, { cmd: "x" })).toEqual({ exitCode: -1, status: "signal: killed" });
  });

  it.each<[string, readonly (Buffer | false)[], object]>([
    [
      "a refusal in the stream",
      [frame({ error: { code: "invalid_argument", message: "cwd '/x' does not exist" } }, 2)],
      { code: "refused", guestMessage: "cwd '/x' does not exist" },
    ],
    ["a stream without its last message", [START, out("x")], { code: "unreachable" }],
    ["a stream that ends in a message", [START, END.subarray(0, 9)], { code: "unreachable" }],
    ["a stream without the command's end", [START, LAST], { code: "refused" }],
    ["a message that is no JSON", [frame("{"), LAST], { code: "malformed" }],
    ["a message that is none", [frame({ event: { start: { pid: "x" } } }), LAST], { code: "malformed" }],
    ["a compressed message", [frame({}, 1)], { code: "malformed" }],
    ["a message without end", [Buffer.from([0, 0xff, 0xff, 0xff, 0xff])], { code: "malformed" }],
  ])("fails for %s", async (_what, frames, error) => {
    await using guest = await playing(...frames);
    expect(await failureOf(runGuestCommand(guest.dial, { cmd: "x" }))).toMatchObject(error);
  });

  it("fails for an answer that is no stream, with the daemon's words and without its length", async () => {
    await using guest = await daemon((_request, response) => {
      response.writeHead(401, { "content-type": "application/json" });
      response.end(JSON.stringify({ code: 401, message: "no".repeat(5000) }));
    });
    const error = await failureOf(runGuestCommand(guest.dial, { cmd: "x" }));
    expect(error).toMatchObject({ code: "refused", status: 401 });
    expect(error.guestMessage).toHaveLength(300);
  });

  it("gives up a daemon that says nothing, before its answer and in the middle of it", async () => {
    await using mute = await daemon(() => undefined);
    await using stuck = await playing(START, false);
    for (const guest of [mute, stuck]) {
      const error = await failureOf(runGuestCommand(guest.dial, { cmd: "x" }, { idleTimeoutMs: 50 }));
      expect(error).toMatchObject({ code: "timeout", message: "guest was silent for 50 ms" });
      await expect.poll(guest.open).toBe(0);
    }
  });

  it("waits for a command that is silent while its daemon is not", async () => {
    await using guest = await daemon((_request, response) => {
      response.writeHead(200, STREAM).write(START);
      let count = 0;
      const timer = setInterval(() => {
        count += 1;
        response.write(frame({ event: { keepalive: {} } }));
        if (count === 10) {
          clearInterval(timer);
          response.end(Buffer.concat([END, LAST]));
        }
      }, 40);
    });
    expect(await runGuestCommand(guest.dial, { cmd: "x" }, { idleTimeoutMs: 200 })).toMatchObject({ exitCode: 0 });
  });

  it("ends with its signal and closes the connection", async () => {
    await using guest = await playing(START, false);
    const stop = new AbortController();
    const call = runGuestCommand(guest.dial, { cmd: "x" }, { signal: stop.signal, onStart: () => stop.abort() });
    expect(await failureOf(call)).toMatchObject({ code: "aborted" });
    await expect.poll(guest.open).toBe(0);
    expect(await failureOf(runGuestCommand(guest.dial, { cmd: "x" }, { signal: stop.signal }))).toMatchObject({
      code: "aborted",
    });
    expect(guest.seen).toHaveLength(1);
  });
});

describe("putGuestFile", () => {
  const options = { timeoutMs: 10_000 };

  it("sends a file to its path and user, from bytes and from a stream", async () => {
    await using guest = await daemon((_request, response) => void response.writeHead(200).end("[]"));
    async function* chunks(): AsyncGenerator<Uint8Array, void> {
      for (let index = 0; index < 100; index += 1) yield await Promise.resolve(Buffer.alloc(10_000, index));
    }
    await putGuestFile(guest.dial, { path: "/a b", user: "root", content: Buffer.from("x") }, options);
    await putGuestFile(guest.dial, { path: "/c", content: chunks() }, { ...options, accessToken: "t" });
    expect(guest.seen.map(({ target }) => target)).toEqual(["/files?path=%2Fa+b&username=root", "/files?path=%2Fc"]);
    expect(guest.seen.map(({ body }) => body.length)).toEqual([1, 1_000_000]);
    expect(guest.seen[0]?.headers).toMatchObject({ "content-type": "application/octet-stream", "content-length": "1" });
    expect(guest.seen[1]?.headers).toMatchObject({ "x-access-token": "t" });
  });

  it("fails with the daemon's words when it refuses in the middle", async () => {
    await using guest = await daemon(() => undefined);
    const refusing = createServer((request, response) => {
      request.resume();
      response.writeHead(507).end(JSON.stringify({ code: 507, message: "disk is full" }));
    });
    refusing.listen(0, "127.0.0.1");
    await once(refusing, "listening");
    const { port } = refusing.address() as AddressInfo;
    const dial: DialGuest = async () => connect(port, "127.0.0.1");
    async function* endless(): AsyncGenerator<Uint8Array, void> {
      for (;;) {
        await new Promise((resolve) => setTimeout(resolve, 5));
        yield Buffer.alloc(1000);
      }
    }
    const error = await failureOf(putGuestFile(dial, { path: "/a", content: endless() }, options));
    expect(error).toMatchObject({ code: "refused", status: 507, guestMessage: "disk is full" });
    refusing.closeAllConnections();
    refusing.close();
    expect(guest.seen).toEqual([]);
  });

  it("fails with the source's error as the cause when that breaks off", async () => {
    await using guest = await daemon((_request, response) => void response.writeHead(200).end());
    async function* broken(): AsyncGenerator<Uint8Array, void> {
      yield await Promise.resolve(Buffer.alloc(10));
      throw new Error("source broke");
    }
    const error = await failureOf(putGuestFile(guest.dial, { path: "/a", content: broken() }, options));
    expect(error.code).toBe("unreachable");
    expect(error.cause).toMatchObject({ message: "source broke" });
  });
});

describe("putBootDocument", () => {
  const boot = { user: "user", workdir: "/w", environment: { A: "1" }, startCommand: "serve" };

  it.each([
    [204, true],
    [404, false],
  ])("a daemon that answers %i keeps it: %s", async (status, keeps) => {
    await using guest = await daemon((_request, response) => void response.writeHead(status).end());
    expect(await putBootDocument(guest.dial, boot, { timeoutMs: 10_000 })).toBe(keeps);
    expect(guest.seen).toMatchObject([{ method: "PUT", target: "/_sandbox/boot" }]);
    expect(JSON.parse(guest.seen[0]?.body.toString() ?? "")).toEqual(boot);
  });

  it("fails for every other answer", async () => {
    await using guest = await daemon((_request, response) => void response.writeHead(400).end());
    const error = await failureOf(putBootDocument(guest.dial, boot, { timeoutMs: 10_000 }));
    expect(error).toMatchObject({ code: "refused", status: 400 });
  });
});
