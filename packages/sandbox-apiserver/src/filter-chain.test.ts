import { request } from "node:http";
import type { IncomingMessage } from "node:http";
import { describe, expect, test } from "vitest";
import { unavailable } from "./api-status.ts";
import type { Authenticator, Authorizer } from "./security.ts";
import { apiFixture, sandboxNamed, SANDBOXES } from "./testing/api-fixture.ts";
import { staysSilent } from "@org/scale/testing";

const ROOT = "/apis/agents.x-k8s.io/v1beta1";
const comesAs = (name: string, groups: readonly string[] = []): Authenticator => ({
  authenticate: () => Promise.resolve({ kind: "user", user: { name, groups } }),
});
const decides = (decision: "deny" | "no_opinion"): Authorizer => ({ authorize: () => Promise.resolve(decision) });

describe("every answer", () => {
  test("has an id of its own or the one that came, and is not cached", async () => {
    await using fixture = await apiFixture();
    for (const path of ["/version", "/nothing", `${SANDBOXES}/none`]) {
      const answer = await fixture.call("GET", path);
      expect(answer.headers["audit-id"]).toMatch(/^[0-9a-f-]{36}$/);
      expect(answer.headers["cache-control"]).toBe("no-cache, private");
      const known = await fixture.call("GET", path, { headers: { "audit-id": "front-7" } });
      expect(known.headers["audit-id"]).toBe("front-7");
      const odd = await fixture.call("GET", path, { headers: { "audit-id": "x".repeat(65) } });
      expect(odd.headers["audit-id"]).toMatch(/^[0-9a-f-]{36}$/);
    }
  });

  test("is logged with who asked, and without its query and credentials", async () => {
    const lines: string[] = [];
    const log = (fields: object, message: string): void => void lines.push(JSON.stringify({ ...fields, message }));
    await using fixture = await apiFixture({ logger: { debug: log, info: log, warn: log, error: log } });
    const made = await fixture.call("POST", `${SANDBOXES}?fieldManager=secret-query`, {
      body: sandboxNamed("box"),
      headers: { authorization: "Bearer secret-credential" },
    });
    expect(lines).toEqual([expect.stringContaining('"user":"alice"') as string]);
    expect(lines[0]).toContain(`"path":"${SANDBOXES}","user":"alice","status":201`);
    const { annotations } = made.json["metadata"] as { annotations: Readonly<Record<string, string>> };
    const token = annotations["sandbox.cocoonstack.io/token"] ?? "";
    for (const secret of ["secret-query", "secret-credential", token]) {
      expect(lines.join("")).not.toContain(secret);
    }
  });
});

describe("a request", () => {
  test("with a credential that does not hold is unauthorized", async () => {
    const authenticator: Authenticator = { authenticate: () => Promise.resolve({ kind: "rejected" }) };
    await using fixture = await apiFixture({ authenticator });
    const answer = await fixture.call("GET", SANDBOXES);
    expect(answer.json).toMatchObject({ code: 401, reason: "Unauthorized", message: "Unauthorized" });
    expect(fixture.asked).toEqual([]);
  });

  test.each([
    [
      "GET",
      SANDBOXES,
      'sandboxes.agents.x-k8s.io is forbidden: User "bob" cannot list resource "sandboxes" in API group "agents.x-k8s.io" in the namespace "team"',
    ],
    [
      "GET",
      `${ROOT}/sandboxes`,
      'sandboxes.agents.x-k8s.io is forbidden: User "bob" cannot list resource "sandboxes" in API group "agents.x-k8s.io" at the cluster scope',
    ],
    [
      "DELETE",
      `${SANDBOXES}/box`,
      'sandboxes.agents.x-k8s.io "box" is forbidden: User "bob" cannot delete resource "sandboxes" in API group "agents.x-k8s.io" in the namespace "team"',
    ],
    [
      "POST",
      `${SANDBOXES}/box/fork`,
      'sandboxes.agents.x-k8s.io "box" is forbidden: User "bob" cannot create resource "sandboxes/fork" in API group "agents.x-k8s.io" in the namespace "team"',
    ],
    ["GET", "/metrics", 'forbidden: User "bob" cannot get path "/metrics"'],
    ["PUT", "/nothing", 'forbidden: User "bob" cannot put path "/nothing"'],
    ["HEAD", "/version", undefined],
  ] as const)("that is not allowed is forbidden: %s %s", async (method, path, message) => {
    for (const decision of ["deny", "no_opinion"] as const) {
      await using fixture = await apiFixture({ authenticator: comesAs("bob"), authorizer: decides(decision) });
      const answer = await fixture.call(method, path);
      expect(answer.status).toBe(403);
      if (message !== undefined) {
        expect(answer.json).toMatchObject({ reason: "Forbidden", message });
      }
      expect(fixture.nodes.calls).toEqual([]);
    }
  });

  test("in another's name is refused, whoever sends it", async () => {
    await using fixture = await apiFixture({ authenticator: comesAs("root", ["system:masters"]) });
    for (const header of ["impersonate-user", "impersonate-group", "Impersonate-Extra-Scopes"]) {
      const answer = await fixture.call("GET", "/version", { headers: { [header]: "bob" } });
      expect(answer.json).toMatchObject({ code: 403, reason: "Forbidden" });
    }
  });

  test("is answered with 503 while nobody can tell who or whether", async () => {
    const authenticator: Authenticator = { authenticate: () => Promise.reject(unavailable("no reviewer", 1)) };
    await using unknown = await apiFixture({ authenticator });
    const authorizer: Authorizer = { authorize: () => Promise.reject(unavailable("no reviewer", 1)) };
    await using undecided = await apiFixture({ authorizer });
    for (const fixture of [unknown, undecided]) {
      const answer = await fixture.call("GET", SANDBOXES);
      expect(answer.json).toMatchObject({ code: 503, reason: "ServiceUnavailable" });
      expect(answer.headers["retry-after"]).toBe("1");
    }
  });

  test("that fails in a way nobody thought of shows nothing of it", async () => {
    const authorizer: Authorizer = { authorize: () => Promise.reject(new Error("inner words")) };
    await using fixture = await apiFixture({ authorizer });
    const answer = await fixture.call("GET", SANDBOXES);
    expect(answer.json).toMatchObject({ code: 500, reason: "InternalError" });
    expect(answer.text).not.toContain("inner words");
  });

  test("of another type is not read", async () => {
    await using fixture = await apiFixture();
    for (const type of ["text/plain", "application/vnd.kubernetes.protobuf", "application/cbor"]) {
      const answer = await fixture.call("POST", SANDBOXES, { body: "x", headers: { "content-type": type } });
      expect(answer.json).toMatchObject({ code: 415, reason: "UnsupportedMediaType" });
    }
  });

  test.each([
    ["HEAD", "/version"],
    ["POST", "/version"],
    ["PUT", `${SANDBOXES}/box`],
    ["DELETE", SANDBOXES],
    ["POST", `${ROOT}/sandboxes`],
    ["GET", `${SANDBOXES}/box/pause`],
  ])("by another method is not allowed: %s %s", async (method, path) => {
    await using fixture = await apiFixture();
    const answer = await fixture.call(method, path);
    expect(answer.status).toBe(405);
    if (method !== "HEAD") {
      expect(answer.json).toMatchObject({ reason: "MethodNotAllowed", details: {} });
    }
  });

  test("tells the authorizer the same path that its handler sees", async () => {
    await using fixture = await apiFixture();
    await fixture.call("DELETE", `${SANDBOXES.replace("team", "te%61m")}/a%2Fb`);
    expect(fixture.asked).toMatchObject([{ verb: "delete", resource: "sandboxes", namespace: "team", name: "a/b" }]);
    const answer = await fixture.call("GET", `${SANDBOXES}/a%zz`);
    expect(answer.json).toMatchObject({ code: 400 });
  });
});

