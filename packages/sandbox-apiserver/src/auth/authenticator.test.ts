import { beforeAll, afterAll, describe, expect, it } from "vitest";
import {
  askHttp1,
  askHttp2,
  echoingListener,
  startRig,
  type Asking,
  type Echo,
  type Rig,
} from "../testing/serve-rig.ts";
import { SERVER_AUTH, TestAuthority, type Pair } from "../testing/test-authority.ts";
import { createAuthenticator } from "./authenticator.ts";
import type { CertificateTrust } from "./cluster-authentication.ts";
import { REMOTE_HEADER_NAMES, type RemoteHeaderNames } from "./request-headers.ts";
import { readTrustBundle } from "./trust-bundle.ts";

const proxyCa = TestAuthority.root("front-proxy-ca");
const clientCa = TestAuthority.root("kubernetes");
const proxy = proxyCa.issue({ commonName: "front-proxy-client" });
const kubelet = clientCa.issue({ commonName: "system:node:a", organizations: ["system:nodes"] });

function trusting(more: {
  readonly allowedNames?: readonly string[];
  readonly headers?: Partial<RemoteHeaderNames>;
  readonly clientCa?: string;
  readonly proxyCa?: string;
}): { current: CertificateTrust; authorities: string; onChange: () => () => void } {
  const client = readTrustBundle("client", more.clientCa ?? clientCa.cert);
  const authorities = readTrustBundle("proxy", more.proxyCa ?? proxyCa.cert);
  const headers = { ...REMOTE_HEADER_NAMES, ...more.headers };
  return {
    current: { clientCa: client, requestHeader: { authorities, allowedNames: more.allowedNames ?? [], headers } },
    authorities: client.pem + authorities.pem,
    onChange: () => () => undefined,
  };
}

async function rigWith(trust: ReturnType<typeof trusting>): Promise<Rig> {
  return startRig({ trust, listener: echoingListener(createAuthenticator({ trust })) });
}

const remote = (user: string, ...groups: string[]): Record<string, string | string[]> => ({
  "X-Remote-User": user,
  ...(groups.length > 0 && { "X-Remote-Group": groups }),
});
const known = (name: string, ...groups: string[]): object => ({
  kind: "user",
  user: { name, groups: [...groups, "system:authenticated"] },
});
const ANONYMOUS = { kind: "user", user: { name: "system:anonymous", groups: ["system:unauthenticated"] } };
const REJECTED = { kind: "rejected" };
const at = (ms: number): Date => new Date(Date.now() + ms);

