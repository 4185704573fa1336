import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { text } from "node:stream/consumers";
import { guestAccessToken } from "@org/scale";
import type { PromotedTemplate } from "@org/scale";
import { answers, staysSilent } from "@org/scale/testing";
import { describe, expect, it, vi } from "vitest";
import { createFleet, IMAGE, KEY_2, NODE } from "../testing/fleet.ts";
import type { Fleet } from "../testing/fleet.ts";

const CREATE = ["/sandboxes", "/v2/sandboxes"];
const SECRET = "a secret";

/** A guest daemon that remembers what it was told. */
function guestOf(fleet: Fleet, status = 204, envs: unknown = {}): { readonly inits: Record<string, unknown>[] } {
  const inits: Record<string, unknown>[] = [];
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (request.url === "/envs") {
      response.end(JSON.stringify(envs));
      return;
    }
    inits.push(JSON.parse(await text(request)) as Record<string, unknown>);
    response.writeHead(status).end(status === 204 ? undefined : '{"code":500,"message":"no"}');
  };
  const daemon = createServer((request, response) => void answer(request, response));
  fleet.node.guest(49_983, (socket: Duplex) => daemon.emit("connection", socket));
  return { inits };
}

describe.each(CREATE)("POST %s", (path) => {
  it("answers every field that clients parse", async () => {
    const fleet = createFleet();
    const reply = await fleet.send("POST", path, { templateID: "base" });
    expect(reply.status).toBe(201);
    expect(reply.headers.get("content-type")).toBe("application/json");
    const [row] = fleet.node.sandboxes;
    expect(reply.body).toStrictEqual({
      templateID: IMAGE,
      sandboxID: row?.entry.id.replace("_", "-"),
      clientID: NODE,
      envdVersion: "0.8.0",
      envdAccessToken: row?.token,
      domain: "sandbox.example.com",
      alias: "base",
    });
    expect(reply.body.sandboxID).toMatch(/^sb-[0-9a-f]+$/);
  });

  it.each([
    ["absent", {}, "none", undefined],
    ["true", { allow_internet_access: true }, "egress", undefined],
    ["false", { allow_internet_access: false }, "none", true],
    ["null", { allow_internet_access: null }, "none", undefined],
  ])("takes the lane from allow_internet_access: %s", async (_what, body, net, noEgress) => {
    const fleet = createFleet();
    expect((await fleet.send("POST", path, { templateID: "base", ...body })).status).toBe(201);
    const claim = fleet.calls("claim")[0]?.claim;
    expect(claim?.pool.net).toBe(net);
    expect(claim?.noEgress).toBe(noEgress);
  });
});

describe("what a create asks the fleet for", () => {
  it("claims under the namespace of the key and a name of its own", async () => {
    const fleet = createFleet();
    await fleet.create({}, KEY_2);
    expect(fleet.calls("claim")[0]?.claim?.claimRef).toMatch(/^ns2\/e2b-[bcdfghjklmnpqrstvwxz2456789]{5}$/);
  });

  it.each([
    ["a timeout", { timeout: 61 }, 61],
    ["no timeout", {}, 300],
    ["a null timeout", { timeout: null }, 300],
    ["the node's own lease", { timeout: 0 }, undefined],
  ])("asks for the lease of %s", async (_what, body, ttlSeconds) => {
    const fleet = createFleet();
    await fleet.create(body);
    expect(fleet.calls("claim")[0]?.claim?.ttlSeconds || undefined).toBe(ttlSeconds);
  });

  it("sends metadata, also under names that objects have by themselves", async () => {
    const fleet = createFleet();
    const metadata = '{"user":"a b","__proto__":"x","constructor":"y"}';
    const reply = await fleet.send("POST", "/v2/sandboxes", `{"templateID":"base","metadata":${metadata}}`);
    expect(reply.status).toBe(201);
    expect(JSON.stringify(fleet.calls("claim")[0]?.claim?.metadata)).toBe(metadata);
  });

  it("archives instead of destroying when autoPause is set", async () => {
    const fleet = createFleet();
    await fleet.create({ autoPause: true });
    await fleet.create({ autoPause: false });
    expect(fleet.calls("claim").map((call) => call.claim?.onExpire)).toStrictEqual(["archive", undefined]);
  });

  it("takes the size from the alias, and small for an image", async () => {
    const fleet = createFleet({ aliases: [{ alias: "big", image: IMAGE, size: "large" }] });
    await fleet.create({ templateID: "big" });
    await fleet.create({ templateID: IMAGE });
    expect(fleet.calls("claim").map((call) => call.claim?.pool.size)).toStrictEqual(["large", "small"]);
  });
});

