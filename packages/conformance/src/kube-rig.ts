import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Front } from "./front.ts";
import { type GuestMesh, type GuestMeshOptions, startGuestMesh } from "./guest-mesh.ts";
import { type KubePublisher, startKubePublisher } from "./kube-publisher.ts";
import { type KubeCredential, kubeconfigText, type KubeStandin, startKubeStandin } from "./kube-standin.ts";
import { clusterSettings, type KubeAuthorities, newAuthorities, SYSTEM_TOKEN } from "./kube-users.ts";
import { freePorts } from "./ports.ts";
import type { ManagedProcess, ProcessSet } from "./processes.ts";
import { cleanEnv, type Programs } from "./programs.ts";
import { frontFlags, IMAGE, RIG, surfacesUp } from "./rig.ts";

/** An aggregated API in a process of its own. */
export interface Shim {
  /** Origin of the aggregated API. */
  readonly url: string;
  /** Authority of its certificate, PEM. */
  readonly ca: string;
  readonly process: ManagedProcess;
  /** Origin of its E2B API, when it has one. */
  readonly e2bUrl: string;
  log(): string;
  /** Writes a kubeconfig that leads straight to it, and answers its path. */
  kubeconfig(name: string, credential: KubeCredential): Promise<string>;
}

/** Choices of {@link KubeRig.shim}. */
export interface ShimOptions {
  /** Put behind the other flags, where they win over the same flags. */
  readonly flags?: readonly string[];
  /** Names of flags that are left out, without dashes. */
  readonly without?: readonly string[];
  /** Whether it serves the E2B API. @default false */
  readonly e2b?: boolean;
  /** Whether it sets warm pools. @default false */
  readonly driver?: boolean;
  readonly env?: Readonly<Record<string, string>>;
}

/** Nodes with guests, a stand-in for their cluster, and what publishes them there. */
export interface KubeRig extends AsyncDisposable {
  readonly guests: GuestMesh;
  readonly standin: KubeStandin;
  readonly publisher: KubePublisher;
  readonly authorities: KubeAuthorities;
  /** A kubeconfig of the stand-in for what runs in the cluster, and the file with its token. */
  readonly systemConfig: string;
  readonly systemTokenFile: string;
  /** Starts an aggregated API and waits until it serves. */
  shim(options?: ShimOptions): Promise<Shim>;
  /** Starts one and returns before it serves. */
  launchShim(options?: ShimOptions): Promise<Shim>;
  /** An E2B front: a shim with that API, and a data plane of its own that watches the same objects. */
  front(): Promise<Front>;
}

/** How often nodes publish, in milliseconds. */
const PUBLISH_MS = 700;

