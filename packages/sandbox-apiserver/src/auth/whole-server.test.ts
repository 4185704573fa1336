import { Agent, request } from "node:https";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { apiFixture, SANDBOXES, type ApiFixture } from "../testing/api-fixture.ts";
import { ClusterDouble } from "../testing/cluster-double.ts";
import { startRig, type Rig } from "../testing/serve-rig.ts";
import { TestAuthority, type Pair } from "../testing/test-authority.ts";
import { createAuthenticator } from "./authenticator.ts";
import { createAuthorizer } from "./authorizer.ts";
import { ClientTrust } from "./client-trust.ts";
import { ExtensionAuthentication } from "./extension-authentication.ts";

const clientCa = TestAuthority.root("kubernetes");
const proxyCa = TestAuthority.root("front-proxy-ca");
const proxy = proxyCa.issue({ commonName: "front-proxy-client" });
const admin = clientCa.issue({ commonName: "admin", organizations: ["system:masters"] });
const guest = clientCa.issue({ commonName: "guest" });

interface Answer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly body: string;
}

async function ask(
  rig: Rig,
  path: string,
  { pair, headers = {} }: { readonly pair?: Pair; readonly headers?: Record<string, string> } = {},
): Promise<Answer> {
  const agent = new Agent({ keepAlive: false });
  const options = {
    host: "127.0.0.1",
    servername: "localhost",
    port: rig.port,
    ca: rig.ca,
    path,
    headers,
    agent,
    ...pair,
  };
  return new Promise((resolve, reject) => {
    request(options, (response) => {
      const { statusCode: status = 0, headers: got } = response;
      text(response).then((body) => resolve({ status, retryAfter: got["retry-after"], body }), reject);
    })
      .on("error", reject)
      .end();
  });
}

/** Everything together, with a cluster that lets `jane` do all and others nothing. */
interface Whole extends AsyncDisposable {
  readonly cluster: ClusterDouble;
  readonly rig: Rig;
}

async function whole(): Promise<Whole> {
  const life = new AbortController();
  const cluster = await ClusterDouble.start({
    "client-ca-file": clientCa.cert,
    "requestheader-client-ca-file": proxyCa.cert,
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    "requestheader-allowed-names": '["front-proxy-client"]',
  });
  cluster.reviewer = (spec) =>
    "token" in spec
      ? { authenticated: spec["token"] === "good", user: { username: "jane" } }
      : { allowed: spec["user"] === "jane" };
  const { client } = cluster;
  const extension = await ExtensionAuthentication.start({ client, signal: life.signal });
  const trust = await ClientTrust.open({ extension, signal: life.signal });
  const fixture: ApiFixture = await apiFixture({
    authenticator: createAuthenticator({ trust, client }),
    authorizer: createAuthorizer({ client }),
  });
  const { api } = fixture;
  const rig = await startRig({
    trust,
    listener: api.listener,
    onShutdown: () => api.shutdown(),
    onClose: () => api.close(),
  });
  return {
    cluster,
    rig,
    async [Symbol.asyncDispose]() {
      await rig[Symbol.asyncDispose]();
      await fixture[Symbol.asyncDispose]();
      life.abort();
      await cluster[Symbol.asyncDispose]();
    },
  };
}

describe("the whole server, while the cluster reviews", () => {
  let server: Whole;
  beforeAll(async () => {
    server = await whole();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  it.each<[what: string, asking: { pair?: Pair; headers?: Record<string, string> }, status: number, words: RegExp]>([
    ["lets a user in by its token", { headers: { Authorization: "Bearer good" } }, 200, /SandboxList/],
    ["lets a user in by a front proxy", { pair: proxy, headers: { "X-Remote-User": "jane" } }, 200, /SandboxList/],
    ["lets a master in by its certificate", { pair: admin }, 200, /SandboxList/],
    [
      "lets a master in by a front proxy",
      { pair: proxy, headers: { "X-Remote-User": "x", "X-Remote-Group": "system:masters" } },
      200,
      /SandboxList/,
    ],
    [
      "tells a user what it may not",
      { pair: guest },
      403,
      /User \\"guest\\" cannot list resource \\"sandboxes\\".* in the namespace \\"team\\"/,
    ],
    [
      "believes no headers of a user",
      { pair: guest, headers: { "X-Remote-User": "jane", "X-Remote-Group": "system:masters" } },
      403,
      /User \\"guest\\" cannot/,
    ],
    [
      "believes no headers of nobody",
      { headers: { "X-Remote-User": "jane" } },
      403,
      /User \\"system:anonymous\\" cannot/,
    ],
    [
      "knows no bad token",
      { headers: { Authorization: "Bearer bad" } },
      401,
      /"message":"Unauthorized","reason":"Unauthorized","code":401/,
    ],
    ["lets nobody be another", { pair: admin, headers: { "Impersonate-User": "jane" } }, 403, /impersonate/],
  ])("%s", async (_what, asking, status, words) => {
    const answer = await ask(server.rig, SANDBOXES, asking);
    expect(answer.body).toMatch(words);
    expect(answer.status).toBe(status);
  });
});

describe("the whole server, while the cluster is gone", () => {
  it("serves what needs no review or was just reviewed, and asks all others to come again", async () => {
    await using server = await whole();
    const { rig, cluster } = server;
    const good = { headers: { Authorization: "Bearer good" } };
    expect((await ask(rig, SANDBOXES, good)).status).toBe(200);
    const life = new AbortController();
    onTestFinished(() => life.abort());
    let watched = "";
    const began = Promise.withResolvers<void>();
    request(
      {
        host: "127.0.0.1",
        servername: "localhost",
        port: rig.port,
        ca: rig.ca,
        path: `${SANDBOXES}?watch=true`,
        signal: life.signal,
        ...admin,
      },
      (response) => {
        response
          .on("error", () => undefined)
          .on("data", (chunk: Buffer) => {
            watched += chunk.toString();
          });
        response.once("end", () => {
          watched += "end";
        });
        began.resolve();
      },
    )
      .on("error", () => undefined)
      .end();
    await began.promise;
    await cluster.die();

    expect(await ask(rig, SANDBOXES, good)).toMatchObject({ status: 200 });
    expect(await ask(rig, SANDBOXES, { pair: admin })).toMatchObject({ status: 200 });
    for (const path of ["/livez", "/readyz"]) {
      expect(await ask(rig, path)).toMatchObject({ status: 200, body: "ok" });
    }
    for (const asking of [
      { headers: { Authorization: "Bearer other" } },
      { pair: guest },
      { pair: proxy, headers: { "X-Remote-User": "new" } },
      {},
    ]) {
      const answer = await ask(rig, SANDBOXES, asking);
      expect(answer).toMatchObject({ status: 503, retryAfter: "1" });
      expect(JSON.parse(answer.body)).toMatchObject({
        kind: "Status",
        reason: "ServiceUnavailable",
        code: 503,
        details: { retryAfterSeconds: 1 },
      });
    }
    expect(watched).not.toContain("end");
    await cluster.listen();
    await vi.waitFor(async () => expect((await ask(rig, SANDBOXES, { pair: guest })).status).toBe(403));
  });
});