describe("options at create", () => {
  it.each([
    ["secure", { secure: false }],
    ["autoPause", { autoPause: true, allow_internet_access: true }],
    ["network", { network: { denyOut: ["10.0.0.0/8"] } }],
    ["network", { network: { allowPublicTraffic: true } }],
    ["network", { network: { allowOut: null } }],
    ["volumeMounts", { volumeMounts: [{ name: "v", path: "/v" }] }],
    ["autoPauseMemory", { autoPauseMemory: true }],
    ["autoPauseMemory", { autoPauseMemory: false }],
    ["mcp", { mcp: { exa: {} } }],
    ["iam", { iam: { tokens: [] } }],
    ["envVars", { envVars: { A: "1" } }],
    ["--e2b-envd-secret-file", { envVars: { A: "1" } }],
    ["timeout", { timeout: -1 }],
    ["timeout", { timeout: 1.5 }],
    ["timeout", { timeout: "60" }],
    ["timeout", { timeout: 2_147_483_648 }],
    ["metadata", { metadata: { a: 1 } }],
    ["metadata", { metadata: ["a"] }],
    ["envVars", { envVars: "A=1" }],
    ["autoResume", { autoResume: true }],
    ["autoResume.enabled", { autoResume: { enabled: "yes" } }],
    ["templateID", { templateID: "" }],
    ["templateID", { templateID: " \t" }],
    ["templateID", { templateID: null }],
    ["templateID", { templateID: 7 }],
  ])("refuses %s before anything is claimed: %j", async (name, body) => {
    const fleet = createFleet();
    const reply = await fleet.send("POST", "/v2/sandboxes", { templateID: "base", ...body });
    expect(reply.status).toBe(400);
    expect(reply.body.code).toBe(400);
    expect(reply.body.message).toContain(name);
    expect(fleet.nodes.calls).toHaveLength(0);
  });

  it("names the first refused option in a fixed order", async () => {
    const everything = [
      ["secure: ", { secure: false }],
      ["autoPauseMemory: ", { autoPauseMemory: true }],
      ["network: ", { network: { rules: {} } }],
      ["volumeMounts: ", { volumeMounts: [{}] }],
      ["mcp: ", { mcp: { a: 1 } }],
      ["iam: ", { iam: { a: 1 } }],
      ["autoPause: ", { autoPause: true, allow_internet_access: true }],
      ["envVars ", { envVars: { a: "1" } }],
    ] as const;
    const fleet = createFleet();
    for (const [index, [name]] of everything.entries()) {
      const rest = Object.assign({ templateID: "base" }, ...everything.slice(index).map(([, body]) => body));
      expect((await fleet.send("POST", "/sandboxes", rest)).body.message).toMatch(new RegExp(`^${name}`));
    }
  });

  it.each([
    { secure: true },
    { secure: null },
    { envVars: {}, metadata: {} },
    { envVars: null, metadata: null },
    { autoPause: false },
    { autoResume: { enabled: false } },
    { autoResume: { enabled: true }, autoPause: true },
    { autoResume: null },
    { network: {} },
    { network: null },
    { mcp: {}, iam: {}, volumeMounts: [] },
    { mcp: null, iam: null, volumeMounts: null, autoPauseMemory: null },
    { somethingNew: true },
  ])("accepts %j", async (body) => {
    const fleet = createFleet();
    expect((await fleet.send("POST", "/v2/sandboxes", { templateID: "base", ...body })).status).toBe(201);
  });

  it.each(["", "null", "{}", "[]", '"base"', "7", "{", '{"templateID":"base"', "\u0000"])(
    "answers 400 to the body %j",
    async (body) => {
      const fleet = createFleet();
      const reply = await fleet.send("POST", "/v2/sandboxes", body);
      expect(reply.status).toBe(400);
      expect(reply.body).toStrictEqual({ code: 400, message: expect.any(String) });
      expect(fleet.nodes.calls).toHaveLength(0);
    },
  );

  it("does not repeat a malformed body, which may hold secrets", async () => {
    const fleet = createFleet();
    const reply = await fleet.send("POST", "/v2/sandboxes", '{"envVars":{"K":"hunter2"}');
    expect(reply.text).not.toContain("hunter2");
    expect(JSON.stringify(fleet.lines)).not.toContain("hunter2");
  });
});

