import { expect, test } from "vitest";

import { type KubeRule, reviewAccess, reviewToken } from "./kube-standin-reviews.ts";

const RULES: readonly KubeRule[] = [
  { subjects: ["group:all"], verbs: ["get"], paths: ["/apis/*", "/version"] },
  { subjects: ["bob"], verbs: ["get", "list"], resources: ["sandboxes"], namespaces: ["team"] },
  { subjects: ["group:ops"], verbs: ["*"], resources: ["*"] },
];

function isAllowed(user: string, groups: readonly string[], attributes: object): unknown {
  const { status } = reviewAccess({ spec: { user, groups, ...attributes } }, RULES) as { status: { allowed: unknown } };
  return status.allowed;
}

const resource = (verb: string, namespace?: string, subresource?: string): object => ({
  resourceAttributes: { verb, resource: "sandboxes", namespace, subresource },
});

test.each<[string, readonly string[], object, boolean]>([
  ["bob", [], resource("get", "team"), true],
  ["bob", [], resource("get", "other"), false],
  ["bob", [], resource("list"), false],
  ["bob", [], resource("create", "team", "pause"), false],
  ["group:ops", [], resource("get", "team"), false],
  ["eve", ["ops"], resource("create", "team", "pause"), true],
  ["eve", ["all"], { nonResourceAttributes: { path: "/apis/x", verb: "get" } }, true],
  ["eve", ["all"], { nonResourceAttributes: { path: "/metrics", verb: "get" } }, false],
  ["eve", ["all"], { nonResourceAttributes: { path: "/version", verb: "post" } }, false],
])("%s of %j may %j: %s", (user, groups, attributes, allowed) => {
  expect(isAllowed(user, groups, attributes)).toBe(allowed);
});

test("a token is its owner's, every other one is nobody's", () => {
  const users = { secret: { username: "bob", groups: ["all"] } };
  const review = (token: unknown): unknown => (reviewToken({ spec: { token } }, users) as { status: unknown }).status;
  expect(review("secret")).toEqual({ authenticated: true, user: users.secret });
  expect(review("other")).toMatchObject({ authenticated: false });
  expect(review(undefined)).toMatchObject({ authenticated: false });
});
