import { spawnSync } from "node:child_process";
import { chownSync, existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { CheckpointRecord, ClaimReply } from "@org/sandboxd-client/wire";
import type { FreezerKind, Isolation } from "./index.ts";
import { nodeApi, runInGuest, type Api } from "./testing/api.ts";
import { ensureGuestBundle } from "./testing/guest-bundle.ts";
import { startNodeProcess } from "./testing/node-process.ts";
import { temporaryFolder } from "./testing/temporary-folder.ts";

const TOKEN = "root";
const NOBODY = 65_534;
const isRoot = process.getuid?.() === 0;

interface Row {
  readonly name: string;
  readonly isolation: Isolation | "auto";
  readonly freezers: readonly FreezerKind[];
  readonly uid?: number;
}

const rows: readonly Row[] = [
  { name: "the strongest isolation", isolation: "auto", freezers: ["v2", "v1", "signals"] },
  { name: "no isolation, and signals", isolation: "process", freezers: ["signals"] },
  ...(isRoot ? [{ name: "one id for all", isolation: "unshare", freezers: ["signals"], uid: NOBODY } as const] : []),
];

beforeAll(ensureGuestBundle, 60_000);

const PREPARE = `
  cd; echo parent > file; chmod 4750 file; ln file hard; ln -s /etc/passwd link; mkfifo pipe
  mkdir shut; echo hidden > shut/file; chmod 040 shut/file; chmod 0 shut; rm -f .bashrc
  truncate -s 20M sparse; echo end >> sparse
  setsid sh -c 'i=0; while :; do i=$((i+1)); echo $i > count.new; mv count.new count; sleep 0.02; done' >/dev/null 2>&1 &
  while [ ! -s count ]; do sleep 0.02; done`;
const LOOK = `
  cd; cat hard; stat -c '%a %h' file; readlink link; stat -c %a shut; chmod 700 shut; stat -c %a shut/file
  tail -c 4 sparse; [ "$(stat -c %b sparse)" -lt 1000 ] && echo holes
  ls -A | grep -cE '^(pipe|[.]bashrc)$'; find . ! -uid "$(id -u)" | wc -l`;
const SEEN = "parent\n4750 2\n/etc/passwd\n0\n40\nend\nholes\n0\n0\n";
/** Whether the parent's process runs in a guest: what it counts goes on. */
const COUNTING = "cd; a=$(cat count); sleep 0.3; [ $a = $(cat count) ] && echo still || echo counting";

async function post(api: Api, path: string, body: object): Promise<Record<string, unknown>> {
  const answer = await api.call("POST", path, body);
  expect([answer.status, answer.text]).toEqual([200, expect.any(String)]);
  return answer.json();
}

const sandboxOf = (reply: Record<string, unknown>): ClaimReply => reply as unknown as ClaimReply;

describe.runIf(process.platform === "linux").each(rows)("guests with $name", ({ isolation, freezers, uid }) => {
  test("are copied with all their files and no process, and the copies outlive a killed node", async () => {
    await using state = temporaryFolder();
    if (uid !== undefined) {
      chownSync(state.path, uid, uid);
    }
    const options = { stateDir: state.path, token: TOKEN, isolation, freezers };
    let checkpoint = "";
    let digest: unknown;
    {
      await using node = await startNodeProcess(options, uid);
      const api = nodeApi(node.address, TOKEN);
      const parent = await api.claim({ template: "base" });
      const path = `/v1/sandboxes/${parent.id}`;
      expect(await runInGuest(api, parent, PREPARE)).toMatchObject({ exitCode: 0 });

      const document = '{"instance": "i-1"}';
      expect((await api.call("PUT", `${path}/instance-metadata`, document)).status).toBe(204);
      expect(await fetchFile(api, parent, "/run/instance-metadata.json")).toBe(document);

      // Running parent: it is frozen for the copy and goes on.
      const { children } = await post(api, `${path}/fork`, { count: 2 });
      const [child, sibling] = children as [ClaimReply, ClaimReply];
      expect((await runInGuest(api, child, LOOK)).stdout).toBe(SEEN);
      expect(await fetchFile(api, child, "/run/instance-metadata.json")).toBeUndefined();
      expect((await runInGuest(api, child, "echo child > ~/file; echo $E2B_SANDBOX_ID")).stdout).toBe(`${child.id}\n`);
      for (const [guest, text, counts] of [
        [parent, "parent\n", "counting\n"],
        [sibling, "parent\n", "still\n"],
      ] as const) {
        expect((await runInGuest(api, guest, "cat ~/file")).stdout).toBe(text);
        expect((await runInGuest(api, guest, COUNTING)).stdout).toBe(counts);
      }

      // Paused parent: it is copied as it is, and not woken.
      expect((await api.call("POST", `${path}/hibernate`)).status).toBe(204);
      ({ id: checkpoint } = (await post(api, `${path}/checkpoint`, {}))["checkpoint"] as CheckpointRecord);
      ({ content_digest: digest } = await post(api, `${path}/promote`, { template: "app" }));
      expect((await post(api, `${path}/promote`, { template: "app" }))["content_digest"]).toBe(digest);
      expect((await api.rows()).find((row) => row.id === parent.id)?.hibernated).toBe(true);
      expect((await runInGuest(api, parent, COUNTING)).stdout).toBe("counting\n");

      await node.crash();
    }
    await expect.poll(() => readdirSync(join(state.path, "runs")), { timeout: 10_000 }).toEqual([]);
    {
      await using node = await startNodeProcess(options, uid);
      const api = nodeApi(node.address, TOKEN);
      expect((await api.info()).templates).toMatchObject([{ key: { template: "app" }, content_digest: digest }]);
      const branch = sandboxOf(await post(api, `/v1/checkpoints/${checkpoint}/claim`, {}));
      const clone = await api.claim({ template: "app", require_promoted: true });
      for (const guest of [branch, clone]) {
        expect((await runInGuest(api, guest, LOOK)).stdout).toBe(SEEN);
      }
      expect((await api.call("DELETE", `/v1/checkpoints/${checkpoint}`)).status).toBe(204);
      expect((await api.call("DELETE", "/v1/templates?template=app")).status).toBe(204);
    }
    expect(readdirSync(join(state.path, "runs"))).toEqual([]);
    expect(existsSync(join(state.path, "captures"))).toBe(false);
  }, 120_000);
});

/** A file through the guest's daemon, which maps paths where processes see the host's. */
async function fetchFile(api: Api, sandbox: ClaimReply, path: string): Promise<string | undefined> {
  const { socket } = await api.relay(sandbox.id, 49_983, sandbox.token, {
    pipelined: `GET /files?path=${encodeURIComponent(path)}&username=user HTTP/1.0\r\nHost: guest\r\n\r\n`,
  });
  const chunks: Buffer[] = [];
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    chunks.push(chunk);
  }
  const reply = Buffer.concat(chunks).toString("utf8");
  return / 200 /.test(reply.slice(0, 20)) ? reply.slice(reply.indexOf("\r\n\r\n") + 4) : undefined;
}

