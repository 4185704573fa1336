import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";

import { callProxy, createSandbox, type Created, runInGuest } from "../src/api.ts";
import { type HarnessRow, SkipRow } from "../src/harness-rows.ts";
import type { ProcessSet } from "../src/processes.ts";
import type { Programs } from "../src/programs.ts";
import { type Rig, startDev } from "../src/rig.ts";

/** Ways to keep guests apart that a user can ask for. */
export const ISOLATIONS = ["bubblewrap", "unshare", "process"] as const;

/** Rows for one way of isolation, on a rig of its own that the first row starts. */
export function isolationRows(
  set: ProcessSet,
  programs: Programs,
  isolation: (typeof ISOLATIONS)[number],
): { rows: readonly HarnessRow[]; close: () => Promise<void> } {
  let started: Promise<Rig> | undefined;
  const rig = async (): Promise<Rig> => {
    started ??= startDev(set, programs, { mode: "secret", isolation, nodes: 1, warm: 2, warmEgress: 0 });
    try {
      return await started;
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      const reason = /sandbox-e2b: (.*isolation.*|.*bubblewrap.*|.*bwrap.*|.*unshare.*|.*namespace.*)/i.exec(
        message,
      )?.[1];
      if (reason !== undefined) {
        throw new SkipRow(`${isolation} is not available here: ${reason}; install it or allow user namespaces`);
      }
      throw error;
    }
  };
  let made: Promise<[Created, Created]> | undefined;
  const pair = async (): Promise<[Rig, Created, Created]> => {
    const running = await rig();
    made ??= Promise.all([createSandbox(running.facts), createSandbox(running.facts)]);
    return [running, ...(await made)];
  };
  /** Runs as user and as root, and gives both outputs. */
  const asBoth = async (running: Rig, sandbox: Created, command: string): Promise<string> => {
    const outputs = [];
    for (const user of ["user", "root"]) {
      outputs.push(await runInGuest(running.facts, sandbox, command, { user }));
    }
    return outputs.join("");
  };

  const basics: HarnessRow = {
    id: `${isolation}-1`,
    title: "commands and files work",
    run: async () => {
      const [{ facts }, sandbox] = await pair();
      assert.equal(await runInGuest(facts, sandbox, "echo hi > f && cat f && python3 -c 'print(6*7)'"), "hi\n42\n");
      const headers = {
        "e2b-sandbox-id": sandbox.sandboxID,
        "e2b-sandbox-port": "49983",
        "x-access-token": sandbox.envdAccessToken ?? "",
      };
      const written = await callProxy(
        facts.proxyUrl,
        "POST",
        "/files?path=g",
        { ...headers, "content-type": "application/octet-stream" },
        "by hand",
      );
      assert.equal(written.status, 200, written.text);
      const read = await callProxy(facts.proxyUrl, "GET", "/files?path=g", headers);
      assert.equal(read.text, "by hand");
    },
  };
  if (isolation === "process") {
    const warns: HarnessRow = {
      id: "process-2",
      title: "a loud warning says that nothing is isolated",
      run: async () => {
        const { front } = await rig();
        assert.match(front.stdout() + front.stderr(), /isolat/i);
      },
    };
    return { rows: [basics, warns], close: async () => (await started?.catch(() => undefined))?.stop() };
  }

  const rows: HarnessRow[] = [
    basics,
    {
      id: `${isolation}-2`,
      title: "a guest cannot read the user's home, the state folder or the node's token",
      run: async () => {
        const [running, sandbox] = await pair();
        const mark = randomBytes(12).toString("hex");
        const inHome = join(homedir(), `.conformance-${mark}`);
        await writeFile(inHome, mark, { mode: 0o644 });
        try {
          const token = join(running.stateDir, "..", "token");
          const seen =
            (await asBoth(
              running,
              sandbox,
              [
                // The mark in two halves, so that the search does not find its own command line.
                `mark=${mark.slice(0, 12)}; mark="$mark"${mark.slice(12)}`,
                `cat ${join(homedir(), ".conformance-")}$mark ${token} 2>/dev/null`,
                `ls -A ${homedir()} 2>/dev/null | head -50; find / -xdev -name "*$mark*" 2>/dev/null`,
              ].join("; "),
            )) +
            (await asBoth(
              running,
              sandbox,
              "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; mount",
            ));
          const secrets = [mark, running.facts.nodeToken, running.facts.keys.one, "conformance-envd-secret"];
          for (const secret of secrets) {
            assert.ok(!seen.includes(secret), `the guest saw a secret: ${excerpt(seen, secret)}`);
          }
        } finally {
          await rm(inHome, { force: true });
        }
      },
    },
    {
      id: `${isolation}-3`,
      title: "a guest sees neither another guest's files nor its processes, nor the host's",
      run: async () => {
        const [running, first, second] = await pair();
        const mark = randomBytes(12).toString("hex");
        await runInGuest(
          running.facts,
          first,
          `echo ${mark} > /home/user/${mark}; echo ${mark} > /tmp/${mark}; (exec -a guest-${mark} sleep 100) >/dev/null 2>&1 &`,
        );
        const seen = await asBoth(
          running,
          second,
          `find / -xdev -name '*${mark}*' 2>/dev/null; grep -rsl ${mark} /home /tmp /root 2>/dev/null; ` +
            "cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' '; ls /proc/1/root/home 2>/dev/null",
        );
        // The command line of the search itself holds the mark.
        assert.ok(!seen.includes(`guest-${mark}`), excerpt(seen, `guest-${mark}`));
        assert.ok(!seen.includes(`/${mark}\n`), excerpt(seen, `/${mark}`));
        assert.ok(!seen.includes("sandbox-e2b"), excerpt(seen, "sandbox-e2b"));
        assert.ok(!seen.includes(`src/main.ts`), excerpt(seen, "src/main.ts"));
      },
    },
    {
      id: `${isolation}-4`,
      title: "a guest without network reaches neither the host's loopback nor another guest's ports",
      run: async () => {
        const [running, first, second] = await pair();
        await runInGuest(
          running.facts,
          first,
          "python3 -m http.server 3000 --bind 127.0.0.1 >/dev/null 2>&1 & sleep 1; true",
        );
        const ports = [running.facts.apiUrl, running.facts.proxyUrl].map((url) => new URL(url).port);
        const nodePorts = running.facts.nodeAddresses.map((address) => address.split(":").at(-1));
        for (const port of [...ports, ...nodePorts, "3000"]) {
          const seen = await asBoth(
            running,
            second,
            `(echo > /dev/tcp/127.0.0.1/${port}) 2>/dev/null && echo open || echo shut`,
          );
          assert.equal(seen, "shut\nshut\n", `port ${port}`);
        }
        const outside = await asBoth(
          running,
          second,
          "(timeout 3 bash -c 'echo > /dev/tcp/1.1.1.1/80') 2>/dev/null && echo open || echo shut",
        );
        assert.equal(outside, "shut\nshut\n", "the internet");
      },
    },
    {
      id: `${isolation}-5`,
      title: "a guest can neither change the host's system files nor signal the host's processes",
      run: async () => {
        const [running, sandbox] = await pair();
        const victim = await set.start({ name: "victim", command: "sleep", args: ["120"], env: {} });
        try {
          const seen = await runInGuest(
            running.facts,
            sandbox,
            "for d in /usr /bin /lib; do touch $d/conformance-was-here 2>/dev/null && echo wrote $d; done; " +
              `kill -9 ${victim.pid} 2>/dev/null && echo signalled; true`,
            { user: "root" },
          );
          assert.doesNotMatch(seen, /wrote/, "system folders are read-only");
          assert.ok(victim.running(), "a process of the host was killed");
        } finally {
          await victim.stop(100);
        }
      },
    },
  ];
  return { rows, close: async () => (await started?.catch(() => undefined))?.stop() };
}

function excerpt(text: string, around: string): string {
  const at = Math.max(0, text.indexOf(around) - 100);
  return text.slice(at, at + 300);
}