describe("what an old and a new client make of the same program", () => {
  it("lands on the egress lane with the old client's defaults and on none with the new one's", async () => {
    const fleet = createFleet();
    const old = { templateID: "base", timeout: 300, secure: true, allow_internet_access: true };
    expect((await fleet.send("POST", "/sandboxes", old)).status).toBe(201);
    expect((await fleet.send("POST", "/v2/sandboxes", { templateID: "base" })).status).toBe(201);
    expect(fleet.calls("claim").map((call) => call.claim?.pool.net)).toStrictEqual(["egress", "none"]);
  });

  it("is 503 for the old client on a fleet without an egress pool", async () => {
    const fleet = createFleet({ pools: [{ template: IMAGE, net: "none", size: "small", warm: 1, target: 1 }] });
    const reply = await fleet.send("POST", "/sandboxes", { templateID: "base", allow_internet_access: true });
    expect(reply.status).toBe(503);
    expect(reply.body.code).toBe(503);
    expect(reply.body.message).toMatch(/"base".*retry/);
    expect(reply.headers.get("retry-after")).toBe("1");
  });
});

describe("templates that are not warm", () => {
  const built = (name: string, change: Partial<PromotedTemplate> = {}): PromotedTemplate => ({
    template: name,
    net: "none",
    size: "medium",
    contentDigest: "sha256:aa",
    tenant: "",
    ...change,
  });
  const pools = [{ template: IMAGE, net: "none", size: "small", warm: 0, target: 5 }];
  const templates = [
    built("e2b/ns1/mine"),
    built("e2b/ns2/theirs"),
    built("e2b/ns1/rented", { tenant: "acme" }),
    built("other/ns1/outside"),
    built("e2b/ns1/base"),
    built(`e2b/ns1/${IMAGE}`),
  ];

  it.each([
    ["an alias", "base", 503],
    ["a pool image", IMAGE, 503],
    ["an unknown name", "nope", 404],
    ["another namespace's built template", "theirs", 404],
    ["a tenant's template", "rented", 404],
    ["a promoted template outside this API", "outside", 404],
    ["the internal name of a built template", "e2b/ns1/mine", 404],
    ["a tag of an unknown template", "nope:v1", 404],
    ["a checkpoint", "ck_0123", 404],
  ])("answer for %s", async (_what, templateID, status) => {
    const fleet = createFleet({ pools, templates });
    const reply = await fleet.send("POST", "/v2/sandboxes", { templateID });
    expect(reply.status).toBe(status);
    expect(reply.body.code).toBe(status);
    expect(reply.body.message).toContain(JSON.stringify(templateID));
    expect(fleet.calls("claim")).toHaveLength(0);
  });

  it("come from the namespace's built template of that name", async () => {
    const fleet = createFleet({ pools, templates });
    const reply = await fleet.send("POST", "/v2/sandboxes", { templateID: "mine", timeout: 9 });
    expect(reply.status).toBe(201);
    expect(reply.body.templateID).toBe("mine");
    expect(reply.body.alias).toBeUndefined();
    expect(fleet.calls("claim")[0]?.claim).toMatchObject({
      pool: { template: "e2b/ns1/mine", net: "none", size: "medium" },
      requirePromoted: true,
      ttlSeconds: 9,
    });
    const detail = await fleet.send("GET", `/sandboxes/${reply.body.sandboxID}`);
    expect(detail.body.templateID).toBe("mine");
  });

  it("cannot have internet access when they are built ones", async () => {
    const fleet = createFleet({ pools, templates });
    const reply = await fleet.send("POST", "/v2/sandboxes", { templateID: "mine", allow_internet_access: true });
    expect(reply.status).toBe(400);
    expect(reply.body.message).toContain("allow_internet_access");
    expect(fleet.calls("claim")).toHaveLength(0);
  });

  it("stay 503 while no node is known, whatever is asked for", async () => {
    const fleet = createFleet();
    fleet.source.remove(NODE);
    for (const templateID of ["base", IMAGE, "nope"]) {
      expect((await fleet.send("POST", "/v2/sandboxes", { templateID })).status).toBe(503);
    }
  });

  it("stay 503 when inventory cannot say more", async () => {
    const fleet = createFleet({ pools: [] });
    vi.spyOn(fleet.source, "nodeCapacities")
      .mockReturnValueOnce([])
      .mockImplementation(() => {
        throw new Error("inventory is down");
      });
    expect((await fleet.send("POST", "/v2/sandboxes", { templateID: "nope" })).status).toBe(503);
  });
});

