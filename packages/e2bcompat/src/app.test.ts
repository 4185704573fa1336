import { describe, expect, it } from "vitest";
import { createFleet, IMAGE, KEY_1, KEY_2, read } from "./testing/fleet.ts";

const LATER: readonly (readonly [string, string])[] = [
  ["GET", "/volumes"],
  ["POST", "/volumes"],
  ["GET", "/volumes/v1"],
  ["DELETE", "/volumes/v1"],
  ["PUT", "/volumecontent/v1/file"],
  ["GET", "/volumecontent/v1/dir"],
  ["GET", "/secrets"],
  ["POST", "/secrets"],
  ["DELETE", "/secrets/s1"],
  ["GET", "/teams"],
  ["GET", "/teams/t1/metrics"],
  ["GET", "/teams/t1/metrics/max"],
  ["GET", "/nodes"],
  ["POST", "/nodes/n1"],
  ["GET", "/admin/anything/below"],
  ["POST", "/access-tokens"],
  ["DELETE", "/access-tokens/a1"],
  ["GET", "/api-keys"],
  ["PATCH", "/api-keys/k1"],
];

const OLD_BUILDS: readonly (readonly [string, string])[] = [
  ["POST", "/templates"],
  ["POST", "/v2/templates"],
  ["POST", "/templates/mine"],
  ["POST", "/templates/mine/builds/b1"],
];

const BUILDS: readonly (readonly [string, string])[] = [
  ["POST", "/v3/templates"],
  ["GET", "/templates/mine/files/0a0a"],
  ["POST", "/v2/templates/mine/builds/b1"],
  ["GET", "/templates/mine/builds/b1/status?logsOffset=0"],
  ["GET", "/templates/mine/builds/b1/logs"],
];

describe("what this deployment does not serve", () => {
  it.each(LATER)("%s %s is a 501 that says so", async (method, path) => {
    const reply = await createFleet().send(method, path);
    expect(reply.status).toBe(501);
    expect(reply.body).toStrictEqual({
      code: 501,
      message: `${method} ${path} is not supported by this deployment`,
    });
  });

  it.each(OLD_BUILDS)("%s %s is a 501 that points at the current API", async (method, path) => {
    const reply = await createFleet().send(method, path);
    expect(reply.status).toBe(501);
    expect(reply.body.message).toContain("/v3/templates");
  });

  it.each(BUILDS)("%s %s is a 404 that says that builds are off", async (method, path) => {
    const reply = await createFleet().send(method, path);
    expect(reply.status).toBe(404);
    expect(reply.body).toStrictEqual({ code: 404, message: "template builds are off in this deployment" });
  });

  it.each([...LATER, ...OLD_BUILDS, ...BUILDS])("%s %s needs a key", async (method, path) => {
    expect((await createFleet().send(method, path, undefined, { key: "e2b_wrong" })).status).toBe(401);
  });

  it("is refused for network rules only after the sandbox was found", async () => {
    const fleet = createFleet();
    const id = await fleet.create();
    const reply = await fleet.send("PUT", `/sandboxes/${id}/network`, "not even JSON");
    expect(reply.status).toBe(400);
    expect(reply.body.message).toContain("network");
  });
});

