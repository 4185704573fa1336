import { KubeError } from "@org/kubeinventory/client";
import { describe, expect, it } from "vitest";
import type { ApiUser, AuthorizationAttributes } from "../security.ts";
import { ManualTiming } from "../testing/manual-timing.ts";
import { ReviewDouble } from "../testing/review-double.ts";
import { createAuthorizer } from "./authorizer.ts";

const JANE: ApiUser = { name: "jane", uid: "7", groups: ["devs"], extra: { scopes: ["a"] } };
const BOB: ApiUser = { name: "bob", groups: [] };
const LIST = {
  kind: "resource",
  verb: "list",
  group: "agents.x-k8s.io",
  version: "v1beta1",
  resource: "sandboxes",
  namespace: "ns",
} as const;
const allowing = (): ReviewDouble => new ReviewDouble(() => ({ allowed: true }));

describe("what is allowed without a review", () => {
  it.each<[who: string, user: ApiUser, attributes: AuthorizationAttributes]>([
    ["a master may do everything", { name: "a", groups: ["x", "system:masters"] }, LIST],
    ["anybody may ask for health", BOB, { kind: "path", verb: "get", path: "/healthz" }],
    ["anybody may ask for readiness", BOB, { kind: "path", verb: "get", path: "/readyz" }],
    ["anybody may ask for life", BOB, { kind: "path", verb: "get", path: "/livez" }],
  ])("%s", async (_who, user, attributes) => {
    const client = new ReviewDouble(() => ({ denied: true }));
    expect(await createAuthorizer({ client }).authorize(user, attributes)).toBe("allow");
    expect(client.requests).toEqual([]);
  });

  it.each<[paths: readonly string[], path: string, decision: string]>([
    [["/metrics"], "/metrics", "allow"],
    [["/metrics"], "/healthz", "no_opinion"],
    [["/metrics"], "/metrics/slis", "no_opinion"],
    [["/metrics/*"], "/metrics/slis", "allow"],
    [["/metrics/*"], "/metrics", "no_opinion"],
    [["/health*"], "/healthz/ping", "allow"],
    [["healthz"], "/healthz", "allow"],
    [["*"], "/anything", "allow"],
    [[], "/healthz", "no_opinion"],
  ])("with the open paths %j, %s: %s", async (alwaysAllowPaths, path, decision) => {
    const authorizer = createAuthorizer({ alwaysAllowPaths });
    expect(await authorizer.authorize(BOB, { kind: "path", verb: "get", path })).toBe(decision);
  });

  it("is no resource, whatever paths are open", async () => {
    expect(await createAuthorizer({ alwaysAllowPaths: ["*"] }).authorize(BOB, LIST)).toBe("no_opinion");
  });

  it.each(["/a*b", "/*/x", "**"])("is no path like %s", (path) => {
    expect(() => createAuthorizer({ alwaysAllowPaths: [path] })).toThrow(
      expect.objectContaining({ code: "invalid_options" }),
    );
  });
});

