import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, connect, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { ClusterConfig } from "./cluster-config.ts";
import { KubeClient } from "./kube-client.ts";
import { Authority } from "./testing/certificates.ts";
import { refuse, ScriptedApiServer } from "./testing/scripted-api-server.ts";

const authority = new Authority("cluster");
const serving = authority.issue("api.internal");
const ca = { text: authority.cert };

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "kube-client-"));
});

afterAll(async () => {
  await rm(folder, { recursive: true });
});

function connected(server: { readonly url: string }, more: Partial<ClusterConfig> = {}): Promise<KubeClient> {
  return KubeClient.connect({ source: "test", server: server.url, namespace: "default", user: {}, ...more });
}

/** A server that takes one bearer token and no other. */
async function guarded(tokens: Set<string>): Promise<ScriptedApiServer> {
  const server = await ScriptedApiServer.start();
  server.gate = (response, seen) => {
    const known = tokens.has(seen.headers.authorization ?? "");
    if (!known) {
      refuse(401, "Unauthorized")(response, seen);
    }
    return !known;
  };
  return server;
}

describe("a request", () => {
  it("carries method, query, body and who asks, under the server's own path", async () => {
    await using server = await ScriptedApiServer.start();
    server.listScripts.push((response) => void response.writeHead(201).end('{"ok":true}'));
    await using client = await KubeClient.connect(
      { source: "test", server: `${server.url}/k8s/c-1`, namespace: "default", user: { token: { text: "t" } } },
      { userAgent: "shim/1" },
    );
    const query = { dryRun: "All", unset: undefined };
    expect(await client.request({ method: "POST", path: "/api/v1/events", query, body: { a: 1 } })).toEqual({
      ok: true,
    });
    const [seen] = server.requests;
    expect(seen).toMatchObject({
      method: "POST",
      path: "/k8s/c-1/api/v1/events",
      query: { dryRun: "All" },
      body: '{"a":1}',
    });
    expect(seen?.headers).toMatchObject({
      accept: "application/json",
      authorization: "Bearer t",
      "content-type": "application/json",
      "user-agent": "shim/1",
    });
  });

  it("with name and password is basic", async () => {
    await using server = await ScriptedApiServer.start();
    await using client = await connected(server, { user: { basic: { username: "a", password: "ü:" } } });
    await client.request({ path: "/version" });
    expect(server.requests[0]?.headers.authorization).toBe(`Basic ${Buffer.from("a:ü:").toString("base64")}`);
  });

  it("that is refused has the server's words, cut, and no token", async () => {
    await using server = await ScriptedApiServer.start();
    await using client = await connected(server, { user: { token: { text: "secret-token" } } });
    server.listScripts.push(
      refuse(403, "Forbidden"),
      (response) => void response.writeHead(500).end("x\n".repeat(1e6)),
    );
    const forbidden = await client.request({ path: "/a" }).catch((error: unknown) => error);
    expect(forbidden).toMatchObject({ code: "status", status: 403, reason: "Forbidden" });
    expect(String(forbidden)).toBe("KubeError: GET /a: 403 Forbidden scripted Forbidden");
    const failed = await client.request({ path: "/a" }).catch((error: unknown) => error);
    expect(failed).toMatchObject({ code: "status", status: 500 });
    expect(String(failed).length).toBeLessThan(400);
  });

  it("follows no redirect, which could take its token elsewhere", async () => {
    await using server = await ScriptedApiServer.start();
    await using client = await connected(server, { user: { token: { text: "t" } } });
    server.listScripts.push((response) => void response.writeHead(302, { location: `${server.url}/b` }).end());
    await expect(client.request({ path: "/a" })).rejects.toMatchObject({ code: "status", status: 302 });
    expect(server.requests).toHaveLength(1);
  });

  it("fails in words that tell what happened", async () => {
    await using server = await ScriptedApiServer.start();
    await using client = await connected(server);
    const call = (signal?: AbortSignal): Promise<unknown> => client.request({ path: "/a", signal });
    server.listScripts.push((response) => void response.end("{"));
    await expect(call()).rejects.toMatchObject({ code: "bad_reply" });
    server.listScripts.push((response) => void response.socket?.resetAndDestroy());
    await expect(call()).rejects.toMatchObject({ code: "connection_lost" });
    server.listScripts.push((response) => {
      response.writeHead(200, { "content-length": "99" });
      response.write("{", () => response.socket?.resetAndDestroy());
    });
    await expect(call()).rejects.toMatchObject({ code: "connection_lost" });
    const reason = new Error("enough");
    await expect(call(AbortSignal.abort(reason))).rejects.toMatchObject({ code: "aborted", cause: reason });
    await server.die();
    await expect(call()).rejects.toMatchObject({ code: "unreachable" });
    await client.close();
    await expect(call()).rejects.toMatchObject({ code: "unreachable" });
  });

  it("uses connections of those before", async () => {
    await using server = await ScriptedApiServer.start();
    await using client = await connected(server);
    for (let round = 0; round < 20; round += 1) {
      await client.request({ path: "/a" });
    }
    expect(server.connections).toBeLessThanOrEqual(2);
  });
});