test.runIf(isRoot && process.platform === "linux")(
  "a guest's files belong to powerless ids wherever they are kept",
  async () => {
    await using state = temporaryFolder();
    await using node = await startNodeProcess({ stateDir: state.path, token: TOKEN });
    const api = nodeApi(node.address, TOKEN);
    const parent = await api.claim();
    await runInGuest(
      api,
      parent,
      "cp /bin/true /root/tool; chmod 4755 /root/tool; rm -r /home; ln -s /etc /home",
      "root",
    );
    await post(api, `/v1/sandboxes/${parent.id}/promote`, { template: "app" });
    const [shelf = ""] = readdirSync(join(state.path, "captures"));
    const found = spawnSync("find", [join(state.path, "captures", shelf), "-name", "tool", "-printf", "%m %U\n"]);
    const [mode, owner] = found.stdout.toString().trim().split(" ");
    expect([mode, Number(owner) >= 10_000]).toEqual(["4755", true]);
    const clone = await api.claim({ template: "app" });
    const { stdout } = await runInGuest(api, clone, "stat -c '%a %u' /root/tool; readlink /home; sudo id -u", "root");
    expect(stdout).toBe("4755 0\n/etc\n0\n");
    expect(readFileSync("/etc/passwd", "utf8")).not.toContain("sandbox");
  },
  60_000,
);