describe("a node's refusal of a claim", () => {
  it.each([
    [400, 400, "too many metadata pairs"],
    [409, 409, "no attachment"],
    [401, 500, undefined],
    [403, 500, undefined],
    [404, 500, undefined],
  ])("%i becomes %i", async (nodeStatus, status, message) => {
    const fleet = createFleet();
    fleet.node.script("claim", answers(nodeStatus, message ?? "node secret detail"));
    const reply = await fleet.send("POST", "/v2/sandboxes", { templateID: "base" });
    expect(reply.status).toBe(status);
    expect(reply.body.code).toBe(status);
    expect(reply.text).not.toContain("node secret detail");
    if (message !== undefined) {
      expect(reply.body.message).toBe(message);
    }
    const errors = fleet.lines.filter((line) => line.level === "error");
    expect(errors).toHaveLength(nodeStatus === 401 || nodeStatus === 403 ? 1 : 0);
  });
});

describe("derived access tokens", () => {
  it("prepare the guest before the client is answered", async () => {
    const fleet = createFleet({ envdSecret: SECRET, now: () => Date.UTC(2026, 8, 27, 13, 57, 51, 250) });
    const { inits } = guestOf(fleet);
    fleet.node.script("claim", async (call) => ({ ...(await fleet.node.claim(call.claim!)), netRoute: "direct" }));
    const reply = await fleet.send("POST", "/v2/sandboxes", { templateID: "base", envVars: { A: "1" } });
    expect(reply.status).toBe(201);
    const accessToken = guestAccessToken(fleet.node.sandboxes[0]?.token ?? "", SECRET);
    expect(reply.body.envdAccessToken).toBe(accessToken);
    expect(inits).toStrictEqual([
      {
        accessToken,
        envVars: { A: "1" },
        defaultUser: "user",
        defaultWorkdir: "/home/user",
        timestamp: "2026-09-27T13:57:51.250Z",
      },
    ]);
    // The passive relay, which shows no token of the sandbox.
    expect(fleet.calls("dialPort")).toMatchObject([{ port: 49_983, token: "" }]);
  });

  it("add the node's proxy under the request's own values when the node relays", async () => {
    const fleet = createFleet({ envdSecret: SECRET });
    const { inits } = guestOf(fleet);
    await fleet.create({ envVars: { http_proxy: "http://mine" } });
    expect(inits[0]?.["envVars"]).toStrictEqual({
      http_proxy: "http://mine",
      https_proxy: "http://127.0.0.1:3128",
      no_proxy: "localhost,127.0.0.1,::1,169.254.169.254",
    });
  });

  it.each([
    ["only their token without variables", {}, undefined],
    ["their own variables under the request's", { envVars: { B: "mine" } }, { A: "template", B: "mine" }],
  ])("leave built templates %s", async (_what, body, envVars) => {
    const fleet = createFleet({
      envdSecret: SECRET,
      pools: [],
      templates: [{ template: "e2b/ns1/mine", net: "none", size: "small", contentDigest: "sha256:aa", tenant: "" }],
    });
    const { inits } = guestOf(fleet, 204, { A: "template", B: "template" });
    await fleet.create({ templateID: "mine", ...body });
    expect(inits).toHaveLength(1);
    expect(inits[0]?.["envVars"]).toStrictEqual(envVars);
    expect(inits[0]).not.toHaveProperty("defaultUser");
    expect(inits[0]).toHaveProperty("accessToken");
  });

  it.each([{ "": "x" }, { "A=B": "x" }, { "A\0B": "x" }, { A: "x\0y" }])("refuse the variables %j", async (envVars) => {
    const fleet = createFleet({ envdSecret: SECRET });
    const reply = await fleet.send("POST", "/v2/sandboxes", { templateID: "base", envVars });
    expect(reply.status).toBe(400);
    expect(reply.body.message).toContain("envVars");
    expect(fleet.nodes.calls).toHaveLength(0);
  });

  it.each([
    ["refuses", (fleet: Fleet) => guestOf(fleet, 500)],
    ["is not there", () => undefined],
    ["hangs up", (fleet: Fleet) => fleet.node.guest(49_983, (socket) => socket.destroy())],
  ])("release the sandbox when the daemon %s", async (_what, arrange) => {
    const fleet = createFleet({ envdSecret: SECRET });
    arrange(fleet);
    const reply = await fleet.send("POST", "/v2/sandboxes", { templateID: "base", envVars: { A: "hunter2" } });
    expect(reply.status).toBe(500);
    expect(reply.body.code).toBe(500);
    expect(fleet.node.sandboxes).toHaveLength(0);
    expect(JSON.stringify(fleet.lines)).not.toContain("hunter2");
  });
});

