import { setTimeout as sleep } from "node:timers/promises";

import { Code, ConnectError } from "@connectrpc/connect";
import { Signal } from "@org/envd-client";
import { describe, expect, it } from "vitest";

import { isRoot, startGuest, type TestGuest } from "../testing/guest.ts";
import { envelope, openStream } from "../testing/raw-stream.ts";
import { collect, run, type RunResult } from "../testing/run.ts";

const SIZE = { cols: 80, rows: 24 };

interface Terminal {
  readonly result: Promise<RunResult>;
  readonly process: { readonly selector: { readonly case: "tag"; readonly value: string } };
  readonly type: (text: string | Uint8Array) => Promise<unknown>;
}

async function openTerminal(guest: TestGuest, tag: string, args = ["-i"]): Promise<Terminal> {
  const client = guest.process();
  const result = collect(client.start({ process: { cmd: "/bin/sh", args }, pty: { size: SIZE }, tag }));
  await expect.poll(async () => (await client.list({})).processes.some((item) => item.tag === tag)).toBe(true);
  const process = { selector: { case: "tag", value: tag } } as const;
  return {
    result,
    process,
    type: (text) => client.sendInput({ process, input: { input: { case: "pty", value: Buffer.from(text) } } }),
  };
}

function code(call: Promise<unknown>): Promise<Code | undefined> {
  return call.then(
    () => undefined,
    (error: unknown) => ConnectError.from(error).code,
  );
}

