import { connect, createServer, type Socket } from "node:net";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readAll } from "../testing/api.ts";
import { readFirstLine } from "./first-line.ts";

async function pair(run: (ours: Socket, theirs: Socket) => Promise<void>): Promise<void> {
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const accepted = new Promise<Socket>((resolve) => {
    server.once("connection", resolve);
  });
  const theirs = connect({ port: (server.address() as { port: number }).port, host: "127.0.0.1", allowHalfOpen: true });
  theirs.on("error", () => undefined).setNoDelay(true);
  const ours = await accepted;
  ours.on("error", () => undefined);
  try {
    await run(ours, theirs);
  } finally {
    ours.destroy();
    theirs.destroy();
    server.close();
  }
}

describe("the first line", () => {
  test("is read however the bytes arrive, and every byte behind it stays", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.stringMatching(/^[a-z0-9 .]{0,20}$/),
        fc.uint8Array({ maxLength: 60 }),
        fc.array(fc.nat(80), { maxLength: 6 }),
        (line, rest, cuts) =>
          pair(async (ours, theirs) => {
            const bytes = Buffer.concat([Buffer.from(`${line}\n`), rest]);
            let at = 0;
            for (const cut of [...cuts.toSorted((a, b) => a - b), bytes.length]) {
              theirs.write(bytes.subarray(at, cut));
              at = Math.max(at, cut);
              await new Promise((resolve) => setImmediate(resolve));
            }
            theirs.end();
            expect(await readFirstLine(ours, 40, 5000)).toBe(line);
            expect(Buffer.from(await readAll(ours), "latin1").equals(Buffer.from(rest))).toBe(true);
          }),
      ),
      { numRuns: 40 },
    );
  });

  test.each([
    ["too long", `${"x".repeat(41)}\n`, "the first line is too long"],
    ["endless", "x".repeat(100), "the first line is too long"],
    ["cut off", "abc", "the connection ended before its first line"],
  ])("that is %s is refused", async (_, text, message) => {
    await pair(async (ours, theirs) => {
      theirs.end(text);
      await expect(readFirstLine(ours, 40, 5000)).rejects.toThrow(message);
    });
  });

  test("that does not come is refused", async () => {
    await pair(async (ours) => {
      await expect(readFirstLine(ours, 40, 20)).rejects.toThrow("did not come in time");
    });
  });
});
