import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { ClusterConfig, ExecConfig } from "./cluster-config.ts";
import { CredentialSource } from "./credentials.ts";
import { runExecPlugin } from "./exec-plugin.ts";

const V1 = "client.authentication.k8s.io/v1";
const CLUSTER = { server: "https://k.example", ca: "PEM" };

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "credentials-"));
});

afterAll(async () => {
  await rm(folder, { recursive: true });
});

function source(user: ClusterConfig["user"]): {
  readonly credentials: CredentialSource;
  readonly pass: (ms: number) => void;
} {
  let nowMs = 0;
  const config = { source: "test", server: "https://k.example", namespace: "default", user };
  const credentials = new CredentialSource(config, { now: () => nowMs, wall: () => nowMs });
  return {
    credentials,
    pass(ms) {
      nowMs += ms;
    },
  };
}

/** A plugin that is a shell script. */
function plugin(script: string, more: Partial<ExecConfig> = {}): ExecConfig {
  const env = { PATH: process.env["PATH"] ?? "", FOLDER: folder };
  return { command: "sh", args: ["-c", script], env, apiVersion: V1, provideClusterInfo: false, ...more };
}

function says(status: object, more: object = {}): string {
  return `echo '${JSON.stringify({ apiVersion: V1, kind: "ExecCredential", status, ...more })}'`;
}

describe("credentials out of a file", () => {
  it("are read again after a minute, and by several who ask at once a single time", async () => {
    const file = join(folder, "token");
    await writeFile(file, "one");
    const { credentials, pass } = source({ token: { file } });
    const [first, same] = await Promise.all([credentials.current(), credentials.current()]);
    expect(first.authorization).toBe("Bearer one");
    expect(same).toBe(first);
    await writeFile(file, "two");
    pass(59_999);
    expect(await credentials.current()).toBe(first);
    pass(1);
    expect((await credentials.current()).authorization).toBe("Bearer two");
  });

  it("are the same object while they say the same, and stay while the file is away", async () => {
    const file = join(folder, "away");
    await writeFile(file, "one");
    const { credentials, pass } = source({ token: { file } });
    const first = await credentials.current();
    pass(60_000);
    expect(await credentials.current()).toBe(first);
    await rm(file);
    pass(60_000);
    expect(await credentials.current()).toBe(first);
    credentials.refuse(first);
    expect(await credentials.current()).toBe(first);
  });
});

describe("credentials of a plugin", () => {
  it("hold until they end or are refused, and what was refused before changes nothing", async () => {
    const count = `echo x >> "$FOLDER/runs"; `;
    const expires = { token: "t", expirationTimestamp: new Date(70_000).toISOString() };
    const { credentials, pass } = source({ exec: plugin(count + says(expires)) });
    const runs = async (): Promise<number> => (await readFile(join(folder, "runs"), "utf8")).length / 2;
    const first = await credentials.current();
    expect(first.authorization).toBe("Bearer t");
    pass(59_999);
    await credentials.current();
    expect(await runs()).toBe(1);
    credentials.refuse(first);
    const second = await credentials.current();
    expect(await runs()).toBe(2);
    credentials.refuse({ ...first });
    expect(await credentials.current()).toBe(second);
    expect(await runs()).toBe(2);
    pass(1);
    await credentials.current();
    expect(await runs()).toBe(3);
  });

  it("may be a client certificate", async () => {
    const { credentials } = source({ exec: plugin(says({ clientCertificateData: "C", clientKeyData: "K" })) });
    expect(await credentials.current()).toMatchObject({ authorization: undefined, cert: "C", key: "K" });
  });

  it("are asked for with what the plugin may know", async () => {
    const told = join(folder, "told");
    const script = `printf '%s' "$KUBERNETES_EXEC_INFO" > "$FOLDER/told"; ${says({ token: "t" })}`;
    await runExecPlugin(plugin(script), CLUSTER);
    const about = { apiVersion: V1, kind: "ExecCredential", spec: { interactive: false } };
    expect(JSON.parse(await readFile(told, "utf8"))).toEqual(about);
    await runExecPlugin(plugin(script, { provideClusterInfo: true }), CLUSTER);
    expect(JSON.parse(await readFile(told, "utf8"))).toEqual({
      ...about,
      spec: {
        interactive: false,
        cluster: { server: "https://k.example", "certificate-authority-data": Buffer.from("PEM").toString("base64") },
      },
    });
  });

  it.each([
    ["fails", "echo secret-token; echo 'log in first' >&2; exit 3", /ended with status 3: log in first/],
    ["is killed", "kill -9 $$", /ended with signal SIGKILL/],
    ["says no JSON", "echo secret-token", /its output is no JSON/],
    ["says something else", says({ token: "secret-token" }, { kind: "Pod" }), /no ExecCredential/],
    ["speaks another version", says({ token: "secret-token" }, { apiVersion: "v1" }), /no ExecCredential/],
    ["gives nothing", says({}), /neither a token nor a client certificate/],
    ["gives half of a pair", says({ token: "secret-token", clientKeyData: "secret-token" }), /and not both/],
    ["floods", "yes secret-token", /its output is over/],
  ])("are refused when it %s, by a message without secrets", async (_name, script, message) => {
    const error = await runExecPlugin(plugin(script), CLUSTER).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ name: "KubeError", code: "credentials" });
    expect(String(error)).toMatch(message);
    expect(String(error)).not.toContain("secret-token");
  });

  it("that is not there is refused with the hint how to get it", async () => {
    const missing = runExecPlugin(plugin("", { command: "/nowhere/login", installHint: "install\nlogin" }), CLUSTER);
    await expect(missing).rejects.toThrow(/\/nowhere\/login cannot be run: .*ENOENT: install login/);
    const file = join(folder, "not-a-program");
    await writeFile(file, "");
    await chmod(file, 0o600);
    await expect(runExecPlugin(plugin("", { command: file }), CLUSTER)).rejects.toThrow(/cannot be run/);
  });
});

describe("a plugin that hangs", () => {
  it("is ended after a minute with all that it started", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const running = runExecPlugin(plugin('sleep 600 & echo $! > "$FOLDER/pid"; wait'), CLUSTER).catch(
        (thrown: unknown) => thrown,
      );
      const file = join(folder, "pid");
      let pid = Number.NaN;
      while (!(pid > 0)) {
        await new Promise(setImmediate);
        pid = Number(await readFile(file, "utf8").catch(() => ""));
      }
      vi.advanceTimersByTime(60_000);
      expect(String(await running)).toMatch(/no answer within 60 s/);
      const gone = async (): Promise<boolean> => {
        const status = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
        return status === "" || /\) [ZX] /.test(status);
      };
      while (!(await gone())) {
        await new Promise(setImmediate);
      }
    } finally {
      vi.useRealTimers();
    }
  });
});
