import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { request } from "undici";

import { KubeAuthority } from "./kube-certificates.ts";
import type { KubeCommand, KubeRequestNote, KubeStandinSettings, KubeWatchNote } from "./kube-standin-script.ts";
import type { StoredObject } from "./kube-standin-store.ts";
import type { ManagedProcess, ProcessSet } from "./processes.ts";
import { cleanEnv } from "./programs.ts";

const PROGRAM = fileURLToPath(new URL("kube-standin-program.ts", import.meta.url));

/** A stand-in for a Kubernetes API server that runs in its own process. */
export interface KubeStandin extends AsyncDisposable {
  /** Origin of the API. Stays the same over {@link restart}. */
  readonly url: string;
  /** Its authority, PEM. */
  readonly ca: string;
  readonly process: ManagedProcess;
  /** Has it do something; answers what it says. */
  order(command: KubeCommand): Promise<unknown>;
  objects(group: string, plural: string, namespace?: string): Promise<readonly StoredObject[]>;
  /** The requests since the last call. */
  requests(): Promise<readonly KubeRequestNote[]>;
  watches(): Promise<readonly KubeWatchNote[]>;
  /** Kills the process, and begins it anew at the same port with what it had at its start. */
  restart(): Promise<void>;
  /** The text of a kubeconfig for it, with a token or a file that holds one. */
  kubeconfig(credential: { readonly token: string } | { readonly tokenFile: string }): string;
}

/** Starts a stand-in; the harness stops it with {@link KubeStandin}'s disposal. */
export async function startKubeStandin(
  set: ProcessSet,
  settings: Omit<KubeStandinSettings, "port" | "certFile" | "keyFile">,
): Promise<KubeStandin> {
  const dir = await mkdtemp(join(tmpdir(), "conformance-kube-"));
  const authority = new KubeAuthority("stand-in of a cluster");
  const pair = authority.issue({ commonName: "kube-apiserver", serverNames: ["localhost", "kubernetes.default.svc"] });
  const [certFile, keyFile, settingsFile] = [join(dir, "cert"), join(dir, "key"), join(dir, "settings")];
  await writeFile(certFile, pair.cert);
  await writeFile(keyFile, pair.key, { mode: 0o600 });
  const launch = async (port: number): Promise<{ child: ManagedProcess; port: number; control: number }> => {
    const whole: KubeStandinSettings = { ...settings, port, certFile, keyFile };
    await writeFile(settingsFile, JSON.stringify(whole), { mode: 0o600 });
    const child = await set.start({
      name: "kube stand-in",
      command: process.execPath,
      args: [PROGRAM, settingsFile],
      env: cleanEnv(),
    });
    const [, found = "0", control = "0"] = await child.waitForOutput(/stand-in (\d+) control (\d+)/, 60_000);
    return { child, port: Number(found), control: Number(control) };
  };
  let running = await launch(0);
  const url = `https://127.0.0.1:${running.port}`;
  const order = async (command: KubeCommand): Promise<unknown> => {
    const { statusCode, body } = await request(`http://127.0.0.1:${running.control}/`, {
      method: "POST",
      body: JSON.stringify(command),
    });
    const text = await body.text();
    if (statusCode !== 200) {
      throw new Error(`the stand-in did not ${command.op}: ${text}`);
    }
    return JSON.parse(text);
  };
  return {
    url,
    ca: authority.cert,
    get process() {
      return running.child;
    },
    order,
    objects: async (group, plural, namespace) =>
      (await order({
        op: "objects",
        group,
        plural,
        ...(namespace === undefined ? {} : { namespace }),
      })) as readonly StoredObject[],
    requests: async () => (await order({ op: "requests" })) as readonly KubeRequestNote[],
    watches: async () => (await order({ op: "watches" })) as readonly KubeWatchNote[],
    restart: async () => {
      running.child.signal("SIGKILL", true);
      await running.child.ended;
      running = await launch(running.port);
    },
    kubeconfig: (credential) => kubeconfigText(url, authority.cert, credential),
    [Symbol.asyncDispose]: async () => {
      await running.child.stop(2_000);
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** How a kubeconfig's user is authenticated. */
export type KubeCredential =
  | { readonly token: string }
  | { readonly tokenFile: string }
  | { readonly cert: string; readonly key: string }
  | { readonly anonymous: true };

/** A kubeconfig of one cluster and one user, as JSON, which is YAML as well. */
export function kubeconfigText(server: string, ca: string, credential: KubeCredential): string {
  const base64 = (text: string): string => Buffer.from(text).toString("base64");
  const user =
    "anonymous" in credential
      ? {}
      : "cert" in credential
        ? { "client-certificate-data": base64(credential.cert), "client-key-data": base64(credential.key) }
        : credential;
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "c", cluster: { server, "certificate-authority-data": base64(ca) } }],
    users: [{ name: "u", user }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x",
  });
}