describe("a token in a file", () => {
  it("is read again at once when it is refused, and the request is tried once more", async () => {
    const file = join(folder, "rotated");
    await writeFile(file, "old\n");
    await using server = await guarded(new Set(["Bearer old"]));
    await using client = await connected(server, { user: { token: { file } } });
    await client.request({ path: "/a" });
    await writeFile(file, "new\n");
    server.gate = (response, seen) => {
      const known = seen.headers.authorization === "Bearer new";
      if (!known) {
        refuse(401, "Unauthorized")(response, seen);
      }
      return !known;
    };
    await client.request({ method: "POST", path: "/a", body: { a: 1 } });
    expect(server.requests.map(({ headers, body }) => `${headers.authorization} ${body}`)).toEqual([
      "Bearer old ",
      'Bearer old {"a":1}',
      'Bearer new {"a":1}',
    ]);
    await rm(file);
    await client.request({ path: "/a" });
  });

  it("of a plugin that fails after a refusal leaves no connection in use", async () => {
    const ran = join(folder, "ran");
    const credential = {
      apiVersion: "client.authentication.k8s.io/v1",
      kind: "ExecCredential",
      status: { token: "t" },
    };
    const exec = {
      command: "sh",
      args: ["-c", `[ -e ${ran} ] && exit 1; touch ${ran}; echo '${JSON.stringify(credential)}'`],
      env: { PATH: process.env["PATH"] ?? "" },
      apiVersion: "client.authentication.k8s.io/v1",
      provideClusterInfo: false,
    } as const;
    await using server = await ScriptedApiServer.start();
    await using client = await connected(server, { user: { exec } });
    server.listScripts.push((response) => {
      response.writeHead(401);
      // It never ends.
      response.write("{");
    });
    await expect(client.request({ path: "/a" })).rejects.toMatchObject({ code: "credentials" });
    await vi.waitFor(() => expect(server.connections).toBe(0), { interval: 2, timeout: 10_000 });
  });

  it("that did not change is not tried twice", async () => {
    const file = join(folder, "refused");
    await writeFile(file, "old");
    await using server = await guarded(new Set());
    await using client = await connected(server, { user: { token: { file } } });
    await expect(client.request({ path: "/a" })).rejects.toMatchObject({ code: "status", status: 401 });
    expect(server.requests).toHaveLength(1);
  });

  it.each([
    ["is not there", undefined],
    ["is empty", "\n"],
    ["fits into no header", "a\r\nhost: x"],
  ])("that %s is refused before anything is sent", async (_name, content) => {
    const file = join(folder, "bad");
    await rm(file, { force: true });
    if (content !== undefined) {
      await writeFile(file, content);
    }
    await expect(connected({ url: "http://127.0.0.1:1" }, { user: { token: { file } } })).rejects.toMatchObject({
      code: "credentials",
    });
  });
});

