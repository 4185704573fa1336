import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import { callApi, createSandbox, type Created, killSandbox, runInGuest } from "../src/api.ts";
import type { HarnessRow } from "../src/harness-rows.ts";
import { waitFor } from "../src/polling.ts";
import type { ProcessSet } from "../src/processes.ts";
import type { RigFacts } from "../src/rig.ts";
import { createCli } from "./cli-runner.ts";
import { cliTemplateRows } from "./cli-templates.ts";

/** The column of the installed CLI. */
export const CLI_CLIENT = "cli-2.19";

/** A line as `sandbox logs --format json` prints it. */
interface LoggedLine {
  readonly timestamp: string;
  readonly level: string;
  readonly logger: string;
  readonly message: string;
  readonly pid: number;
}

const UNKNOWN = "sb-0000000000000000";

/** Rows of the E2B CLI, run as a user runs it: its program, the documented variables, an empty home. */
export function cliRows(set: ProcessSet, rig: RigFacts): { rows: readonly HarnessRow[]; close: () => Promise<void> } {
  let shared: Promise<Created> | undefined;
  const runner = createCli(set, rig);
  const { start, run: cli, ok, json } = runner;
  const sandbox = async (): Promise<Created> => {
    shared ??= createSandbox(rig, { metadata: { owner: "cli" }, timeout: 300 });
    return shared;
  };

  const logged = async (...args: readonly string[]): Promise<LoggedLine[]> => {
    const lines = (await ok(["sandbox", "logs", "--format", "json", ...args])).trim().split("\n");
    return lines.filter((line) => line !== "").map((line) => JSON.parse(line) as LoggedLine);
  };

  const rows: HarnessRow[] = [
    {
      id: "C1",
      title: "sandbox logs of a sandbox that printed nothing: exit 0, no line",
      run: async () => {
        const out = await ok(["sandbox", "logs", (await sandbox()).sandboxID]);
        assert.match(out, /Logs for sandbox/);
        assert.equal(out.trim().split("\n").length, 1, out);
        assert.equal(await ok(["sandbox", "logs", "--format", "json", (await sandbox()).sandboxID]), "");
      },
    },
    {
      id: "C1a",
      title: "sandbox logs has what commands printed, in order; level, logger and JSON",
      run: async () => {
        const own = await createSandbox(rig);
        const id = own.sandboxID;
        await ok(["sandbox", "exec", id, "echo one; echo 'zwei € \"2\"'"]);
        await runInGuest(rig, own, "echo three >&2");
        await runInGuest(rig, own, "printf 'four\\nno end'");
        const lines = await logged(id);
        assert.deepEqual(
          lines.map(({ message, level, logger }) => [message, level, logger]),
          [
            ["one", "info", "process.stdout"],
            ['zwei € "2"', "info", "process.stdout"],
            ["three", "error", "process.stderr"],
            ["four", "info", "process.stdout"],
            ["no end", "info", "process.stdout"],
          ],
        );
        const times = lines.map(({ timestamp }) => Date.parse(timestamp));
        assert.deepEqual(
          times.toSorted((a, b) => a - b),
          times,
        );
        assert.ok(Math.abs((times[0] ?? 0) - Date.now()) < 60_000, `times are now: ${lines[0]?.timestamp}`);
        assert.equal(lines[0]?.pid, lines[1]?.pid);
        assert.notEqual(lines[0]?.pid, lines[2]?.pid);
        for (const args of [
          ["--level", "error"],
          ["--loggers", "process.stderr"],
        ]) {
          const some = await logged(...args, id);
          assert.deepEqual(
            some.map(({ message }) => message),
            ["three"],
            args.join(" "),
          );
        }
        const pretty = await ok(["sandbox", "logs", id]);
        assert.match(pretty, /Logs for sandbox[^]*INFO[^\n]*'one'[^]*'zwei € "2"'[^]*ERROR[^\n]*'three'[^]*'no end'/);
        await killSandbox(rig, id);
      },
    },
    {
      id: "C1b",
      title: "sandbox logs has the output of a command whose client has left, and of a flood its end",
      run: async () => {
        const own = await createSandbox(rig);
        const id = own.sandboxID;
        await ok(["sandbox", "exec", "-b", id, "until [ -e /tmp/go ]; do sleep 0.1; done; echo later"]);
        assert.deepEqual(await logged(id), []);
        await runInGuest(rig, own, "touch /tmp/go");
        await waitFor(
          "the later line",
          async () => (await logged(id)).some(({ message }) => message === "later"),
          10_000,
        );
        await runInGuest(rig, own, "seq 1 400000 > /tmp/n; cat /tmp/n");
        const numbers = (await logged(id)).map(({ message }) => Number(message));
        assert.ok(numbers.length >= 1000 && numbers.length <= 10_000, `${numbers.length} lines`);
        assert.deepEqual(
          numbers,
          Array.from(numbers, (_, index) => 400_000 - numbers.length + 1 + index),
        );
        await killSandbox(rig, id);
      },
    },
    {
      id: "C1c",
      title: "the second version of the log pages by time both ways, with level and text",
      run: async () => {
        const own = await createSandbox(rig);
        const page = async (query: string): Promise<{ message: string; timestamp: string }[]> => {
          const reply = await callApi(rig, "GET", `/v2/sandboxes/${own.sandboxID}/logs?${query}`);
          assert.equal(reply.status, 200, reply.text);
          return (JSON.parse(reply.text) as { logs: { message: string; timestamp: string }[] }).logs;
        };
        await runInGuest(rig, own, "for i in 1 2 3 4 5 6 7 8 9; do echo out $i; sleep 0.01; done; echo bad >&2");
        for (const [direction, step] of [
          ["forward", 1],
          ["backward", -1],
        ] as const) {
          const seen: string[] = [];
          let cursor = "";
          for (;;) {
            const lines = await page(`limit=2&direction=${direction}${cursor}`);
            const last = lines.at(-1);
            if (last === undefined) {
              break;
            }
            seen.push(...lines.map(({ message }) => message));
            cursor = `&cursor=${Date.parse(last.timestamp) + step}`;
          }
          const inOrder = step === 1 ? seen : seen.toReversed();
          assert.deepEqual(inOrder, [...Array.from({ length: 9 }, (_, index) => `out ${index + 1}`), "bad"], direction);
        }
        const texts = async (query: string): Promise<string[]> => (await page(query)).map(({ message }) => message);
        assert.deepEqual(await texts("level=warn"), ["bad"]);
        assert.deepEqual(await texts("search=t%205"), ["out 5"]);
        assert.deepEqual(await texts("search=T%205"), []);
        await killSandbox(rig, own.sandboxID);
      },
    },
    {
      id: "C1d",
      title: "sandbox logs of a paused sandbox: exit 0, no line, and it stays paused",
      run: async () => {
        const own = await createSandbox(rig);
        const id = own.sandboxID;
        await runInGuest(rig, own, "echo before");
        assert.equal((await callApi(rig, "POST", `/sandboxes/${id}/pause`)).status, 204);
        assert.deepEqual(await logged(id), []);
        assert.match((await callApi(rig, "GET", `/sandboxes/${id}`)).text, /"state":"paused"/);
        await runInGuest(rig, own, "echo after");
        assert.deepEqual(
          (await logged(id)).map(({ message }) => message),
          ["before", "after"],
        );
        await killSandbox(rig, id);
      },
    },
    {
      id: "C2",
      title: "sandbox logs of an unknown sandbox: exit 1",
      run: async () => {
        const done = await cli(["sandbox", "logs", UNKNOWN]);
        assert.equal(done.code, 1);
        assert.match(done.err, /\[404\] not found/);
      },
    },
    {
      id: "C3",
      title: "sandbox logs -f shows each line once as it comes, and ends when the sandbox is killed",
      run: async () => {
        const own = await createSandbox(rig);
        await runInGuest(rig, own, "echo line 0");
        const child = await start(["sandbox", "logs", "-f", "--format", "json", own.sandboxID]);
        const timer = setTimeout(() => child.signal("SIGKILL", true), 60_000);
        await child.waitForOutput(/line 0/, 20_000);
        await runInGuest(rig, own, "for i in 1 2 3 4 5; do echo line $i; sleep 0.2; done; echo line 6 >&2");
        await child.waitForOutput(/line 6/, 20_000);
        await killSandbox(rig, own.sandboxID);
        const { code } = await child.ended;
        clearTimeout(timer);
        assert.ok(code === 0 || code === 1, `exit ${code}`);
        const seen = child.stdout().match(/"message":"line \d"/g);
        assert.deepEqual(
          seen,
          [0, 1, 2, 3, 4, 5, 6].map((index) => `"message":"line ${index}"`),
        );
      },
    },
    {
      id: "C4a",
      title: "sandbox list -f json, with filters",
      run: async () => {
        const own = await sandbox();
        const list = (await json(["sandbox", "list", "-f", "json"])) as {
          sandboxId: string;
          state: string;
          name: string;
        }[];
        const found = list.find((item) => item.sandboxId === own.sandboxID);
        assert.deepEqual([found?.state, found?.name], ["running", "base"]);
        const mine = (await json(["sandbox", "list", "-f", "json", "-m", "owner=cli"])) as { sandboxId: string }[];
        assert.deepEqual(
          mine.map((item) => item.sandboxId),
          [own.sandboxID],
        );
        assert.deepEqual(await json(["sandbox", "list", "-f", "json", "-m", "owner=nobody"]), []);
        assert.match(await ok(["sandbox", "list"]), new RegExp(own.sandboxID));
      },
    },
    {
      id: "C4b",
      title: "sandbox info -f json",
      run: async () => {
        const own = await sandbox();
        const info = (await json(["sandbox", "info", "-f", "json", own.sandboxID])) as Record<string, unknown>;
        assert.deepEqual(
          [info["sandboxId"], info["templateId"], info["state"], info["metadata"]],
          [own.sandboxID, rig.image, "running", { owner: "cli" }],
        );
        assert.ok(Date.parse(String(info["endAt"])) > Date.now(), "endAt is ahead");
        assert.match(await ok(["sandbox", "info", own.sandboxID]), /State: running/);
        const unknown = await cli(["sandbox", "info", UNKNOWN]);
        assert.equal(unknown.code, 1);
      },
    },
    {
      id: "C4c",
      title: "sandbox metrics --format json",
      run: async () => {
        const sample = (await json(["sandbox", "metrics", "--format", "json", (await sandbox()).sandboxID])) as Record<
          string,
          unknown
        >;
        for (const name of ["cpuCount", "cpuUsedPct", "memUsed", "memTotal", "diskUsed", "diskTotal"]) {
          assert.equal(typeof sample[name], "number", name);
        }
      },
    },
    {
      id: "C5a",
      title: "sandbox exec: output, exit code, options",
      run: async () => {
        const id = (await sandbox()).sandboxID;
        assert.equal(await ok(["sandbox", "exec", id, "echo hi"]), "hi\n");
        assert.equal(
          await ok(["sandbox", "exec", "-c", "/tmp", "-u", "root", "-e", "A=b c", id, 'echo "$(pwd) $(whoami) $A"']),
          "/tmp root b c\n",
        );
        const failing = await cli(["sandbox", "exec", id, "--", "sh", "-lc", "echo no >&2; exit 9"]);
        assert.deepEqual([failing.code, failing.err.includes("no\n")], [9, true]);
        const unknown = await cli(["sandbox", "exec", UNKNOWN, "true"]);
        assert.equal(unknown.code, 1);
      },
    },
    {
      id: "C5b",
      title: "sandbox exec with piped input",
      run: async () => {
        const id = (await sandbox()).sandboxID;
        assert.equal((await ok(["sandbox", "exec", id, "--", "sh", "-lc", "wc -c"], "sixsix")).trim(), "6");
        const big = Buffer.alloc(300_000, "x\n");
        assert.equal((await ok(["sandbox", "exec", id, "--", "wc", "-l"], big)).trim(), "150000");
      },
    },
    {
      id: "C5c",
      title: "sandbox exec in the background",
      run: async () => {
        const id = (await sandbox()).sandboxID;
        const done = await cli(["sandbox", "exec", "-b", id, "sleep 1; echo later > /tmp/later"]);
        assert.equal(done.code, 0, done.err);
        assert.match(done.err.trim(), /^\d+$/);
        await delay(1_500);
        assert.equal(await ok(["sandbox", "exec", id, "cat /tmp/later"]), "later\n");
      },
    },
    {
      id: "C4d",
      title: "sandbox pause, twice, then resume",
      run: async () => {
        const id = (await sandbox()).sandboxID;
        assert.match(await ok(["sandbox", "pause", id]), /has been paused/);
        assert.match(await ok(["sandbox", "pause", id]), /already paused/);
        const paused = (await json(["sandbox", "list", "-s", "paused", "-f", "json"])) as { sandboxId: string }[];
        assert.ok(
          paused.some((item) => item.sandboxId === id),
          "listed as paused",
        );
        assert.match(await ok(["sandbox", "resume", id]), /has been resumed/);
        assert.equal(await ok(["sandbox", "exec", id, "echo awake"]), "awake\n");
        const unknown = await cli(["sandbox", "resume", UNKNOWN]);
        assert.equal(unknown.code, 1);
      },
    },
    {
      id: "C4e",
      title: "sandbox snapshot create, list, delete",
      run: async () => {
        const id = (await sandbox()).sandboxID;
        const created = await ok(["sandbox", "snapshot", "create", "-n", "cli-snap", id]);
        const snapshot = /ck_[0-9a-f]+/.exec(created)?.[0] ?? "";
        assert.notEqual(snapshot, "", created);
        const list = (await json(["sandbox", "snapshot", "list", "-f", "json", id])) as {
          snapshotId: string;
          names: string[];
        }[];
        assert.deepEqual(list.find((item) => item.snapshotId === snapshot)?.names, ["cli-snap"]);
        assert.match(await ok(["sandbox", "snapshot", "delete", snapshot]), /has been deleted/);
        const again = await cli(["sandbox", "snapshot", "delete", snapshot]);
        assert.match(again.err, /wasn't found/);
      },
    },
    ...cliTemplateRows({ rig, cli, ok, json }),
    {
      id: "C9",
      title: "sandbox kill, of an unknown id, and of all",
      run: async () => {
        const id = (await sandbox()).sandboxID;
        assert.match(await ok(["sandbox", "kill", id]), /has been killed/);
        const again = await cli(["sandbox", "kill", id]);
        assert.deepEqual([again.code, /wasn't found/.test(again.err)], [0, true]);
        const two = [await createSandbox(rig), await createSandbox(rig)];
        assert.match(await ok(["sandbox", "kill", "--all"]), /Killed \d+ running sandboxes/);
        for (const one of two) {
          assert.equal((await callApi(rig, "GET", `/sandboxes/${one.sandboxID}`)).status, 404);
        }
      },
    },
    {
      id: "C10",
      title: "a wrong key is refused: exit 1",
      run: async () => {
        const done = await cli(["sandbox", "list"], undefined, "e2b_ffffffffffffffffffffffffffffffff");
        assert.equal(done.code, 1);
        assert.match(done.err, /Unauthorized/);
      },
    },
  ];

  const close = async (): Promise<void> => {
    const own = await shared?.catch(() => undefined);
    if (own !== undefined) {
      await killSandbox(rig, own.sandboxID).catch(() => undefined);
    }
    await runner[Symbol.asyncDispose]();
  };
  return { rows, close };
}
