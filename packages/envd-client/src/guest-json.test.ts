import { duplexPair } from "node:stream";
import type { Duplex } from "node:stream";

import { describe, expect, it } from "vitest";

import type { DialGuest } from "./guest-call.ts";
import { readGuestJson } from "./guest-json.ts";

/** A guest that answers every request with these bytes; without them it stays silent. */
function guest(answer: string | undefined): {
  dial: DialGuest;
  received: () => string;
  ours: () => Duplex | undefined;
} {
  let received = "";
  let dialled: Duplex | undefined;
  return {
    dial: () => {
      const [ours, theirs] = duplexPair();
      dialled = ours;
      theirs.on("error", () => undefined);
      theirs.on("data", (data: Buffer) => {
        received += data.toString("latin1");
        if (received.endsWith("\r\n\r\n") && answer !== undefined) theirs.end(answer);
      });
      return Promise.resolve(ours);
    },
    received: () => received,
    ours: () => dialled,
  };
}

function ok(body: string): string {
  return `HTTP/1.1 200 OK\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

describe("readGuestJson", () => {
  it("gives the document, sends the token, and closes its connection", async () => {
    const { dial, received, ours } = guest(ok('{"ts":1}'));
    await expect(readGuestJson(dial, "/metrics", { accessToken: "secret" })).resolves.toStrictEqual({ ts: 1 });
    expect(received()).toMatch(/^GET \/metrics HTTP\/1\.1\r\n/);
    expect(received()).toContain("x-access-token: secret\r\n");
    expect(ours()?.destroyed).toBe(true);
  });

  it("sends no token when there is none", async () => {
    const { dial, received } = guest(ok("null"));
    await expect(readGuestJson(dial, "/envs")).resolves.toBeNull();
    expect(received().toLowerCase()).not.toContain("token");
  });

  it.each([
    ["another status", "HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\n{}", { code: "refused", status: 401 }],
    ["no JSON", ok("<html>"), { code: "malformed" }],
    ["an empty body", ok(""), { code: "malformed" }],
    ["a long body", ok(`"${"x".repeat(100)}"`), { code: "malformed", message: expect.stringContaining("64 bytes") }],
    ["half a body", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{", { code: "unreachable" }],
    ["no HTTP", "hello\r\n\r\n", { code: "unreachable" }],
    [
      "a switch of protocols",
      "HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
      { code: "malformed" },
    ],
    ["silence", undefined, { code: "timeout" }],
  ])("rejects %s", async (_what, answer, error) => {
    const { dial, ours } = guest(answer);
    const call = readGuestJson(dial, "/metrics", { maxBytes: 64, timeoutMs: 200 });
    await expect(call).rejects.toMatchObject({ name: "EnvdClientError", ...error });
    expect(ours()?.destroyed).toBe(true);
  });

  it("ends with its caller", async () => {
    const caller = new AbortController();
    const call = readGuestJson(guest(undefined).dial, "/metrics", { signal: caller.signal });
    caller.abort();
    await expect(call).rejects.toMatchObject({ code: "aborted" });
  });
});