describe("paths and methods", () => {
  it.each([
    ["GET", "/"],
    ["GET", "/nope"],
    ["POST", "/v1/sandboxes"],
    ["GET", "/sandboxes/"],
    ["GET", "/sandboxes/a/b/c"],
    ["GET", "/templates/aliases/a/b"],
    ["OPTIONS", "/nope"],
  ])("%s %s is a 404 in JSON, also without a key", async (method, path) => {
    const reply = await createFleet().send(method, path, undefined, { key: "" });
    expect(reply.status).toBe(404);
    expect(reply.headers.get("content-type")).toBe("application/json");
    expect(reply.body).toStrictEqual({ code: 404, message: "not found" });
  });

  it.each([
    ["PUT", "/sandboxes", "POST, GET, HEAD"],
    ["DELETE", "/v2/sandboxes", "POST, GET, HEAD"],
    ["POST", "/sandboxes/sb-1", "GET, HEAD, DELETE"],
    ["GET", "/sandboxes/sb-1/pause", "POST"],
    ["POST", "/sandboxes/sb-1/network", "PUT"],
    ["DELETE", "/templates", "GET, HEAD"],
    ["POST", "/health", "GET, HEAD"],
    ["QUERY", "/sandboxes", "POST, GET, HEAD"],
    // Neither is an id.
    ["GET", "/templates/tags", "POST, DELETE"],
    ["DELETE", "/sandboxes/metrics", "GET, HEAD"],
  ])("%s %s is a 405 in JSON, with the methods that there are", async (method, path, allow) => {
    const reply = await createFleet().send(method, path);
    expect(reply.status).toBe(405);
    expect(reply.body).toStrictEqual({ code: 405, message: "method not allowed" });
    expect(reply.headers.get("allow")).toBe(allow);
  });

  it("GET /health is 204 without a key and without a body", async () => {
    const reply = await createFleet().send("GET", "/health", undefined, { key: "" });
    expect([reply.status, reply.text]).toStrictEqual([204, ""]);
  });
});

describe("keys", () => {
  it.each(["", "e2b_", "e2b_111", "e2b_11111", "E2B_1111", "e2b_1111, e2b_1111", "ü"])(
    "%j opens nothing",
    async (key) => {
      const fleet = createFleet();
      const reply = await fleet.send("POST", "/v2/sandboxes", { templateID: "base" }, { key });
      expect(reply.status).toBe(401);
      expect(reply.body).toStrictEqual({ code: 401, message: "invalid API key" });
      expect(fleet.nodes.calls).toHaveLength(0);
    },
  );

  it("are read from X-API-KEY in any case, and from no other header", async () => {
    const { server } = createFleet();
    const list = async (headers: Record<string, string>): Promise<number> =>
      (await read(await server.fetch(new Request("http://localhost/sandboxes", { headers })))).status;
    expect(await list({ "X-API-KEY": KEY_1 })).toBe(200);
    expect(await list({ "x-api-key": KEY_1 })).toBe(200);
    expect(await list({})).toBe(401);
    expect(await list({ authorization: `Bearer ${KEY_1}` })).toBe(401);
  });

  it("are still asked for when anonymous use is allowed as well", async () => {
    const fleet = createFleet({ allowAnonymous: true });
    expect((await fleet.send("GET", "/sandboxes", undefined, { key: "" })).status).toBe(401);
    expect((await fleet.send("GET", "/sandboxes")).status).toBe(200);
  });

  it("are not asked for in anonymous use, whose namespace is the configured one", async () => {
    const fleet = createFleet({ allowAnonymous: true, keys: [], namespace: "shared" });
    for (const key of ["", "whatever"]) {
      expect((await fleet.send("POST", "/sandboxes", { templateID: "base" }, { key })).status).toBe(201);
    }
    expect(fleet.calls("claim").map((call) => call.claim?.claimRef.split("/")[0])).toStrictEqual(["shared", "shared"]);
  });
});

