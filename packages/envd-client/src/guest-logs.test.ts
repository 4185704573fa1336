import { duplexPair, type Duplex } from "node:stream";

import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import type { DialGuest } from "./guest-call.ts";
import { GUEST_LOGS_TYPE, LOG_LEVELS, type LogEntry, type LogQuery, readGuestLogs } from "./guest-logs.ts";

interface Guest {
  readonly dial: DialGuest;
  readonly received: () => string;
  /** Our end of the connection. */
  readonly connection: () => Duplex | undefined;
}

/** A guest that answers with these pieces, one after the other, as soon as it was asked. */
function guestOf(pieces: readonly (string | Buffer)[]): Guest {
  let received = "";
  let connection: Duplex | undefined;
  return {
    received: () => received,
    connection: () => connection,
    dial: () => {
      const [ours, theirs] = duplexPair();
      connection = ours;
      theirs.on("error", () => undefined);
      theirs.on("data", (data: Buffer) => {
        received += data.toString("latin1");
        if (!received.endsWith("\r\n\r\n")) return;
        for (const piece of pieces) theirs.write(piece);
      });
      return Promise.resolve(ours);
    },
  };
}

function headOf(length: number): string {
  return `HTTP/1.1 200 OK\r\ncontent-type: ${GUEST_LOGS_TYPE}\r\ncontent-length: ${length}\r\n\r\n`;
}

async function read(guest: Guest, query: LogQuery = {}, accessToken?: string): Promise<LogEntry[]> {
  const entries: LogEntry[] = [];
  await readGuestLogs(guest.dial, query, (entry) => entries.push(entry), { accessToken });
  return entries;
}

const entry: fc.Arbitrary<LogEntry> = fc.record(
  {
    seq: fc.nat(),
    timestampMs: fc.nat({ max: 4e12 }),
    level: fc.constantFrom(...LOG_LEVELS),
    logger: fc.constantFrom("process.stdout", "process.stderr"),
    pid: fc.nat(),
    message: fc.string({ unit: "binary", maxLength: 50 }),
  },
  { noNullPrototype: true },
);

describe("readGuestLogs", () => {
  it("hands over every line, however the answer is cut into pieces", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(entry, { maxLength: 12 }),
        fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1, maxLength: 8 }),
        async (entries, sizes) => {
          const body = Buffer.from(entries.map((one) => `${JSON.stringify(one)}\n`).join(""));
          const pieces: Buffer[] = [];
          for (let at = 0; at < body.length;) {
            const size = sizes[pieces.length % sizes.length] ?? 1;
            pieces.push(body.subarray(at, at + size));
            at += size;
          }
          expect(await read(guestOf([headOf(body.length), ...pieces]))).toStrictEqual(entries);
        },
      ),
    );
  });

  it("asks for the page with what the query has, and for nothing else", async () => {
    const plain = guestOf([headOf(0)]);
    expect(await read(plain)).toStrictEqual([]);
    expect(plain.received()).toMatch(/^GET \/_sandbox\/logs\? HTTP\/1\.1\r\n/);
    expect(plain.received().toLowerCase()).not.toContain("x-access-token");
    const full = guestOf([headOf(0)]);
    await read(full, { cursorMs: 5, limit: 0, direction: "backward", level: "warn", search: "ä &\r\n" }, "t0k3n");
    expect(full.received()).toContain(
      "GET /_sandbox/logs?cursor=5&limit=0&direction=backward&level=warn&search=%C3%A4+%26%0D%0A HTTP/1.1\r\n",
    );
    expect(full.received().toLowerCase()).toContain("x-access-token: t0k3n\r\n");
    expect(full.connection()?.destroyed).toBe(true);
  });

  it("knows no more of an entry than its own fields", async () => {
    const body = `${JSON.stringify({ seq: 1, timestampMs: 2, level: "info", logger: "l", pid: 3, message: "m", more: 4 })}\n`;
    expect(await read(guestOf([headOf(body.length), body]))).toStrictEqual([
      { seq: 1, timestampMs: 2, level: "info", logger: "l", pid: 3, message: "m" },
    ]);
  });

  it.each([
    ["a daemon without a log", "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "refused", 404],
    ["another kind of answer", "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}\n", "malformed", undefined],
    ["a line of another kind", `${headOf(3)}{}\n`, "malformed", undefined],
    ["a broken answer", "nonsense\r\n\r\n", "unreachable", undefined],
  ])("reports %s", async (_what, bytes, code, status) => {
    const guest = guestOf([bytes]);
    await expect(read(guest, {}, "secret-token")).rejects.toMatchObject({ code, status });
    await expect(read(guestOf([bytes]), {}, "secret-token")).rejects.not.toThrow("secret-token");
    expect(guest.connection()?.destroyed).toBe(true);
  });

  it("ends in time when the guest stops in the middle", async () => {
    const guest = guestOf([headOf(100)]);
    const reading = readGuestLogs(guest.dial, {}, () => undefined, { timeoutMs: 30 });
    await expect(reading).rejects.toMatchObject({ code: "timeout" });
    expect(guest.connection()?.destroyed).toBe(true);
  });

  it("ends with the caller's signal", async () => {
    const caller = new AbortController();
    const guest = guestOf([]);
    const reading = readGuestLogs(guest.dial, {}, () => undefined, { signal: caller.signal });
    await expect.poll(() => guest.received()).toContain("GET ");
    caller.abort();
    await expect(reading).rejects.toMatchObject({ code: "aborted" });
    expect(guest.connection()?.destroyed).toBe(true);
  });
});
