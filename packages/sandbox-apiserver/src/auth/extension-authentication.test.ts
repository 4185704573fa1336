import type { Logger } from "@org/scale";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { ClusterDouble } from "../testing/cluster-double.ts";
import { askHttp1, echoingListener, startRig, temporaryFolder } from "../testing/serve-rig.ts";
import { TestAuthority } from "../testing/test-authority.ts";
import { createAuthenticator } from "./authenticator.ts";
import { ClientTrust } from "./client-trust.ts";
import { ExtensionAuthentication, type ExtensionAuthenticationOptions } from "./extension-authentication.ts";

const clientCa = TestAuthority.root("kubernetes");
const proxyCa = TestAuthority.root("front-proxy-ca");
const DATA = {
  "client-ca-file": clientCa.cert,
  "requestheader-client-ca-file": proxyCa.cert,
  "requestheader-username-headers": '["X-Remote-User"]',
  "requestheader-group-headers": '["X-Remote-Group"]',
  "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
  "requestheader-allowed-names": '["front-proxy-client"]',
} as const;

/** A signal for what lives as long as a test. */
function testLife(): AbortSignal {
  const life = new AbortController();
  onTestFinished(() => life.abort());
  return life.signal;
}

function start(
  cluster: ClusterDouble,
  options: Partial<ExtensionAuthenticationOptions> = {},
): Promise<ExtensionAuthentication> {
  return ExtensionAuthentication.start({ client: cluster.client, signal: testLife(), ...options });
}