describe("the log", () => {
  it("has one line per request, with its route and without its secrets", async () => {
    const fleet = createFleet({ envdSecret: "the-envd-secret" });
    fleet.node.guest(49_983, (socket) => {
      socket.once("data", () => socket.end("HTTP/1.1 204 No Content\r\n\r\n"));
    });
    const id = await fleet.create({ envVars: { PASSWORD: "hunter2" }, metadata: { note: "private" } });
    const token = (await fleet.send("POST", `/sandboxes/${id}/connect`)).body.envdAccessToken as string;
    await fleet.send("GET", "/sandboxes?metadata=note%3Dprivate");
    await fleet.send("GET", "/nope?secret=1", undefined, { key: "e2b_wrong" });
    await fleet.send("GET", "/sandboxes", undefined, { key: "e2b_wrong" });
    const requests = fleet.lines.filter((line) => line.message === "request");
    expect(requests.map(({ fields }) => [fields["method"], fields["route"], fields["status"]])).toStrictEqual([
      ["POST", "/v2/sandboxes", 201],
      ["POST", "/sandboxes/{sandboxID}/connect", 200],
      ["GET", "/sandboxes", 200],
      ["GET", "*", 404],
      ["GET", "/sandboxes", 401],
    ]);
    // One spelling on every line: who looks for a sandbox finds all of it.
    expect(requests.slice(0, 2).map(({ fields }) => fields["sandboxId"])).toStrictEqual([id, id]);
    expect(new Set(requests.map(({ fields }) => fields["requestId"])).size).toBe(5);
    for (const { fields } of requests) {
      expect(fields["durationMs"]).toBeTypeOf("number");
    }
    const text = JSON.stringify(fleet.lines);
    const claimToken = fleet.node.sandboxes[0]?.token ?? "";
    for (const secret of [KEY_1, KEY_2, "e2b_wrong", "hunter2", "the-envd-secret", "private", token, claimToken]) {
      expect(text).not.toContain(secret);
    }
  });
});

describe("the configured envd version and domain", () => {
  it("are what every reply says", async () => {
    const fleet = createFleet({ envdVersion: "0.4.0", domain: "localhost:3000" });
    const { body } = await fleet.send("POST", "/v2/sandboxes", { templateID: IMAGE });
    expect(body).toMatchObject({ envdVersion: "0.4.0", domain: "localhost:3000" });
    const detail = await fleet.send("GET", `/sandboxes/${body.sandboxID}`);
    expect(detail.body).toMatchObject({ envdVersion: "0.4.0", domain: "localhost:3000" });
  });
});

describe("browsers", () => {
  const origin = "https://dashboard.example";
  const asking = { origin, "access-control-request-method": "POST" };

  it.each([
    ["x-api-key, authorization, e2b-sandbox-id", "x-api-key, authorization, e2b-sandbox-id"],
    ["X-API-KEY,Content-Type,Idempotency-Key,X-Request-Id", "X-API-KEY,Content-Type,Idempotency-Key,X-Request-Id"],
    // What the SDK sends in a page.
    ["browser,lang,lang_version,package_version,sdk_runtime", "browser,lang,lang_version,package_version,sdk_runtime"],
    [undefined, "x-api-key, authorization, content-type, idempotency-key, x-request-id"],
    ["a:b", "x-api-key, authorization, content-type, idempotency-key, x-request-id"],
  ])("may ask before a request with %j", async (requested, allowed) => {
    const headers = requested === undefined ? asking : { ...asking, "access-control-request-headers": requested };
    const reply = await createFleet().send("OPTIONS", "/v2/sandboxes", undefined, { key: "", headers });
    expect([reply.status, reply.text]).toStrictEqual([204, ""]);
    expect(reply.headers.get("access-control-allow-origin")).toBe("*");
    expect(reply.headers.get("access-control-allow-headers")).toBe(allowed);
    expect(reply.headers.get("access-control-allow-methods")).toContain("DELETE");
  });

  it("may read every answer and the page token, refusals included", async () => {
    const fleet = createFleet();
    for (const [key, path] of [
      [KEY_1, "/v2/sandboxes"],
      ["wrong", "/v2/sandboxes"],
      [KEY_1, "/nope"],
    ] as const) {
      const reply = await fleet.send("GET", path, undefined, { key, headers: { origin } });
      expect(reply.headers.get("access-control-allow-origin")).toBe("*");
      expect(reply.headers.get("access-control-expose-headers")).toContain("x-next-token");
    }
    expect((await fleet.send("GET", "/sandboxes")).headers.has("access-control-allow-origin")).toBe(false);
  });

  it.each([
    ["in anonymous use", { keys: [], allowAnonymous: true }],
    ["where that is switched off", { corsOrigins: "none" as const }],
  ])("may not use the API %s", async (_what, options) => {
    const fleet = createFleet(options);
    const reply = await fleet.send("GET", "/sandboxes", undefined, { headers: { origin } });
    expect(reply.headers.has("access-control-allow-origin")).toBe(false);
    expect((await fleet.send("OPTIONS", "/sandboxes", undefined, { headers: asking })).status).toBe(405);
  });

  describe.each([
    ["with keys", {}],
    ["in anonymous use", { keys: [], allowAnonymous: true }],
  ])("of listed origins, %s", (_what, options) => {
    const listed = ["https://one.example", "http://localhost:5173"];
    const cases: readonly (readonly [string | undefined, string | null])[] = [
      [listed[0], "https://one.example"],
      [listed[1], "http://localhost:5173"],
      [origin, null],
      ["https://one.example.evil", null],
      ["https://one.example:8443", null],
      ["null", null],
      [undefined, null],
    ];

    it.each(cases)("%j is answered with %j, and caches keep the answers apart", async (from, allowed) => {
      const fleet = createFleet({ ...options, corsOrigins: listed });
      const headers = from === undefined ? {} : { origin: from };
      for (const [method, path, key, more] of [
        ["GET", "/sandboxes", KEY_1, {}],
        ["GET", "/nope", KEY_1, {}],
        ["GET", "/sandboxes/sb-00", KEY_1, {}],
        ["PUT", "/sandboxes", KEY_1, {}],
        ["GET", "/sandboxes", "wrong", {}],
        ["OPTIONS", "/sandboxes", "", { "access-control-request-method": "POST" }],
      ] as const) {
        const reply = await fleet.send(method, path, undefined, { key, headers: { ...headers, ...more } });
        expect([method, path, reply.headers.get("access-control-allow-origin")]).toStrictEqual([method, path, allowed]);
        expect(reply.headers.get("vary")).toBe("origin");
      }
    });
  });

  it.each(["https://", "example.com", "https://a/b", "https://a b", "a,b", "*,https://a", "null", "", "https://u@a"])(
    "of %j, which is no origin, fail the start",
    (bad) => {
      expect(() => createFleet({ corsOrigins: [bad] })).toThrow(expect.objectContaining({ code: "invalid_options" }));
    },
  );
});