/** Starts nodes, cluster and publisher. */
export async function startKubeRig(
  set: ProcessSet,
  programs: Programs,
  label: string,
  options: GuestMeshOptions,
): Promise<KubeRig> {
  const authorities = newAuthorities();
  const [guests, standin] = await Promise.all([
    startGuestMesh(set, programs, label, options),
    startKubeStandin(set, clusterSettings(authorities)),
  ]);
  const { files } = guests;
  const dir = join(files.dir, "kube");
  await mkdir(dir, { mode: 0o700 });
  const put = async (name: string, content: string): Promise<string> => {
    const path = join(dir, name);
    await writeFile(path, content, { mode: 0o600 });
    return path;
  };
  const systemTokenFile = await put("system-token", SYSTEM_TOKEN);
  const systemConfig = await put("system-config", standin.kubeconfig({ tokenFile: systemTokenFile }));
  const publisher = await startKubePublisher({
    kubeconfig: await put("publisher-config", standin.kubeconfig({ token: SYSTEM_TOKEN })),
    nodes: guests.nodes.map(({ admin }, index) => ({ name: `node-${index}`, address: admin.address })),
    token: RIG.nodeToken,
    everyMs: PUBLISH_MS,
  });
  const serving = authorities.serving.issue({ commonName: "sandbox-apiserver", serverNames: ["localhost"] });
  const certFile = await put("serving.crt", serving.cert);
  const keyFile = await put("serving.key", serving.key);
  let made = 0;

  const launchShim = async ({
    flags = [],
    without = [],
    e2b = false,
    driver = false,
    env = {},
  }: ShimOptions = {}): Promise<Shim> => {
    const [port = 0, apiPort = 0] = await freePorts(2);
    const own = [
      "--bind-address=127.0.0.1",
      `--secure-port=${port}`,
      `--tls-cert-file=${certFile}`,
      `--tls-private-key-file=${keyFile}`,
      `--authentication-kubeconfig=${systemConfig}`,
      `--authorization-kubeconfig=${systemConfig}`,
      `--sandboxd-token-file=${files.tokenFile}`,
      `--enable-warm-pool-driver=${driver}`,
      ...(e2b ? ["--enable-e2b-api", ...e2bFlags(files, apiPort)] : []),
    ];
    const replaced = new Set([...without.map((name) => `--${name}`), ...flags.map((flag) => flag.split("=")[0])]);
    const child = await set.start({
      name: `apiserver-shim ${label}`,
      command: process.execPath,
      args: [programs.apiserverShim, ...own.filter((flag) => !replaced.has(flag.split("=")[0] ?? "")), ...flags],
      env: cleanEnv({ KUBECONFIG: systemConfig, OPERATOR_LOG_LEVEL: "debug", ...env }),
    });
    const url = `https://127.0.0.1:${port}`;
    return {
      url,
      ca: authorities.serving.cert,
      process: child,
      e2bUrl: `http://127.0.0.1:${apiPort}`,
      log: () => child.stdout() + child.stderr(),
      kubeconfig: (name, credential) => {
        made += 1;
        return put(`${name}-${made}`, kubeconfigText(url, authorities.serving.cert, credential));
      },
    };
  };
  const shim = async (choices?: ShimOptions): Promise<Shim> => {
    const started = await launchShim(choices);
    await started.process.waitForOutput(/serving the aggregated API/, 60_000);
    return started;
  };
  const front = async (): Promise<Front> => {
    const started = await shim({ e2b: true });
    const [port = 0] = await freePorts(1);
    const proxy = await set.start({
      name: `envd-proxy ${label}`,
      command: process.execPath,
      args: [
        programs.envdProxy,
        "--inventory=kube",
        `--bind-address=127.0.0.1:${port}`,
        `--domain=${RIG.domain}`,
        `--sandboxd-token-file=${files.tokenFile}`,
        `--e2b-envd-secret-file=${files.secretFile}`,
        "--public-ports=all",
        "--namespace=",
      ],
      env: cleanEnv({ KUBECONFIG: systemConfig, OPERATOR_LOG_LEVEL: "debug" }),
    });
    await proxy.waitForOutput(/serving envd-proxy/, 60_000);
    const facts: Front["facts"] = {
      ...RIG,
      mode: "secret",
      apiUrl: started.e2bUrl,
      proxyUrl: `http://127.0.0.1:${port}`,
      image: IMAGE,
      nodeAddresses: guests.nodes.map(({ admin }) => admin.address),
      pollMs: PUBLISH_MS + 300,
      apartMs: 1_100,
      frontPid: started.process.pid,
    };
    await surfacesUp(facts);
    return {
      facts,
      process: started.process,
      log: () => started.log() + proxy.stdout() + proxy.stderr(),
      stop: async () => {
        await Promise.all([started.process.stop(), proxy.stop()]);
      },
    };
  };
  return {
    guests,
    standin,
    publisher,
    authorities,
    systemConfig,
    systemTokenFile,
    shim,
    launchShim,
    front,
    [Symbol.asyncDispose]: async () => {
      await publisher[Symbol.asyncDispose]();
      await standin[Symbol.asyncDispose]();
      await guests[Symbol.asyncDispose]();
    },
  };
}

/** The flags of the E2B API out of those that every front gets. */
function e2bFlags(files: GuestMesh["files"], apiPort: number): readonly string[] {
  return frontFlags(files, "secret", apiPort, 0, 0).filter((flag) => flag.startsWith("--e2b-"));
}