describe("a request that takes too long", () => {
  test("is answered with 504 after the bound, or sooner where the client asks", async () => {
    await using fixture = await apiFixture({ requestTimeoutMs: 50 });
    fixture.node.script("claim", staysSilent());
    const answer = await fixture.call("POST", SANDBOXES, { body: sandboxNamed("box") });
    expect(answer.json).toMatchObject({ code: 504, reason: "Timeout" });
    await using patient = await apiFixture();
    patient.node.script("claim", staysSilent());
    const asked = await patient.call("POST", `${SANDBOXES}?timeout=20ms`, { body: sandboxNamed("box") });
    expect(asked.json).toMatchObject({ code: 504, reason: "Timeout" });
    const odd = await patient.call("GET", `${SANDBOXES}?timeout=soon`);
    expect(odd.json).toMatchObject({ code: 400 });
  });
});

describe("requests in flight", () => {
  /** Starts a request and waits for nothing. */
  function started(origin: string, path: string): { answer: Promise<IncomingMessage>; end: () => void } {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const outgoing = request(`${origin}${path}`, { agent: false }, resolve);
    outgoing.on("error", reject);
    outgoing.end();
    promise.catch(() => undefined);
    return { answer: promise, end: () => outgoing.destroy() };
  }

  test("are bounded, reads and writes apart, but for watches and the cluster's own", async () => {
    const held = Promise.withResolvers<"allow">();
    let waiting = 0;
    const authorizer: Authorizer = {
      authorize: (user, attributes) => {
        if (user.name !== "alice" || attributes.kind !== "resource" || attributes.verb !== "list") {
          return Promise.resolve("allow");
        }
        waiting += 1;
        return held.promise;
      },
    };
    let user = { name: "alice", groups: ["system:authenticated"] };
    const authenticator: Authenticator = { authenticate: () => Promise.resolve({ kind: "user", user }) };
    await using fixture = await apiFixture({ authenticator, authorizer, maxInFlight: { reads: 2, writes: 2 } });
    const reads = [started(fixture.origin, SANDBOXES), started(fixture.origin, SANDBOXES)];
    await expect.poll(() => waiting).toBe(2);

    const refused = await fixture.call("GET", SANDBOXES);
    expect(refused.json).toMatchObject({ code: 429, reason: "TooManyRequests", details: { retryAfterSeconds: 1 } });
    expect(refused.headers["retry-after"]).toBe("1");
    expect((await fixture.call("POST", SANDBOXES, { body: sandboxNamed("box") })).status).toBe(201);
    const watch = started(fixture.origin, `${SANDBOXES}?watch=true`);
    expect((await watch.answer).statusCode).toBe(200);
    watch.end();
    user = { name: "system:kube-aggregator", groups: ["system:masters"] };
    expect((await fixture.call("GET", ROOT)).status).toBe(200);

    user = { name: "alice", groups: [] };
    held.resolve("allow");
    for (const { answer } of reads) {
      const incoming = await answer;
      incoming.resume();
      expect(incoming.statusCode).toBe(200);
    }
    expect((await fixture.call("GET", SANDBOXES)).status).toBe(200);
  });
});
