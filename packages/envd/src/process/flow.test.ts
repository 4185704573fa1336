import { createHash } from "node:crypto";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

import { describe, expect, it } from "vitest";

import { startGuest, type TestGuest } from "../testing/guest.ts";
import { envelope, openStream, type RawStream } from "../testing/raw-stream.ts";
import { collect, sh } from "../testing/run.ts";

const MIB = 1024 * 1024;
const TOTAL = 100 * MIB;

/** A busy machine takes its time to start a command, and to move the bytes. */
const START = { timeout: 20_000 };
const LONG_MS = 240_000;

/** Enough for many times what pipes and buffers hold. */
const SOME = 24 * MIB;

/** A command that waits for its followers and then writes so many bytes. */
const floodOf = (bytes: number): string => `read go; head -c ${bytes} /dev/zero; exit 3`;

async function flood(guest: TestGuest): Promise<{ streams: RawStream[]; pid: number; go: () => Promise<unknown> }> {
  const client = guest.process();
  const starter = await openStream(
    guest.port,
    "/process.Process/Start",
    envelope({ process: { cmd: "/bin/sh", args: ["-c", floodOf(SOME)] }, tag: "flood" }),
  );
  await expect.poll(async () => (await client.list({})).processes.length, START).toBe(1);
  const pid = (await client.list({})).processes[0]?.pid ?? 0;
  const follow = (): Promise<RawStream> =>
    openStream(guest.port, "/process.Process/Connect", envelope({ process: { pid } }));
  const streams = [starter, await follow(), await follow()];
  // Its first message leaves once a subscription stands, which its head does not wait for.
  for (const { res } of streams) {
    if (res.readableLength === 0) await once(res, "readable");
  }
  const process = { selector: { case: "pid", value: pid } } as const;
  const go = (): Promise<unknown> =>
    client.sendInput({ process, input: { input: { case: "stdin", value: Buffer.from("\n") } } });
  return { streams, pid, go };
}

/** Reads raw bytes until so many have come, then hangs up. */
async function readThenLeave({ res, req }: RawStream, bytes: number): Promise<void> {
  let read = 0;
  try {
    for await (const chunk of res as AsyncIterable<Buffer>) {
      read += chunk.length;
      if (read >= bytes) break;
    }
  } finally {
    req.destroy();
  }
}

/** The same events, and a promise that the first of them has come. */
function announced<T>(events: AsyncIterable<T>): [events: AsyncIterable<T>, begun: Promise<void>] {
  const { promise, resolve } = Promise.withResolvers<void>();
  async function* passed(): AsyncGenerator<T> {
    for await (const event of events) {
      resolve();
      yield event;
    }
  }
  return [passed(), promise];
}

describe("a flood through three subscribers", () => {
  it.each([[[0, 1, 2]], [[2, 1, 0]], [[1, 2, 0]], [[1, 0, 2]]])(
    "reaches its end whatever the order in which they leave: %j",
    async (order) => {
      await using guest = await startGuest();
      const { streams, pid, go } = await flood(guest);
      const leaving = streams.map((stream, index) => readThenLeave(stream, (order.indexOf(index) + 1) * 4 * MIB));
      await go();
      await Promise.all(leaving);
      const result = await collect(
        guest.process({ binary: true }).connect({ process: { selector: { case: "pid", value: pid } } }),
      );
      expect(result.end).toMatchObject({ exitCode: 3 });
    },
    LONG_MS,
  );

  it(
    "of 100 MiB reaches each of those who stay in full",
    async () => {
      await using guest = await startGuest();
      const client = guest.process({ binary: true });
      const starter = collect(
        client.start({ process: { cmd: "/bin/sh", args: ["-c", floodOf(TOTAL)] }, tag: "flood" }),
      );
      const process = { selector: { case: "tag", value: "flood" } } as const;
      await expect.poll(async () => (await client.list({})).processes.length, START).toBe(1);
      const [first, firstBegun] = announced(client.connect({ process }));
      const [second, secondBegun] = announced(guest.process().connect({ process }));
      const followers = [collect(first), collect(second)];
      await Promise.all([firstBegun, secondBegun]);
      await client.sendInput({ process, input: { input: { case: "stdin", value: Buffer.from("\n") } } });
      for (const { stdout, end } of await Promise.all([starter, ...followers])) {
        expect(stdout.length).toBe(TOTAL);
        expect(end).toMatchObject({ exitCode: 3 });
      }
    },
    LONG_MS,
  );
});

describe("a subscriber that does not read", () => {
  it(
    "holds up the command instead of filling memory, and loses nothing",
    async () => {
      await using guest = await startGuest();
      const text = "i=0; while [ $i -lt 2000 ]; do head -c 16384 /dev/zero; i=$((i+1)); echo $i > progress; done";
      const stream = await openStream(
        guest.port,
        "/process.Process/Start",
        envelope({ process: { cmd: "/bin/sh", args: ["-c", text] }, stdin: false }),
      );
      const progress = async (): Promise<number> =>
        Number((await sh(guest.process(), "cat progress")).stdout.toString());
      await expect.poll(progress, { timeout: 10_000 }).toBeGreaterThan(0);
      let before = -1;
      // It has come to a halt when two looks see the same.
      await expect
        .poll(
          async () => {
            const last = before;
            before = await progress();
            return before === last;
          },
          { timeout: 20_000, interval: 300 },
        )
        .toBe(true);
      expect(before).toBeLessThan(2000);
      let bytes = 0;
      for await (const { json } of stream.frames()) {
        const data = (json as { event?: { data?: { stdout: string } } }).event?.data?.stdout;
        if (data !== undefined) bytes += Buffer.from(data, "base64").length;
      }
      expect(bytes).toBe(2000 * 16_384);
    },
    LONG_MS,
  );

  it(
    "and leaves, sets the command free",
    async () => {
      await using guest = await startGuest();
      const { streams, pid, go } = await flood(guest);
      await go();
      await sleep(200);
      expect((await guest.process().list({})).processes).toHaveLength(1);
      for (const { req } of streams) req.destroy();
      const result = await collect(
        guest.process({ binary: true }).connect({ process: { selector: { case: "pid", value: pid } } }),
      );
      expect(result.end).toMatchObject({ exitCode: 3 });
    },
    LONG_MS,
  );
});

describe("many commands at once", () => {
  it("each give their own output", async () => {
    await using guest = await startGuest();
    const client = guest.process();
    const results = await Promise.all(
      Array.from({ length: 60 }, (_, index) => sh(client, `echo ${index}; head -c ${index * 1000} /dev/zero`)),
    );
    for (const [index, { stdout, end }] of results.entries()) {
      expect(stdout.subarray(0, stdout.indexOf(10)).toString()).toBe(String(index));
      expect(stdout.length).toBe(String(index).length + 1 + index * 1000);
      expect(end).toMatchObject({ status: "exit status 0" });
    }
    expect((await client.list({})).processes).toEqual([]);
  });

  it("interleave their two outputs without mixing bytes", async () => {
    await using guest = await startGuest();
    const text =
      "for i in 1 2 3 4 5 6 7 8; do head -c 100000 /dev/zero; head -c 100000 /dev/zero | tr '\\0' x >&2; done";
    const { stdout, stderr } = await sh(guest.process(), text);
    const sum = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");
    expect(sum(stdout)).toBe(sum(Buffer.alloc(800_000)));
    expect(sum(stderr)).toBe(sum(Buffer.alloc(800_000, "x")));
  });
});