describe("a terminal", () => {
  it("has the size asked for, the new one after a resize, and ends with its shell", async () => {
    await using guest = await startGuest();
    const terminal = await openTerminal(guest, "t");
    await terminal.type("stty size\n");
    await sleep(300);
    await guest.process().update({ process: terminal.process, pty: { size: { cols: 100, rows: 30 } } });
    await terminal.type("stty size; exit 4\n");
    const { pty, end, stdout } = await terminal.result;
    expect(pty.toString()).toMatch(/24 80\r\n[^]*30 100\r\n/);
    expect(stdout.length).toBe(0);
    expect(end).toMatchObject({ exitCode: 4, exited: true });
  });

  it("is the controlling terminal: Ctrl+C interrupts, and the shell stays", async () => {
    await using guest = await startGuest();
    const terminal = await openTerminal(guest, "t");
    await terminal.type("sleep 100\n");
    await sleep(300);
    await terminal.type("\u0003");
    await sleep(100);
    await terminal.type("tty </dev/tty && echo c''ontrolled; exit\n");
    expect((await terminal.result).pty.toString()).toContain("controlled");
  });

  it("has a kind and a UTF-8 locale, which the request can change", async () => {
    await using guest = await startGuest();
    const show = async (envs: Record<string, string>): Promise<string> => {
      const process = { cmd: "/bin/sh", args: ["-c", "echo $TERM $LANG"], envs };
      return (await run(guest.process(), { process, pty: { size: SIZE } })).pty.toString();
    };
    expect(await show({})).toBe("xterm-256color C.UTF-8\r\n");
    expect(await show({ TERM: "dumb", LANG: "C" })).toBe("dumb C\r\n");
  });

  it("passes on bytes, not text", async () => {
    await using guest = await startGuest();
    const text = String.raw`stty raw; printf '\211\377\303'; sleep 0.05; printf '\251'`;
    const request = { process: { cmd: "/bin/sh", args: ["-c", text] }, pty: { size: SIZE } };
    const { pty } = await run(guest.process(), request);
    expect([...pty]).toEqual([0x89, 0xff, 0xc3, 0xa9]);
  });

  it("reports an end by signal", async () => {
    await using guest = await startGuest();
    const terminal = await openTerminal(guest, "t");
    await guest.process().sendSignal({ process: terminal.process, signal: Signal.SIGKILL });
    expect((await terminal.result).end).toEqual({ exitCode: -1, status: "signal: killed", error: "signal: killed" });
  });

  it("goes on without a client and takes the next one", async () => {
    await using guest = await startGuest();
    const body = envelope({ process: { cmd: "/bin/sh", args: ["-i"] }, pty: { size: SIZE }, tag: "t" });
    const first = await openStream(guest.port, "/process.Process/Start", body);
    await first.frames().next();
    first.req.destroy();
    await sleep(50);
    const process = { selector: { case: "tag", value: "t" } } as const;
    const second = collect(guest.process().connect({ process }));
    await sleep(50);
    const value = Buffer.from("echo a''gain; exit\n");
    await guest.process().sendInput({ process, input: { input: { case: "pty", value } } });
    expect((await second).pty.toString()).toContain("again\r\n");
  });

  it("refuses what belongs to pipes, and sizes that are none", async () => {
    await using guest = await startGuest();
    const client = guest.process();
    const { process, type, result } = await openTerminal(guest, "t");
    const stdin = { input: { case: "stdin", value: Buffer.from("x") } } as const;
    expect(await code(client.sendInput({ process, input: stdin }))).toBe(Code.Internal);
    expect(await code(client.closeStdin({ process }))).toBe(Code.Unknown);
    for (const size of [
      { cols: 0, rows: 10 },
      { cols: 10, rows: 70_000 },
    ]) {
      expect(await code(client.update({ process, pty: { size } }))).toBe(Code.InvalidArgument);
    }
    await client.update({ process });
    await type("");
    await type("exit\n");
    expect((await result).end).toMatchObject({ exited: true });
  });

  it("can be resized and ended while a long paste waits for it", async () => {
    await using guest = await startGuest();
    const client = guest.process();
    const { process, type, result } = await openTerminal(guest, "t", ["-c", "stty raw; sleep 100"]);
    let done = false;
    const paste = type(Buffer.alloc(5 * 1024 * 1024, "x")).then(
      () => (done = true),
      () => undefined,
    );
    await sleep(200);
    expect(done).toBe(false);
    await client.update({ process, pty: { size: { cols: 90, rows: 20 } } });
    await client.sendSignal({ process, signal: Signal.SIGKILL });
    expect((await result).end).toMatchObject({ exitCode: -1 });
    await paste;
    expect((await client.list({})).processes).toEqual([]);
  });

  it("is one of twenty, each with its own output", async () => {
    await using guest = await startGuest();
    const client = guest.process();
    const results = await Promise.all(
      Array.from({ length: 20 }, (_, index) => {
        const text = `for i in 1 2 3 4 5; do echo shell-${index}; sleep 0.02; done`;
        return run(client, { process: { cmd: "/bin/sh", args: ["-c", text] }, pty: { size: SIZE } });
      }),
    );
    for (const [index, { pty }] of results.entries()) {
      expect(pty.toString()).toBe(`shell-${index}\r\n`.repeat(5));
    }
  });

  it("gives a slow reader everything, also what came right before its end", async () => {
    await using guest = await startGuest();
    const text = "stty -opost; head -c 6000000 /dev/zero | tr '\\0' x; echo; echo last";
    const stream = await openStream(
      guest.port,
      "/process.Process/Start",
      envelope({ process: { cmd: "/bin/sh", args: ["-c", text] }, pty: { size: SIZE } }),
    );
    await sleep(1000);
    const parts: Buffer[] = [];
    let ended = false;
    for await (const { json } of stream.frames()) {
      const { data, end } = (json as { event?: { data?: { pty: string }; end?: unknown } }).event ?? {};
      if (data !== undefined) parts.push(Buffer.from(data.pty, "base64"));
      if (end !== undefined) ended = true;
    }
    const all = Buffer.concat(parts);
    expect(ended).toBe(true);
    expect(all.length).toBe(6_000_000 + "\nlast\n".length);
    expect(all.subarray(-5).toString()).toBe("last\n");
  });

  it("that cannot be loaded is refused by name, and commands work on", async () => {
    await using guest = await startGuest({ loadPty: () => Promise.reject(new Error("no such module")) });
    const request = { process: { cmd: "true" }, pty: { size: SIZE } };
    await expect(run(guest.process(), request)).rejects.toThrow(/terminals are not available: @lydell\/node-pty/);
    expect((await run(guest.process(), { process: { cmd: "true" } })).end).toMatchObject({ exited: true });
  });

  it.runIf(isRoot)("belongs to the user of the command (as root only)", async () => {
    await using guest = await startGuest();
    const text = 'sleep 0.2; id -u; id -G; stat -c %u "$(tty)"';
    const { pty } = await run(guest.process(), {
      process: { cmd: "/bin/sh", args: ["-c", text] },
      pty: { size: SIZE },
    });
    expect(pty.toString()).toBe("1000\r\n1000 2345\r\n1000\r\n");
  });
});