function recorder(): { readonly lines: string[]; readonly logger: Logger } {
  const lines: string[] = [];
  const log = (level: string) => (_fields: object, message: string) => void lines.push(`${level} ${message}`);
  return { lines, logger: { debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") } };
}

describe("what the cluster tells of its clients", () => {
  it("is read at the start", async () => {
    await using cluster = await ClusterDouble.start(DATA);
    const { clientCa: users, requestHeader } = (await start(cluster)).current;
    expect(users?.authorities.map(({ commonName }) => commonName)).toEqual(["kubernetes"]);
    expect(requestHeader).toMatchObject({
      authorities: { authorities: [{ commonName: "front-proxy-ca" }] },
      allowedNames: ["front-proxy-client"],
      headers: { username: ["X-Remote-User"], uid: [], group: ["X-Remote-Group"], extraPrefix: ["X-Remote-Extra-"] },
    });
  });

  it.each<[what: string, data: Record<string, string> | undefined, words: RegExp]>([
    ["there is none", undefined, /404/],
    ["authorities are none", { ...DATA, "client-ca-file": "x" }, /client-ca-file: no certificate/],
    ["a list is none", { ...DATA, "requestheader-group-headers": "X-Remote-Group" }, /group-headers: not a JSON array/],
    ["a list holds no strings", { ...DATA, "requestheader-allowed-names": "[1]" }, /allowed-names: not a JSON array/],
    [
      "a prefix is empty",
      { ...DATA, "requestheader-extra-headers-prefix": '[""]' },
      /headers-prefix: not a JSON array/,
    ],
  ])("is missed at the start when %s, unless that is tolerated", async (_what, data, words) => {
    await using cluster = await ClusterDouble.start(data);
    await expect(start(cluster)).rejects.toMatchObject({
      name: "ApiServerError",
      code: "authentication_lookup",
      message: expect.stringMatching(words) as string,
    });
    const { lines, logger } = recorder();
    const found = await start(cluster, { tolerateFailure: true, logger });
    expect(found.current).toEqual({ clientCa: undefined, requestHeader: undefined });
    expect(lines[0]).toMatch(/^warn no ConfigMap/);
    cluster.put(DATA);
    await vi.waitFor(() => expect(found.current.clientCa).toBeDefined());
  });

  it("names the role that is missing when we may not read it", async () => {
    await using cluster = await ClusterDouble.start(DATA);
    cluster.gate = (_request, response) => {
      response.writeHead(403, { "content-type": "application/json" }).end('{"kind":"Status","reason":"Forbidden"}');
      return true;
    };
    await expect(start(cluster)).rejects.toThrow(/extension-apiserver-authentication-reader/);
  });

  it("is not waited for once the start is called off", async () => {
    await using cluster = await ClusterDouble.start(DATA);
    cluster.gate = () => true;
    const life = new AbortController();
    const starting = start(cluster, { signal: life.signal, tolerateFailure: true });
    life.abort(new Error("off"));
    await expect(starting).rejects.toThrow("off");
  });

  it("is followed, by its name alone", async () => {
    await using cluster = await ClusterDouble.start(DATA);
    const found = await start(cluster);
    await vi.waitFor(() => expect(cluster.watches).toBe(1));
    expect(cluster.lists[0]?.searchParams.get("fieldSelector")).toBe(
      "metadata.name=extension-apiserver-authentication",
    );
    const before = found.current;
    let changes = 0;
    found.onChange(() => {
      changes += 1;
    });
    cluster.put({ ...DATA, "requestheader-allowed-names": "[]" });
    await vi.waitFor(() => expect(found.current.requestHeader?.allowedNames).toEqual([]));
    expect(changes).toBe(1);
    // Whom certificates were judged by is still the same.
    expect(found.current.clientCa).toBe(before.clientCa);
    expect(found.current.requestHeader?.authorities).toBe(before.requestHeader?.authorities);
  });

  it("stays what it was when it is gone, broken or out of reach", async () => {
    await using cluster = await ClusterDouble.start(DATA);
    const { lines, logger } = recorder();
    const found = await start(cluster, { logger });
    const before = found.current;
    await vi.waitFor(() => expect(cluster.watches).toBe(1));
    cluster.put({ ...DATA, "client-ca-file": "broken" });
    await vi.waitFor(() => expect(lines).toContainEqual(expect.stringMatching(/^error .*cannot be used/)));
    cluster.put(undefined);
    await vi.waitFor(() => expect(lines).toContainEqual(expect.stringMatching(/^warn .*is gone/)));
    await cluster.die();
    await vi.waitFor(() => expect(lines.length).toBeGreaterThan(2));
    expect(found.current).toBe(before);
  });
});

describe("whom to believe", () => {
  const user = { commonName: "alice" };
  const asProxy = { headers: { "X-Remote-User": "jane" } };

  it("changes with the ConfigMap while the server serves, in the handshake as well", async () => {
    const nextCa = TestAuthority.root("kubernetes-next");
    await using cluster = await ClusterDouble.start(DATA);
    const extension = await start(cluster);
    const trust = await ClientTrust.open({ extension, signal: testLife() });
    const listener = echoingListener(createAuthenticator({ trust }));
    await using rig = await startRig({ trust, listener });
    const old = clientCa.issue(user);
    const next = nextCa.issue(user);
    expect(await askHttp1(rig, { pair: old })).toMatchObject({ kind: "user", user: { name: "alice" } });
    expect(await askHttp1(rig, { pair: next })).toMatchObject({ kind: "rejected" });
    await vi.waitFor(() => expect(cluster.watches).toBe(1));
    cluster.put({ ...DATA, "client-ca-file": nextCa.cert });
    await vi.waitFor(async () => {
      expect(await askHttp1(rig, { pair: next })).toMatchObject({ kind: "user", user: { name: "alice" } });
    });
    expect(await askHttp1(rig, { pair: old })).toMatchObject({ kind: "rejected" });
    // Without the front proxies' authority in it, nobody speaks for others any more.
    const proxy = proxyCa.issue({ commonName: "front-proxy-client" });
    expect(await askHttp1(rig, { pair: proxy, ...asProxy })).toMatchObject({ user: { name: "jane" } });
    const { "requestheader-client-ca-file": _gone, ...rest } = DATA;
    cluster.put(rest);
    await vi.waitFor(async () => {
      expect(await askHttp1(rig, { pair: proxy, ...asProxy })).toMatchObject({ kind: "rejected" });
    });
  });

  it("is what files say before what the cluster says, front proxies as a whole", async () => {
    const fileClients = TestAuthority.root("file-clients");
    const fileProxies = TestAuthority.root("file-proxies");
    await using folder = await temporaryFolder();
    await using cluster = await ClusterDouble.start(DATA);
    const trust = await ClientTrust.open({
      extension: await start(cluster),
      clientCaFile: await folder.write("clients.crt", fileClients.cert),
      requestHeader: { caFile: await folder.write("proxies.crt", fileProxies.cert), usernameHeaders: ["X-User"] },
      signal: testLife(),
    });
    const { clientCa: users, requestHeader } = trust.current;
    expect(users?.authorities.map(({ commonName }) => commonName)).toEqual(["file-clients"]);
    expect(requestHeader?.authorities.authorities.map(({ commonName }) => commonName)).toEqual(["file-proxies"]);
    expect(requestHeader).toMatchObject({
      allowedNames: [],
      headers: { username: ["X-User"], uid: [], group: ["x-remote-group"], extraPrefix: ["x-remote-extra-"] },
    });
    expect(trust.authorities).toBe(fileClients.cert + fileProxies.cert);
  });

  it("is read again from files that change, and stays when they break", async () => {
    const first = TestAuthority.root("first");
    const second = TestAuthority.root("second");
    const { lines, logger } = recorder();
    await using folder = await temporaryFolder();
    const clientCaFile = await folder.write("clients.crt", first.cert);
    const trust = await ClientTrust.open({ clientCaFile, intervalMs: 5, signal: testLife(), logger });
    let changes = 0;
    const forget = trust.onChange(() => {
      changes += 1;
    });
    const name = (): string | undefined => trust.current.clientCa?.authorities[0]?.commonName;
    await folder.write("clients.crt", "broken");
    await vi.waitFor(() => expect(lines).toEqual(["warn authorities of clients not reloaded"]));
    expect(name()).toBe("first");
    await folder.write("clients.crt", second.cert);
    await vi.waitFor(() => expect(name()).toBe("second"));
    expect(changes).toBe(1);
    forget();
  });

  it.each<[what: string, content: string | undefined, code: string]>([
    ["is missing", undefined, "certificates"],
    ["holds no authority", "nothing", "certificates"],
  ])("cannot be opened with a file that %s", async (_what, content, code) => {
    await using folder = await temporaryFolder();
    const clientCaFile = content === undefined ? `${folder.path}/none` : await folder.write("ca", content);
    await expect(ClientTrust.open({ clientCaFile, signal: testLife() })).rejects.toMatchObject({ code });
  });

  it.each([
    ["an empty prefix", { extraHeaderPrefixes: [""] }],
    ["no user header", { usernameHeaders: [] }],
  ])("cannot be opened with %s", async (_what, headers) => {
    await using folder = await temporaryFolder();
    const caFile = await folder.write("ca", proxyCa.cert);
    await expect(ClientTrust.open({ requestHeader: { caFile, ...headers }, signal: testLife() })).rejects.toMatchObject(
      { code: "invalid_options" },
    );
  });
});