describe("a review", () => {
  it("says who wants to do what, and nothing that there is not", async () => {
    const client = allowing();
    const authorizer = createAuthorizer({ client });
    await authorizer.authorize(JANE, {
      ...LIST,
      verb: "create",
      subresource: "pause",
      name: "box",
      fieldSelector: [],
    });
    await authorizer.authorize(BOB, { ...LIST, namespace: undefined });
    await authorizer.authorize(BOB, { kind: "path", verb: "GET", path: "/version" });
    expect(client.requests[0]).toMatchObject({
      method: "POST",
      path: "/apis/authorization.k8s.io/v1/subjectaccessreviews",
      query: { timeout: "10s" },
      body: { kind: "SubjectAccessReview", apiVersion: "authorization.k8s.io/v1", metadata: {} },
    });
    const { group, version, resource } = LIST;
    expect(client.specs).toEqual([
      {
        resourceAttributes: {
          namespace: "ns",
          verb: "create",
          group,
          version,
          resource,
          subresource: "pause",
          name: "box",
        },
        user: "jane",
        uid: "7",
        groups: ["devs"],
        extra: { scopes: ["a"] },
      },
      { resourceAttributes: { verb: "list", group, version, resource }, user: "bob", groups: [] },
      { nonResourceAttributes: { path: "/version", verb: "get" }, user: "bob", groups: [] },
    ]);
  });

  it("carries selectors, and the name that one of them leaves", async () => {
    const client = allowing();
    const authorizer = createAuthorizer({ client });
    const name = { key: "metadata.name", operator: "In", values: ["box"] } as const;
    const label = { key: "a", operator: "NotIn", values: ["b", "c"] } as const;
    await authorizer.authorize(BOB, { ...LIST, fieldSelector: [name], labelSelector: [label] });
    await authorizer.authorize(BOB, { ...LIST, fieldSelector: [name, { ...name, values: ["other"] }] });
    await authorizer.authorize(BOB, { ...LIST, fieldSelector: [{ ...name, operator: "NotIn" }] });
    expect(client.specs).toMatchObject([
      {
        resourceAttributes: {
          name: "box",
          fieldSelector: { requirements: [name] },
          labelSelector: { requirements: [label] },
        },
      },
      { resourceAttributes: { fieldSelector: { requirements: [name, { values: ["other"] }] } } },
      { resourceAttributes: { fieldSelector: { requirements: [{ operator: "NotIn" }] } } },
    ]);
    expect(client.specs.filter((spec) => JSON.stringify(spec).includes('"name":'))).toHaveLength(1);
  });

  it.each<[status: object, decision: string]>([
    [{ allowed: true }, "allow"],
    [{ allowed: false, denied: true }, "deny"],
    [{ allowed: true, denied: true }, "deny"],
    [{ allowed: false }, "no_opinion"],
    [{ allowed: false, evaluationError: "x" }, "no_opinion"],
    [{ allowed: "true" }, "no_opinion"],
    [{}, "no_opinion"],
  ])("with the answer %j is: %s", async (status, decision) => {
    expect(await createAuthorizer({ client: new ReviewDouble(() => status) }).authorize(BOB, LIST)).toBe(decision);
  });

  it("refuses all that is not open when there is nobody to ask", async () => {
    expect(await createAuthorizer().authorize(JANE, LIST)).toBe("no_opinion");
  });
});

