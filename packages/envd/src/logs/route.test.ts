import { connect } from "node:net";
import { once } from "node:events";

import { type LogEntry, type LogQuery, readGuestLogs } from "@org/envd-client";
import { describe, expect, it } from "vitest";

import { startGuest, type TestGuest } from "../testing/guest.ts";
import { run, sh } from "../testing/run.ts";

/** Reads the log as the control plane does. */
async function readLogs(guest: TestGuest, query: LogQuery = {}, accessToken?: string): Promise<LogEntry[]> {
  const entries: LogEntry[] = [];
  const dial = async (): Promise<ReturnType<typeof connect>> => {
    const socket = connect(guest.port, "127.0.0.1");
    await once(socket, "connect");
    return socket;
  };
  await readGuestLogs(dial, query, (entry) => entries.push(entry), { accessToken });
  return entries;
}

async function messages(guest: TestGuest, query: LogQuery = {}): Promise<string[]> {
  return (await readLogs(guest, query)).map(({ message }) => message);
}

describe("GET /_sandbox/logs", () => {
  it("shows what commands printed, with stream and pid, in order", async () => {
    let clock = 5000;
    await using guest = await startGuest({ now: () => clock });
    const { pid } = await sh(guest.process(), "echo one; echo 'zwei €'");
    clock += 10;
    await sh(guest.process(), "echo bad >&2; printf 'no end'");
    const [one, two, ...rest] = await readLogs(guest);
    expect(one).toMatchObject({ message: "one", level: "info", logger: "process.stdout", pid, timestampMs: 5000 });
    expect(two).toMatchObject({ message: "zwei €", level: "info", pid, timestampMs: 5000 });
    expect(new Map(rest.map(({ message, level }) => [message, level]))).toStrictEqual(
      new Map([
        ["bad", "error"],
        ["no end", "info"],
      ]),
    );
    expect(await messages(guest, { level: "error" })).toStrictEqual(["bad"]);
    expect(await messages(guest, { search: "zwei" })).toStrictEqual(["zwei €"]);
    expect(await messages(guest, { cursorMs: 5001, search: "no" })).toStrictEqual(["no end"]);
    expect(await messages(guest, { direction: "backward", cursorMs: 5000 })).toStrictEqual(["zwei €", "one"]);
    expect(await messages(guest, { limit: 0 })).toStrictEqual([]);
  });

  it("shows the output of a command whose caller has left", async () => {
    await using guest = await startGuest();
    const leaver = new AbortController();
    const gone = sh(guest.process(), "echo first; read line; echo $line", { stdin: true }).catch(() => undefined);
    const left = run(
      guest.process(),
      { process: { cmd: "/bin/sh", args: ["-c", "sleep 0.3; echo late"] }, stdin: false },
      leaver.signal,
    ).catch(() => undefined);
    await expect.poll(() => messages(guest)).toContain("first");
    leaver.abort();
    await left;
    await expect.poll(() => messages(guest)).toContain("late");
    await guest.close();
    await gone;
  });

  it("has no output of terminals", async () => {
    await using guest = await startGuest();
    const result = await run(guest.process(), {
      process: { cmd: "/bin/sh", args: ["-c", "echo drawn"] },
      pty: { size: { cols: 80, rows: 24 } },
    });
    expect(result.pty.toString()).toContain("drawn");
    await sh(guest.process(), "echo printed");
    expect(await messages(guest)).toStrictEqual(["printed"]);
  });

  it("is for callers with the token, once there is one", async () => {
    await using guest = await startGuest({ accessToken: "t0k3n" });
    await expect(readLogs(guest)).rejects.toMatchObject({ code: "refused", status: 401 });
    await expect(readLogs(guest, {}, "other")).rejects.toMatchObject({ code: "refused", status: 401 });
    expect(await readLogs(guest, {}, "t0k3n")).toStrictEqual([]);
    const init = { accessToken: "new", timestamp: "2030-01-01T00:00:00Z" };
    const headers = { "x-access-token": "t0k3n", "content-type": "application/json" };
    expect((await guest.call("POST", "/init", { headers, body: JSON.stringify(init) })).status).toBe(204);
    await expect(readLogs(guest, {}, "t0k3n")).rejects.toMatchObject({ status: 401 });
    expect(await readLogs(guest, {}, "new")).toStrictEqual([]);
  });

  it.each([
    "cursor=-1",
    "cursor=1.5",
    "cursor=",
    "cursor=99999999999999999",
    "limit=-1",
    "limit=x",
    "limit=10001",
    "limit=0x10",
    "direction=up",
    "level=trace",
    "level=",
  ])("refuses the query %s by its name", async (query) => {
    await using guest = await startGuest();
    const reply = await guest.call("GET", `/_sandbox/logs?${query}`);
    expect(reply.status).toBe(400);
    expect(reply.json()).toMatchObject({ code: 400, message: expect.stringContaining(query.split("=")[0] ?? "") });
  });

  it("is a path like any other to the rest of HTTP", async () => {
    await using guest = await startGuest();
    expect((await guest.call("POST", "/_sandbox/logs")).status).toBe(405);
    expect((await guest.call("GET", "/_sandbox/logs/")).status).toBe(404);
    expect((await guest.call("GET", "/_sandbox/logs")).headers["content-type"]).toBe("application/x-ndjson");
  });

  it("stays small under a flood, which it does not hold up", async () => {
    await using guest = await startGuest();
    await sh(guest.process(), "yes 'some words of output' | head -c 30000000; echo; echo done");
    const entries = await readLogs(guest);
    expect(entries.at(-1)?.message).toBe("done");
    expect(entries.length).toBeGreaterThan(5000);
    expect(entries.length).toBeLessThanOrEqual(10_000);
    const reply = await guest.call("GET", "/_sandbox/logs");
    expect(reply.body.length).toBeLessThan(8 * 1024 * 1024);
  });

  it("survives readers who leave in the middle", async () => {
    await using guest = await startGuest();
    await sh(guest.process(), "yes 'some words of output' | head -c 2000000; echo");
    for (let count = 0; count < 5; count += 1) {
      const socket = connect(guest.port, "127.0.0.1");
      socket.on("error", () => undefined);
      socket.write("GET /_sandbox/logs HTTP/1.1\r\nhost: a\r\n\r\n");
      await once(socket, "data");
      socket.destroy();
    }
    expect((await readLogs(guest)).length).toBeGreaterThan(0);
    expect(guest.logs).toStrictEqual([]);
  });
});