describe("a connection", () => {
  it("is made to whom the authority knows, under another name if need be, and to nobody else", async () => {
    await using server = await ScriptedApiServer.start(serving);
    await using known = await connected(server, { ca });
    await known.request({ path: "/a" });
    await using named = await connected(server, { ca, tlsServerName: "api.internal" });
    await named.request({ path: "/a" });
    for (const more of [{}, { ca: { text: new Authority("other").cert } }, { ca, tlsServerName: "other.internal" }]) {
      await using client = await connected(server, more);
      await expect(client.request({ path: "/a" })).rejects.toMatchObject({ code: "unreachable" });
    }
    expect(server.requests).toHaveLength(2);
  });

  it("without a check is made, and the log says so", async () => {
    await using server = await ScriptedApiServer.start(serving);
    const warned: string[] = [];
    const quiet = (): void => undefined;
    const logger = {
      debug: quiet,
      info: quiet,
      warn: (_: object, text: string) => void warned.push(text),
      error: quiet,
    };
    const config = { source: "test", server: server.url, namespace: "default", user: {}, insecure: true };
    await using client = await KubeClient.connect(config, { logger });
    await client.request({ path: "/a" });
    expect(warned).toEqual(["the certificate of the API server is not checked: its credentials can be stolen"]);
  });

  it("shows the client's certificate, and another one once the files were replaced", async () => {
    await using server = await ScriptedApiServer.start({ ...serving, ca: authority.cert, requestCert: true });
    const names: string[] = [];
    server.gate = (response, seen) => {
      const name = String((response.socket as TLSSocket).getPeerCertificate().subject.CN);
      names.push(name);
      const known = name === "second" || names.length === 1;
      if (!known) {
        refuse(401, "Unauthorized")(response, seen);
      }
      return !known;
    };
    const files = { cert: { file: join(folder, "c.pem") }, key: { file: join(folder, "k.pem") } };
    const install = async (name: string): Promise<void> => {
      const pair = authority.issue(name);
      await writeFile(files.cert.file, pair.cert);
      await writeFile(files.key.file, pair.key);
    };
    await install("first");
    await using client = await connected(server, { ca, user: { certificate: files } });
    await client.request({ path: "/a" });
    await install("second");
    await client.request({ path: "/a" });
    expect(names).toEqual(["first", "first", "second"]);
  });

  it.each([
    ["an authority that is none", { ca: { text: "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n" } }],
    [
      "a key of another certificate",
      { user: { certificate: { cert: { text: serving.cert }, key: { text: authority.issue("x").key } } } },
    ],
    ["an authority in a file that is not there", { ca: { file: "/nowhere" } }],
  ])("with %s is refused before anything is sent", async (_name, more) => {
    await expect(connected({ url: "https://127.0.0.1:1" }, more)).rejects.toMatchObject({ code: "credentials" });
  });

  it("goes through a proxy, which sees nothing of what is sent", async () => {
    await using server = await ScriptedApiServer.start(serving);
    const asked: string[] = [];
    const proxy = createServer((socket) => {
      socket
        .on("error", () => undefined)
        .once("data", (head: Buffer) => {
          asked.push(head.toString("latin1").split("\r\n")[0] ?? "");
          const target = connect(server.port, "127.0.0.1", () => {
            socket.write("HTTP/1.1 200 OK\r\n\r\n");
            socket.pipe(target).pipe(socket);
          });
          target.on("error", () => socket.destroy());
        });
    });
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    const proxyUrl = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    const config = { ca, proxyUrl, tlsServerName: "api.internal", user: { token: { text: "secret-token" } } };
    {
      await using client = await connected(server, config);
      await client.request({ path: "/a" });
    }
    expect(asked).toEqual([`CONNECT 127.0.0.1:${server.port} HTTP/1.1`]);
    expect(server.requests[0]?.headers.authorization).toBe("Bearer secret-token");
    await new Promise((resolve) => proxy.close(resolve));
  });
});