describe.each<[protocol: string, ask: (rig: Rig, asking?: Asking) => Promise<Echo>]>([
  ["HTTP/1.1", askHttp1],
  ["HTTP/2", askHttp2],
])("over %s", (_protocol, ask) => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await rigWith(trusting({}));
  });
  afterAll(() => rig[Symbol.asyncDispose]());

  const middle = proxyCa.below("proxies");
  const behind = middle.issue({ commonName: "front-proxy-client" });
  const rows: [who: string, pair: Pair | undefined, headers: Record<string, string | string[]>, outcome: object][] = [
    ["a front proxy speaks for its user", proxy, remote("jane", "a", "b"), known("jane", "a", "b")],
    ["groups with commas stay whole", proxy, remote("jane", "cn=a,dc=b", "c, d"), known("jane", "cn=a,dc=b", "c, d")],
    ["empty groups do not count", proxy, remote("jane", "", "a"), known("jane", "a")],
    ["a front proxy may speak for nobody", proxy, remote("system:anonymous", "system:unauthenticated"), ANONYMOUS],
    ["a group is not given twice", proxy, remote("jane", "system:authenticated"), known("jane")],
    ["a front proxy that speaks for no one is rejected", proxy, {}, REJECTED],
    ["a front proxy with an empty user is rejected", proxy, { "X-Remote-User": "" }, REJECTED],
    [
      "a front proxy's chain may have an authority in between",
      { ...behind, cert: behind.cert + middle.cert },
      remote("jane"),
      known("jane"),
    ],
    ["a chain with a gap is rejected", behind, remote("jane"), REJECTED],
    ["headers without a certificate are ignored", undefined, remote("admin", "system:masters"), ANONYMOUS],
    [
      "headers over a user's certificate are ignored",
      kubelet,
      remote("admin", "system:masters"),
      known("system:node:a", "system:nodes"),
    ],
    [
      "headers over a stranger's certificate are rejected",
      TestAuthority.root("front-proxy-ca").issue({ commonName: "front-proxy-client" }),
      remote("admin", "system:masters"),
      REJECTED,
    ],
    [
      "headers over an expired certificate are rejected",
      proxyCa.issue({ commonName: "p", notAfter: at(-1000) }),
      remote("jane"),
      REJECTED,
    ],
    [
      "headers over a future certificate are rejected",
      proxyCa.issue({ commonName: "p", notBefore: at(600_000) }),
      remote("jane"),
      REJECTED,
    ],
    [
      "headers over a server's certificate are rejected",
      proxyCa.issue({ commonName: "p", purposes: [SERVER_AUTH] }),
      remote("jane"),
      REJECTED,
    ],
    ["nobody is anonymous", undefined, {}, ANONYMOUS],
    ["a user has a certificate", kubelet, {}, known("system:node:a", "system:nodes")],
    ["an expired user is rejected", clientCa.issue({ commonName: "u", notAfter: at(-1000) }), {}, REJECTED],
    ["a user without a name is rejected", clientCa.issue({ organizations: ["system:masters"] }), {}, REJECTED],
    ["a token that nobody reviews is rejected", undefined, { Authorization: "Bearer abc" }, REJECTED],
    ["a password is rejected", undefined, { Authorization: "Basic YTpi" }, REJECTED],
    ["an empty token is rejected", undefined, { Authorization: "Bearer" }, REJECTED],
    [
      "a certificate is believed beside a bad token",
      kubelet,
      { Authorization: "Bearer abc" },
      known("system:node:a", "system:nodes"),
    ],
    [
      "names are read as UTF-8",
      proxy,
      remote(Buffer.from("jörg@例え").toString("latin1"), Buffer.from("größe").toString("latin1")),
      known("jörg@例え", "größe"),
    ],
    [
      "extras have decoded keys in lower case",
      proxy,
      {
        ...remote("jane"),
        "X-Remote-Extra-Scopes": ["a", "b, c"],
        "X-Remote-Extra-Example.com%2FTeam": "x",
        "X-Remote-Extra-Bad%zz": "y",
      },
      {
        kind: "user",
        user: {
          name: "jane",
          groups: ["system:authenticated"],
          extra: { scopes: ["a", "b, c"], "example.com/team": ["x"], "bad%zz": ["y"] },
        },
      },
    ],
    ["a uid header counts only when it is named", proxy, { ...remote("jane"), "X-Remote-Uid": "7" }, known("jane")],
  ];
  it.each(rows)("%s", async (_who, pair, headers, outcome) => {
    const echo = await ask(rig, { pair, headers });
    const { kind, user } = echo;
    expect(user === undefined ? { kind } : { kind, user }).toEqual(outcome);
  });

  it.each([
    ["a front proxy", proxy],
    ["a user", kubelet],
    ["nobody", undefined],
  ])("nothing behind the authentication sees what %s sent of it", async (_who, pair) => {
    const { rawHeaders, headers } = await ask(rig, {
      pair,
      headers: {
        ...remote("jane", "a", "b"),
        "X-Remote-Extra-Scopes": "x",
        "X-Remote-Uid": "7",
        Authorization: "Bearer abc",
        "X-Other": "stays",
      },
    });
    const all = [...rawHeaders, ...Object.entries(headers).flat()].join(" ").toLowerCase();
    expect(all).not.toMatch(/remote|bearer|authorization|jane/);
    expect(headers["x-other"]).toBe("stays");
    expect(all.match(/x-other/g)).toHaveLength(2);
  });
});