describe("request ids", () => {
  it.each(["abc", "0af7651916cd43dd8448eb211c80319c", "a.b_c:d-e", "x".repeat(128)])(
    "are taken from the client (%j), for the answer and the log",
    async (given) => {
      const fleet = createFleet();
      for (const [path, key] of [
        ["/sandboxes", KEY_1],
        ["/sandboxes", "wrong"],
        ["/nope", KEY_1],
        ["/health", ""],
      ] as const) {
        const reply = await fleet.send("GET", path, undefined, { key, headers: { "x-request-id": given } });
        expect(reply.headers.get("x-request-id")).toBe(given);
        expect(fleet.lines.at(-1)?.fields["requestId"]).toBe(given);
      }
    },
  );

  it.each([undefined, "", "x".repeat(129), "a b", 'a"b', "{}", "-a", "ü", "a, b"])(
    "are made where the client has none that fits (%j)",
    async (given) => {
      const fleet = createFleet();
      const headers: Record<string, string> = given === undefined ? {} : { "x-request-id": given };
      const ids = new Set<unknown>();
      for (const path of ["/sandboxes", "/nope"]) {
        const reply = await fleet.send("GET", path, undefined, { headers });
        const id = reply.headers.get("x-request-id");
        expect(id).toMatch(/^[0-9a-f-]{36}$/);
        expect(fleet.lines.at(-1)?.fields["requestId"]).toBe(id);
        ids.add(id);
      }
      expect(ids.size).toBe(2);
    },
  );

  it("keep the log bounded whatever a path says", async () => {
    const fleet = createFleet();
    await fleet.send("GET", `/sandboxes/${"x".repeat(5000)}`);
    expect(JSON.stringify(fleet.lines).length).toBeLessThan(2000);
  });
});