describe("a client that hangs up while its sandbox is made", () => {
  const hangUp = async (fleet: Fleet, when: Promise<unknown>): Promise<void> => {
    const client = new AbortController();
    const answer = fleet.send("POST", "/v2/sandboxes", { templateID: "base" }, { signal: client.signal });
    await when;
    client.abort();
    expect((await answer).status).toBe(499);
    await fleet.server.settled();
    expect(fleet.node.sandboxes).toHaveLength(0);
    expect(fleet.lines.filter((line) => line.level === "error" || line.level === "warn")).toHaveLength(0);
  };

  it("leaves none behind while the node is still making it", async () => {
    const fleet = createFleet();
    const { promise: claimed, resolve } = Promise.withResolvers<void>();
    const { promise: late, resolve: deliver } = Promise.withResolvers<void>();
    fleet.node.script("claim", async (call) => {
      resolve();
      await late;
      return fleet.node.claim(call.claim!);
    });
    const gone = hangUp(fleet, claimed);
    await claimed;
    await new Promise(setImmediate);
    deliver();
    await gone;
    expect(fleet.calls("release")).toHaveLength(1);
  });

  it("leaves none behind when the claim returns at the same moment", async () => {
    const client = new AbortController();
    const fleet = createFleet({
      store: (store) => ({
        ...store,
        release: (node, id) => store.release(node, id),
        settled: () => store.settled(),
        claim: async (...args) => {
          const assignment = await store.claim(args[0], args[1], args[2], { ...args[3], signal: undefined });
          client.abort();
          return assignment;
        },
      }),
    });
    const reply = await fleet.send("POST", "/v2/sandboxes", { templateID: "base" }, { signal: client.signal });
    expect(reply.status).toBe(499);
    expect(fleet.node.sandboxes).toHaveLength(0);
  });

  it("leaves none behind while the guest is prepared", async () => {
    const fleet = createFleet({ envdSecret: SECRET });
    const { promise: dialled, resolve } = Promise.withResolvers<void>();
    fleet.node.guest(49_983, () => resolve());
    await hangUp(fleet, dialled);
  });

  it("is released although its own signal is dead, and an error says when that fails", async () => {
    const fleet = createFleet({ envdSecret: SECRET });
    fleet.node.always("release", answers(500));
    const reply = await fleet.send("POST", "/v2/sandboxes", { templateID: "base" });
    expect(reply.status).toBe(500);
    const [release] = fleet.calls("release");
    expect(release?.signal?.aborted ?? false).toBe(false);
    expect(fleet.lines.filter((line) => line.level === "error").map((line) => line.message)).toStrictEqual([
      "an uncollected sandbox could not be released",
    ]);
  });

  it("is not waited for by a node that stays silent", async () => {
    const fleet = createFleet();
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    const silent = staysSilent();
    fleet.node.script("claim", (call) => {
      resolve();
      return silent(call);
    });
    const client = new AbortController();
    const answer = fleet.send("POST", "/v2/sandboxes", { templateID: "base" }, { signal: client.signal });
    await asked;
    client.abort();
    expect((await answer).status).toBe(499);
  });
});
