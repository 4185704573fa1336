import { mkdtemp, mkdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { KubeError } from "./errors.ts";
import { readKubeconfig, type KubeconfigOptions } from "./kubeconfig.ts";
import { loadClusterConfig, type LoadClusterOptions } from "./load-cluster-config.ts";

const PEM = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
const DATA = Buffer.from(PEM).toString("base64");

/** A kubeconfig with one context, as text. */
function kubeconfig(cluster: object, user: object = {}, context: object = {}, more: object = {}): string {
  return stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "c",
    contexts: [{ name: "c", context: { cluster: "k", user: "u", ...context } }],
    clusters: [{ name: "k", cluster: { server: "https://k.example:6443", ...cluster } }],
    users: [{ name: "u", user }],
    ...more,
  });
}

function read(text: string, options: Partial<KubeconfigOptions> = {}): ReturnType<typeof readKubeconfig> {
  return readKubeconfig([{ path: "/etc/kube/config", text }], { allowInsecure: false, env: {}, ...options });
}

describe("a kubeconfig", () => {
  it.each([
    [
      "a server under a path",
      { server: "https://k.example/k8s/clusters/c-1/" },
      {},
      { server: "https://k.example/k8s/clusters/c-1" },
    ],
    ["an authority as data", { "certificate-authority-data": DATA }, {}, { ca: { text: PEM } }],
    [
      "an authority as a file beside it",
      { "certificate-authority": "ca.crt" },
      {},
      { ca: { file: "/etc/kube/ca.crt" } },
    ],
    [
      "data before a file",
      { "certificate-authority": "/x", "certificate-authority-data": DATA },
      {},
      { ca: { text: PEM } },
    ],
    [
      "a server name and a proxy",
      { "tls-server-name": "n", "proxy-url": "http://p:3128" },
      {},
      { tlsServerName: "n", proxyUrl: "http://p:3128" },
    ],
    ["a token", {}, { token: "t" }, { user: { token: { text: "t" } } }],
    [
      "a token file before a token",
      {},
      { token: "t", tokenFile: "tok" },
      { user: { token: { file: "/etc/kube/tok" } } },
    ],
    ["a password", {}, { username: "a", password: "b" }, { user: { basic: { username: "a", password: "b" } } }],
    [
      "a certificate",
      {},
      { "client-certificate-data": DATA, "client-key": "k.pem" },
      { user: { certificate: { cert: { text: PEM }, key: { file: "/etc/kube/k.pem" } } } },
    ],
    [
      "members it does not know",
      { extensions: [], "disable-compression": true },
      { "auth-provider": null, "as-groups": [] },
      { user: {} },
    ],
  ])("is read with %s", (_name, cluster, user, wanted) => {
    expect(read(kubeconfig(cluster, user))).toMatchObject({ namespace: "default", ...wanted });
  });

  it("gives an exec plugin its folder, its variables and ours", () => {
    const exec = {
      apiVersion: "client.authentication.k8s.io/v1",
      command: "./bin/login",
      args: ["--x", 1],
      env: [{ name: "A", value: "own" }],
      provideClusterInfo: true,
      installHint: "install it",
    };
    expect(read(kubeconfig({}, { exec }), { env: { A: "ours", PATH: "/bin", GONE: undefined } }).user.exec).toEqual({
      apiVersion: "client.authentication.k8s.io/v1",
      command: "/etc/kube/bin/login",
      args: ["--x", "1"],
      env: { A: "own", PATH: "/bin" },
      provideClusterInfo: true,
      installHint: "install it",
    });
    expect(read(kubeconfig({}, { exec: { ...exec, command: "aws" } })).user.exec?.command).toBe("aws");
  });

  it("may be JSON, may choose another context, and names a namespace", () => {
    const text = kubeconfig({}, {}, { namespace: "ns" });
    const both = {
      contexts: [
        { name: "c", context: { cluster: "k" } },
        { name: "d", context: { cluster: "k", namespace: "other" } },
      ],
    };
    expect(read(text).namespace).toBe("ns");
    const config = read(JSON.stringify({ clusters: [{ name: "k", cluster: { server: "https://x" } }], ...both }), {
      context: "d",
    });
    expect(config).toMatchObject({ namespace: "other", server: "https://x", user: {} });
    expect(config.source).toBe('/etc/kube/config, context "d"');
  });

  it("of several files gives what the first one says of each name", () => {
    const options = { allowInsecure: false, env: {} };
    const first = stringify({ users: [{ name: "u", user: { tokenFile: "t1" } }], "current-context": "" });
    const second = kubeconfig({ "certificate-authority": "ca" }, { tokenFile: "t2" });
    const config = readKubeconfig(
      [
        { path: "/a/one", text: first },
        { path: "/b/two", text: second },
      ],
      options,
    );
    expect(config).toMatchObject({ user: { token: { file: "/a/t1" } }, ca: { file: "/b/ca" } });
  });

  it("that skips the check of the certificate is refused unless that is allowed", () => {
    const text = kubeconfig({ "insecure-skip-tls-verify": true }, { token: "t" });
    expect(() => read(text)).toThrow(/insecure-skip-tls-verify/);
    expect(read(text, { allowInsecure: true }).insecure).toBe(true);
  });

  it("sends no credentials over plain http, unless to this machine", () => {
    expect(() => read(kubeconfig({ server: "http://k.example" }, { token: "t" }))).toThrow(/needs https/);
    expect(() => read(kubeconfig({ server: "http://127.example.com" }, { token: "t" }))).toThrow(/needs https/);
    expect(read(kubeconfig({ server: "http://k.example" })).server).toBe("http://k.example");
    for (const server of ["http://127.0.0.1:8001", "http://localhost:8001", "http://[::1]:8001"]) {
      expect(read(kubeconfig({ server }, { token: "t" })).server).toBe(server);
    }
  });

  const exec = { apiVersion: "client.authentication.k8s.io/v1", command: "x" };
  it.each([
    ["is no YAML", "a: [secret-token", /line 1 is no valid YAML/],
    ["is empty", "", /no context is chosen/],
    ["is a list", "[]", /no context is chosen/],
    ["chooses a context that is not there", stringify({ "current-context": "z" }), /there is no context "z"/],
    ["names a cluster that is not there", kubeconfig({}, {}, { cluster: "z" }), /there is no cluster "z"/],
    ["names no cluster", kubeconfig({}, {}, { cluster: null }), /context "c" names no cluster/],
    ["names a user that is not there", kubeconfig({}, {}, { user: "z" }), /there is no user "z"/],
    ["names no server", kubeconfig({ server: "" }), /names no server/],
    ["has a server without a scheme", kubeconfig({ server: "k.example:6443" }), /server must be a URL/],
    ["has a server with a password", kubeconfig({ server: "https://a:b@k.example" }), /origin and a path alone/],
    ["has a proxy that is none", kubeconfig({ "proxy-url": "ftp://p" }), /proxy-url must be a URL/],
    ["has data that is no PEM", kubeconfig({ "certificate-authority-data": "AAAA" }), /no PEM/],
    [
      "has an authority and no check",
      kubeconfig({ "certificate-authority-data": DATA, "insecure-skip-tls-verify": true }),
      /both/,
    ],
    ["has half of a pair", kubeconfig({}, { "client-key": "k" }), /has one of them/],
    ["has two ways to authenticate", kubeconfig({}, { token: "secret-token", username: "a" }), /a token and username/],
    ["has a token and a plugin", kubeconfig({}, { token: "secret-token", exec }), /a token and exec/],
    ["has a provider", kubeconfig({}, { "auth-provider": { name: "gcp" } }), /auth-provider, which is not supported/],
    ["plays somebody else", kubeconfig({}, { token: "secret-token", as: "admin" }), /has as, which is not supported/],
    [
      "has an old plugin",
      kubeconfig({}, { exec: { ...exec, apiVersion: "client.authentication.k8s.io/v1alpha1" } }),
      /no apiVersion that is supported/,
    ],
    ["has a plugin without a command", kubeconfig({}, { exec: { ...exec, command: "" } }), /names no command/],
    [
      "has a plugin that wants a terminal",
      kubeconfig({}, { exec: { ...exec, interactiveMode: "Always" } }),
      /wants a terminal/,
    ],
  ])("that %s is refused by a message without secrets", (_name, text, message) => {
    let thrown: unknown;
    try {
      read(text);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(KubeError);
    expect(thrown).toMatchObject({ code: "config" });
    expect(String(thrown)).toMatch(message);
    expect(String(thrown)).not.toContain("secret-token");
  });

  it("cannot fill the memory with aliases", () => {
    const levels = Array.from(
      { length: 40 },
      (_, at) => `l${at + 1}: &l${at + 1} [${Array(9).fill(`*l${at}`).join(",")}]`,
    );
    expect(() => read(["l0: &l0 [x]", ...levels].join("\n"))).toThrow(/aliases/);
  });
});

describe("the configuration of a cluster", () => {
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "kubeconfig-"));
    await mkdir(join(folder, "home/.kube"), { recursive: true });
    await mkdir(join(folder, "account"));
    await mkdir(join(folder, "bare"));
    await writeFile(join(folder, "home/.kube/config"), kubeconfig({ server: "https://home" }));
    await writeFile(join(folder, "one"), kubeconfig({ server: "https://one" }));
    await writeFile(join(folder, "two"), kubeconfig({ server: "https://two" }));
    await writeFile(join(folder, "account/token"), "t");
    await writeFile(join(folder, "account/ca.crt"), PEM);
    await writeFile(join(folder, "account/namespace"), "sandbox-system\n");
    await writeFile(join(folder, "bare/token"), "t");
  });

  afterAll(async () => {
    await rm(folder, { recursive: true });
  });

  const pod = { KUBERNETES_SERVICE_HOST: "10.0.0.1", KUBERNETES_SERVICE_PORT: "6443" };
  const at = (...names: string[]): string => names.map((name) => join(folder, name)).join(":");

  const load = (options: Partial<LoadClusterOptions>): ReturnType<typeof loadClusterConfig> =>
    loadClusterConfig({ env: {}, home: join(folder, "home"), serviceAccount: join(folder, "account"), ...options });

  it("is the one that is named, then KUBECONFIG, then the pod's, then the user's", async () => {
    const env = { ...pod, KUBECONFIG: at("missing", "two", "one") };
    expect((await load({ kubeconfig: at("one"), env })).server).toBe("https://one");
    expect((await load({ env })).server).toBe("https://two");
    expect((await load({ env: pod })).server).toBe("https://10.0.0.1:6443");
    expect((await load({})).server).toBe("https://home");
  });

  it("of a pod has token, authority and namespace of its service account", async () => {
    expect(await load({ env: { KUBERNETES_SERVICE_HOST: "fd00::1" } })).toMatchObject({
      server: "https://[fd00::1]",
      namespace: "sandbox-system",
      ca: { file: join(folder, "account/ca.crt") },
      user: { token: { file: join(folder, "account/token") } },
    });
    const bare = await load({ env: pod, serviceAccount: join(folder, "bare") });
    expect(bare).toMatchObject({ namespace: "default", ca: undefined });
  });

  it.each([
    ["nothing is there", { home: "/nowhere" }, /no Kubernetes cluster is configured/],
    ["no home is known", { home: undefined }, /no Kubernetes cluster is configured/],
    [
      "KUBECONFIG names nothing that exists",
      { env: { KUBECONFIG: "/nowhere/a:/nowhere/b" } },
      /KUBECONFIG names no file that exists/,
    ],
    ["the file that is named does not exist", { kubeconfig: "/nowhere/a" }, /kubeconfig names no file that exists/],
    ["the file is a folder", { kubeconfig: "/" }, /cannot read \//],
    ["the pod has no token", { env: pod, serviceAccount: "/nowhere" }, /there is no \/nowhere\/token/],
  ])("is refused when %s", async (_name, options, message) => {
    const error = await load(options).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ name: "KubeError", code: "config" });
    expect(String(error)).toMatch(message);
  });
});