describe("a decision", () => {
  const allowed = { allowed: true };
  it.each<[what: string, status: object, options: object, keptMs: number]>([
    ["a permission is kept for 10 s", allowed, {}, 10_000],
    ["a refusal is kept for 10 s", { denied: true }, {}, 10_000],
    ["no opinion is kept as a refusal", { allowed: false }, { deniedTtlMs: 3000, allowedTtlMs: 7000 }, 3000],
    ["a permission is kept as long as is wanted", allowed, { deniedTtlMs: 3000, allowedTtlMs: 7000 }, 7000],
  ])("%s", async (_what, status, options, keptMs) => {
    const client = new ReviewDouble(() => status);
    const timing = new ManualTiming();
    const authorizer = createAuthorizer({ client, timing, ...options });
    await authorizer.authorize(JANE, LIST);
    timing.pass(keptMs - 1);
    await authorizer.authorize(JANE, LIST);
    expect(client.requests).toHaveLength(1);
    timing.pass(1);
    await authorizer.authorize(JANE, LIST);
    expect(client.requests).toHaveLength(2);
  });

  it("is not kept at all with a time of 0", async () => {
    const client = allowing();
    const authorizer = createAuthorizer({ client, allowedTtlMs: 0 });
    await authorizer.authorize(JANE, LIST);
    await authorizer.authorize(JANE, LIST);
    expect(client.requests).toHaveLength(2);
  });

  it.each<[what: string, user: ApiUser, attributes: AuthorizationAttributes]>([
    ["name", { ...JANE, name: "joe" }, LIST],
    ["uid", { ...JANE, uid: "8" }, LIST],
    ["group", { ...JANE, groups: ["devs", "ops"] }, LIST],
    ["extra", { ...JANE, extra: { scopes: ["b"] } }, LIST],
    ["verb", JANE, { ...LIST, verb: "watch" }],
    ["namespace", JANE, { ...LIST, namespace: "other" }],
    ["object", JANE, { ...LIST, name: "box" }],
    ["subresource", JANE, { ...LIST, subresource: "pause" }],
    ["selector", JANE, { ...LIST, labelSelector: [{ key: "a", operator: "Exists" }] }],
    ["path", JANE, { kind: "path", verb: "list", path: "/" }],
  ])("is not that of another %s", async (_what, user, attributes) => {
    const client = allowing();
    const authorizer = createAuthorizer({ client });
    await authorizer.authorize(JANE, LIST);
    client.answer = () => ({ denied: true });
    expect(await authorizer.authorize(user, attributes)).toBe("deny");
    expect(client.requests).toHaveLength(2);
  });

  it("is kept up to 9,999 bytes of what a client chose, and not from 10,000 on", async () => {
    // Verb, group, version and resource take 4 + 15 + 7 + 9 bytes, the namespace 2.
    const fixed = 37;
    for (const [bytes, requests] of [
      [9999, 1],
      [10_000, 2],
    ] as const) {
      const client = allowing();
      const authorizer = createAuthorizer({ client });
      // Two bytes each in UTF-8.
      const name = `${"ä".repeat((bytes - fixed) >> 1)}${(bytes - fixed) % 2 === 1 ? "x" : ""}`;
      await authorizer.authorize(JANE, { ...LIST, name });
      await authorizer.authorize(JANE, { ...LIST, name });
      expect(client.requests).toHaveLength(requests);
    }
  });

  it.each<[what: string, attributes: AuthorizationAttributes]>([
    ["a path", { kind: "path", verb: "get", path: `/${"x".repeat(10_000)}` }],
    [
      "selectors",
      { ...LIST, labelSelector: [{ key: "a", operator: "In", values: ["x".repeat(5000), "y".repeat(5000)] }] },
    ],
  ])("is not kept for %s of such a size", async (_what, attributes) => {
    const client = allowing();
    const authorizer = createAuthorizer({ client });
    await authorizer.authorize(JANE, attributes);
    await authorizer.authorize(JANE, attributes);
    expect(client.requests).toHaveLength(2);
  });

  it("goes when there are more than 8,192", async () => {
    const client = allowing();
    const authorizer = createAuthorizer({ client });
    for (let each = 0; each <= 8192; each += 1) {
      await authorizer.authorize(JANE, { ...LIST, name: `box-${each}` });
    }
    await authorizer.authorize(JANE, { ...LIST, name: "box-8192" });
    expect(client.requests).toHaveLength(8193);
    await authorizer.authorize(JANE, { ...LIST, name: "box-0" });
    expect(client.requests).toHaveLength(8194);
  });

  it("is asked for once by all who wait, and nobody who left waits on", async () => {
    const gate = Promise.withResolvers<void>();
    const client = new ReviewDouble(async () => {
      await gate.promise;
      return { allowed: true };
    });
    const authorizer = createAuthorizer({ client });
    const life = new AbortController();
    const left = authorizer.authorize(JANE, LIST, { signal: life.signal });
    const stays = authorizer.authorize(JANE, LIST);
    life.abort(new Error("gone"));
    await expect(left).rejects.toThrow("gone");
    gate.resolve();
    expect(await stays).toBe("allow");
    expect(client.requests).toHaveLength(1);
  });
});

describe("an outage of the cluster", () => {
  it("is a 503 for those who need a review, and nothing to others", async () => {
    const client = allowing();
    const timing = new ManualTiming();
    const authorizer = createAuthorizer({ client, timing });
    await authorizer.authorize(JANE, LIST);
    client.answer = () => {
      throw new KubeError("unreachable", "connect ECONNREFUSED");
    };
    expect(await authorizer.authorize(JANE, LIST)).toBe("allow");
    expect(await authorizer.authorize({ name: "a", groups: ["system:masters"] }, { ...LIST, verb: "delete" })).toBe(
      "allow",
    );
    expect(await authorizer.authorize(BOB, { kind: "path", verb: "get", path: "/livez" })).toBe("allow");
    await expect(authorizer.authorize(BOB, LIST)).rejects.toMatchObject({ code: 503, retryAfterSeconds: 1 });
    timing.pass(10_000);
    await expect(authorizer.authorize(JANE, LIST)).rejects.toMatchObject({ code: 503 });
    client.answer = () => ({ allowed: true });
    expect(await authorizer.authorize(JANE, LIST)).toBe("allow");
  });

  it.each([
    ["what can be kept", "box"],
    ["what cannot", "x".repeat(10_000)],
  ])("is tried again where that helps: %s", async (_what, name) => {
    const errors = [new KubeError("connection_lost", "x"), new KubeError("status", "x", { status: 429 })];
    const client = new ReviewDouble(() => {
      const error = errors.shift();
      if (error !== undefined) {
        throw error;
      }
      return { allowed: true };
    });
    const timing = new ManualTiming();
    const done = createAuthorizer({ client, timing }).authorize(JANE, { ...LIST, name });
    await timing.run(done);
    expect(await done).toBe("allow");
    expect(client.requests).toHaveLength(3);
  });
});
