import { once } from "node:events";
import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { createServer, request } from "node:http";
import type { ClientRequest, IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Call } from "../call.ts";
import { createFleet, KEY_1 } from "../testing/fleet.ts";
import type { Fleet } from "../testing/fleet.ts";
import { uploadBody } from "./upload-body.ts";

const HASH = "ab".repeat(32);
const MEBIBYTE = 1024 * 1024;
const MAX_BYTES = 100 * MEBIBYTE;

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "uploads-"));
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

interface Site extends AsyncDisposable {
  readonly fleet: Fleet;
  /** Opens the upload of an archive. */
  readonly put: (headers?: Record<string, string | number>) => Promise<ClientRequest>;
}

/** An API that listens: what comes through its own listener takes another way than web streams. */
async function listening(bodyIdleTimeoutMs = 60_000): Promise<Site> {
  const builds = { uploads: { directory, maxBytes: MAX_BYTES } };
  const fleet = createFleet({ envdSecret: "s3cret", builds, bodyIdleTimeoutMs });
  const stop = new AbortController();
  const bound = Promise.withResolvers<AddressInfo>();
  const served = fleet.server.serve("127.0.0.1:0", { signal: stop.signal, onListening: bound.resolve });
  const { port } = await bound.promise;
  const reply = await fetch(`http://127.0.0.1:${port}/templates/mine/files/${HASH}`, {
    headers: { "x-api-key": KEY_1 },
  });
  const { url } = (await reply.json()) as { url: string };
  return {
    fleet,
    put: async (headers = {}) => {
      expect(url).toContain(`http://127.0.0.1:${port}/`);
      const call = request(url, { method: "PUT", headers, agent: false });
      call.on("error", () => undefined);
      return call;
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await served;
    },
  };
}

async function answerTo(
  call: ClientRequest,
): Promise<{ status: number; text: string; headers: IncomingMessage["headers"] }> {
  const [response] = (await once(call, "response")) as [IncomingMessage];
  return { status: response.statusCode ?? 0, text: await text(response), headers: response.headers };
}

const files = async (): Promise<string[]> =>
  (await readdir(directory, { recursive: true })).filter((name) => name.includes(".tar"));

describe("an upload over the listener", () => {
  it("of forty megabytes arrives whole", async () => {
    await using site = await listening();
    const call = await site.put({ "content-length": 40 * MEBIBYTE });
    const chunk = Buffer.alloc(MEBIBYTE, 7);
    for (let count = 0; count < 40; count += 1) {
      if (!call.write(chunk)) {
        await once(call, "drain");
      }
    }
    call.end();
    const { status, text: body, headers } = await answerTo(call);
    expect([status, body, headers["content-length"]]).toStrictEqual([200, "", "0"]);
    const [name] = await files();
    expect((await stat(join(directory, name ?? ""))).size).toBe(40 * MEBIBYTE);
  });

  it("waits for whoever takes it, so that memory stays flat", async () => {
    const slow = Promise.withResolvers<number>();
    const server = createServer((incoming, outgoing) => {
      const direct = { incoming, outgoing, bodyIdleTimeoutMs: 60_000, closing: () => false };
      const call = { direct, context: { req: { header: () => undefined } } } as unknown as Call;
      void (async () => {
        for await (const _ of uploadBody(call, MAX_BYTES)) {
          await new Promise((resolve) => setTimeout(resolve, 300));
          slow.resolve(incoming.socket.bytesRead);
          break;
        }
        outgoing.end();
      })();
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const call = request({ port, host: "127.0.0.1", method: "PUT", headers: { "content-length": 40 * MEBIBYTE } });
    call.on("error", () => undefined);
    for (let count = 0; count < 40; count += 1) {
      call.write(Buffer.alloc(MEBIBYTE));
    }
    expect(await slow.promise).toBeLessThan(2 * MEBIBYTE);
    call.destroy();
    server.closeAllConnections();
    server.close();
  });

  it("that says it is too large is refused before it is read", async () => {
    await using site = await listening();
    const call = await site.put({ "content-length": MAX_BYTES + 1 });
    call.flushHeaders();
    const { status, text: body } = await answerTo(call);
    expect([status, JSON.parse(body)]).toStrictEqual([413, { code: 413, message: expect.stringContaining("larger") }]);
    call.destroy();
    expect(await files()).toStrictEqual([]);
  });

  it("that turns out too large is refused in the middle, and its client reads why", async () => {
    await using site = await listening();
    const call = await site.put({ "transfer-encoding": "chunked" });
    const answer = answerTo(call);
    const chunk = Buffer.alloc(MEBIBYTE);
    for (let count = 0; count < 110; count += 1) {
      if (!call.write(chunk)) {
        await Promise.race([once(call, "drain"), answer]);
      }
    }
    call.end();
    expect((await answer).status).toBe(413);
    expect(await files()).toStrictEqual([]);
  });

  it("leaves nothing when its client hangs up", async () => {
    await using site = await listening();
    const call = await site.put({ "content-length": 1000 });
    call.write("half");
    await expect.poll(files).toHaveLength(1);
    call.destroy();
    await expect.poll(files).toStrictEqual([]);
    const failed = site.fleet.lines.filter(({ level }) => level === "error" || level === "warn");
    expect(failed).toStrictEqual([]);
  });

  it("leaves nothing when its client stops in the middle, and is answered", async () => {
    await using site = await listening(100);
    const call = await site.put({ "content-length": 1000 });
    call.write("half");
    const { status, text: body } = await answerTo(call);
    expect([status, JSON.parse(body)]).toMatchObject([400, { message: expect.stringContaining("stopped coming") }]);
    expect(await files()).toStrictEqual([]);
    call.destroy();
  });

  it("may be empty", async () => {
    await using site = await listening();
    const call = await site.put({ "content-length": 0 });
    call.end();
    expect((await answerTo(call)).status).toBe(200);
    expect(await files()).toHaveLength(1);
  });
});