describe("a front proxy whose name is not allowed", () => {
  it.each([
    ["is not believed", proxyCa.issue({ commonName: "other" }), REJECTED],
    ["is not believed without a name", proxyCa.issue({}), REJECTED],
    ["is told from the allowed one", proxy, known("jane")],
  ])("%s", async (_what, pair, outcome) => {
    await using rig = await rigWith(trusting({ allowedNames: ["aggregator", "front-proxy-client"] }));
    expect(await askHttp1(rig, { pair, headers: remote("jane") })).toMatchObject(outcome);
  });

  it("is a plain user where users have the same authority", async () => {
    const trust = trusting({ allowedNames: ["front-proxy-client"], clientCa: proxyCa.cert });
    await using rig = await rigWith(trust);
    const pair = proxyCa.issue({ commonName: "bob" });
    expect(await askHttp1(rig, { pair, headers: remote("admin", "system:masters") })).toMatchObject(known("bob"));
  });
});

describe("headers of other names", () => {
  const headers = { username: ["X-Empty", "X-User"], uid: ["X-Uid"], group: ["X-G1", "X-G2"], extraPrefix: ["X-E-"] };

  it("are read, and taken out, in place of the usual ones", async () => {
    await using rig = await rigWith(trusting({ headers }));
    const echo = await askHttp1(rig, {
      pair: proxy,
      headers: {
        "X-Empty": "",
        "x-user": "jane",
        "X-UID": "7",
        "X-G2": "c",
        "X-G1": ["a", "b"],
        "X-E-K": "v",
        ...remote("admin", "system:masters"),
      },
    });
    expect(echo.user).toEqual({
      name: "jane",
      uid: "7",
      groups: ["a", "b", "c", "system:authenticated"],
      extra: { k: ["v"] },
    });
    expect(Object.keys(echo.headers).toSorted()).toEqual(["connection", "host"]);
  });

  it("that are none let no front proxy speak", async () => {
    await using rig = await rigWith(trusting({ headers: { username: [] } }));
    expect(await askHttp1(rig, { pair: proxy, headers: remote("jane") })).toMatchObject(REJECTED);
  });
});

describe("two credentials of one kind", () => {
  it("are nobody's", async () => {
    const authenticator = createAuthenticator({ client: { request: () => Promise.reject(new Error("asked")) } });
    const rawHeaders = ["Authorization", "Bearer a", "authorization", "Bearer b"];
    const request = { rawHeaders, headers: {}, socket: {} };
    expect(await authenticator.authenticate(request as never)).toEqual(REJECTED);
  });
});

describe("trust that changes", () => {
  it("is the next request's on a connection that stands, in both directions", async () => {
    const trust = trusting({});
    let now = Date.now();
    const authenticator = createAuthenticator({ trust, clock: () => now });
    await using rig = await startRig({ trust, listener: echoingListener(authenticator) });
    await using client = await keptConnection(rig, kubelet);
    expect(await client.ask()).toMatchObject(known("system:node:a", "system:nodes"));
    const before = trust.current;
    trust.current = { ...before, clientCa: readTrustBundle("x", TestAuthority.root("kubernetes").cert) };
    expect(await client.ask()).toMatchObject(REJECTED);
    trust.current = before;
    expect(await client.ask()).toMatchObject(known("system:node:a", "system:nodes"));
    now += 7_200_000;
    expect(await client.ask()).toMatchObject(REJECTED);
    now -= 7_200_000;
    // What was refused is looked at again soon.
    expect(await client.ask()).toMatchObject(known("system:node:a", "system:nodes"));
  });
});

async function keptConnection(
  rig: Rig,
  pair: Pair,
): Promise<AsyncDisposable & { ask: () => Promise<Echo>; connections: () => number }> {
  const { Agent, request } = await import("node:https");
  const { text } = await import("node:stream/consumers");
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const sockets = new Set<unknown>();
  return {
    ask: () =>
      new Promise<Echo>((resolve, reject) => {
        const options = { host: "127.0.0.1", servername: "localhost", port: rig.port, ca: rig.ca, agent, ...pair };
        request(options, (response) => {
          sockets.add(response.socket);
          void text(response).then((body) => resolve(JSON.parse(body) as Echo), reject);
        })
          .on("error", reject)
          .end();
      }),
    connections: () => sockets.size,
    async [Symbol.asyncDispose]() {
      agent.destroy();
    },
  };
}
