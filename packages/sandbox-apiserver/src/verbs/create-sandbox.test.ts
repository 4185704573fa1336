import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { answers, fails } from "@org/scale/testing";
import { sandboxUid } from "../sandbox-uid.ts";
import { apiFixture, NODE, sandboxNamed, SANDBOXES } from "../testing/api-fixture.ts";
import type { ApiFixture, FixtureAnswer } from "../testing/api-fixture.ts";

let fixture: ApiFixture;
beforeAll(async () => {
  fixture = await apiFixture();
});
afterAll(() => fixture[Symbol.asyncDispose]());

let made = 0;
const fresh = (): string => `box-${(made += 1)}`;
const create = (body: object | string, query = "", headers?: Record<string, string>): Promise<FixtureAnswer> =>
  fixture.call("POST", `${SANDBOXES}${query}`, { body, headers });
const claims = (): number => fixture.nodes.calls.filter(({ verb }) => verb === "claim").length;

const container = (resources: object): object => ({
  metadata: { name: fresh() },
  spec: { podTemplate: { spec: { containers: [{ image: "rt:24.04", resources }] } } },
});

describe("a create", () => {
  test("answers the submitted object with who it is, and the token that no read shows", async () => {
    const name = fresh();
    const answer = await create({
      ...sandboxNamed(name),
      metadata: {
        name,
        labels: { team: "a" },
        annotations: { note: "kept" },
        generation: 7,
        finalizers: ["x/y"],
        resourceVersion: "5",
        uid: "mine",
        managedFields: [],
        generateName: "box-",
      },
    });
    expect(answer.status).toBe(201);
    const id = fixture.node.sandboxes.find(({ entry }) => entry.claimRef === `team/${name}`)?.entry.id ?? "";
    const uid = sandboxUid(NODE, id);
    expect(answer.json).toEqual({
      kind: "Sandbox",
      apiVersion: "agents.x-k8s.io/v1beta1",
      metadata: {
        name,
        namespace: "team",
        uid,
        creationTimestamp: "2026-11-30T10:00:00Z",
        labels: { team: "a" },
        annotations: {
          note: "kept",
          "sandbox.cocoonstack.io/claim-id": id,
          "sandbox.cocoonstack.io/address": NODE,
          "sandbox.cocoonstack.io/token": expect.stringMatching(/^[0-9a-f]{32}$/) as string,
          "sandbox.cocoonstack.io/deadline": expect.stringMatching(/Z$/) as string,
        },
      },
      spec: { podTemplate: { spec: { containers: [{ name: "main", image: "rt:24.04" }] } } },
      status: {
        nodeName: NODE,
        podIPs: ["node-1.example"],
        conditions: [
          {
            type: "Ready",
            status: "True",
            reason: "DependenciesReady",
            message: `claimed on node "${NODE}"`,
            lastTransitionTime: "2026-11-30T10:00:00Z",
          },
        ],
      },
    });
    const read = await fixture.call("GET", `${SANDBOXES}/${name}`);
    expect(read.json["metadata"]).toMatchObject({ name, uid });
    expect(read.text).not.toContain("token");
  });

  test("takes a body without kind and version, in YAML as well", async () => {
    const name = fresh();
    const yaml = `metadata: {name: ${name}}\nspec:\n  podTemplate:\n    spec:\n      containers: [{image: "rt:24.04"}]\n`;
    const answer = await create(yaml, "", { "content-type": "application/yaml; charset=utf-8" });
    expect(answer.status).toBe(201);
    expect(answer.json["kind"]).toBe("Sandbox");
  });

  test("makes a name out of a prefix, of at most 63 characters", async () => {
    const answer = await create({ ...sandboxNamed(""), metadata: { generateName: "p".repeat(70) } });
    expect(answer.status).toBe(201);
    expect(answer.json["metadata"]).toMatchObject({
      name: expect.stringMatching(/^p{58}[bcdfghjklmnpqrstvwxz2456789]{5}$/) as string,
    });
    expect(answer.json["metadata"]).not.toHaveProperty("generateName");
    expect(fixture.nodes.calls.at(-1)?.claim?.claimRef).toMatch(/^team\/p{58}/);
  });

  test.each([
    ["nothing asked", {}, "none", "small", 201],
    ["exactly the first bounds", { requests: { cpu: "1", memory: "2Gi" } }, "none", "small", 201],
    ["a thousandth more", { requests: { cpu: "1001m" } }, "none", "medium", 503],
    ["more memory", { requests: { memory: "2147483649" } }, "none", "medium", 503],
    ["limits instead of a zero request", { requests: { cpu: 0 }, limits: { cpu: 5 } }, "none", "large", 503],
    ["exponents", { requests: { memory: "9e9" } }, "none", "large", 503],
  ])("asks for the size of the first container: %s", async (_case, resources, net, size, status) => {
    const answer = await create(container(resources));
    expect(answer.status).toBe(status);
    if (status === 503) {
      expect(answer.json).toMatchObject({ reason: "ServiceUnavailable", details: { retryAfterSeconds: 1 } });
      expect(answer.headers["retry-after"]).toBe("1");
      expect(answer.json["message"]).toContain(`net "${net}" size "${size}"`);
    }
  });

  test("takes the lane of the object before that of its template", async () => {
    const name = fresh();
    const lane = "sandbox.cocoonstack.io/net";
    const answer = await create({
      metadata: { name, annotations: { [lane]: "egress" } },
      spec: {
        podTemplate: {
          metadata: { annotations: { [lane]: "none" } },
          spec: { containers: [{ image: "rt:24.04", resources: { requests: { cpu: "8" } } }] },
        },
      },
    });
    expect(answer.status).toBe(201);
    expect(fixture.nodes.calls.at(-1)?.claim?.pool).toMatchObject({ net: "egress", size: "large" });
  });

  test.each([
    ["an end in the specification, rounded up", { shutdownTime: "2026-11-30T10:00:30.2Z" }, "600", 31],
    ["a length in the annotation", {}, "600", 600],
    ["neither", {}, undefined, undefined],
    ["a length of nothing", {}, "0", undefined],
  ])("asks for a lease by %s", async (_case, spec, ttl, seconds) => {
    const body = sandboxNamed(fresh());
    const answer = await create({
      ...body,
      metadata: {
        name: fresh(),
        ...(ttl !== undefined && { annotations: { "sandbox.cocoonstack.io/ttl-seconds": ttl } }),
      },
      spec: { ...(body["spec"] as object), ...spec },
    });
    expect(answer.status).toBe(201);
    expect(fixture.nodes.calls.findLast(({ verb }) => verb === "claim")?.claim?.ttlSeconds).toBe(seconds);
  });
});

describe("a create is refused before any claim", () => {
  const spec = { podTemplate: { spec: { containers: [{ image: "rt:24.04" }] } } };
  const ttl = "sandbox.cocoonstack.io/ttl-seconds";
  test.each<[string, object | string, string, number, string]>([
    ["a dry run", sandboxNamed("x"), "?dryRun=All", 400, "dry-run is not supported"],
    ["another dry run", sandboxNamed("x"), "?dryRun=Some", 422, 'dryRun: Unsupported value: "Some"'],
    [
      "another validation",
      sandboxNamed("x"),
      "?fieldValidation=Maybe",
      422,
      'fieldValidation: Unsupported value: "Maybe"',
    ],
    ["no body", "", "", 400, "the body of the request is empty"],
    ["no JSON", "{", "", 400, "is not JSON"],
    ["a list", "[]", "", 400, "is not an object"],
    ["another kind", { kind: "Pod", apiVersion: "v1" }, "", 400, 'the object provided is a "Pod" of "v1"'],
    ["another version", { ...sandboxNamed("x"), apiVersion: "agents.x-k8s.io/v1" }, "", 400, "expected a Sandbox"],
    [
      "another namespace",
      { metadata: { name: "x", namespace: "other" }, spec },
      "",
      400,
      "does not match the namespace",
    ],
    ["no name", { metadata: {}, spec }, "", 400, "name or generateName is required"],
    ["a bad name", { metadata: { name: "Bad_Name!!" }, spec }, "", 422, 'metadata.name: Invalid value: "Bad_Name!!"'],
    ["a long name", { metadata: { name: "a".repeat(254) }, spec }, "", 422, "no more than 253 characters"],
    ["a bad prefix", { metadata: { generateName: "-x" }, spec }, "", 422, "metadata.generateName: Invalid value"],
    [
      "a lease that is over",
      { metadata: { name: "x" }, spec: { ...spec, shutdownTime: "2026-11-30T10:00:00Z" } },
      "",
      400,
      "in the past",
    ],
    [
      "a time that is none",
      { metadata: { name: "x" }, spec: { ...spec, shutdownTime: "soon" } },
      "",
      400,
      "spec.shutdownTime: expected an RFC 3339 time",
    ],
    [
      "a negative length",
      { metadata: { name: "x", annotations: { [ttl]: "-1" } }, spec },
      "",
      400,
      "non-negative integer",
    ],
    [
      "a length in words",
      { metadata: { name: "x", annotations: { [ttl]: "1h" } }, spec },
      "",
      400,
      "non-negative integer",
    ],
    [
      "labels that are none",
      { metadata: { name: "x", labels: ["a"] }, spec },
      "",
      400,
      "metadata.labels: expected object",
    ],
    [
      "containers that are none",
      { metadata: { name: "x" }, spec: { podTemplate: { spec: { containers: {} } } } },
      "",
      400,
      "spec.podTemplate.spec.containers",
    ],
    [
      "an amount that is none",
      container({ requests: { cpu: "many" } }),
      "",
      400,
      "spec.podTemplate.spec.containers[0].resources.requests.cpu",
    ],
    [
      "an unknown mode",
      { metadata: { name: "x" }, spec: { ...spec, operatingMode: "Off" } },
      "",
      422,
      "spec.operatingMode: Unsupported value",
    ],
    [
      "an unknown field, strictly",
      { metadata: { name: "x" }, spec: { ...spec, x: 1 } },
      "?fieldValidation=Strict",
      400,
      'strict decoding error: unknown field "spec.x"',
    ],
    [
      "a field said twice, strictly",
      '{"metadata":{"name":"x","name":"x"},"spec":{"podTemplate":{}}}',
      "?fieldValidation=Strict",
      400,
      'duplicate field "metadata.name"',
    ],
  ])("%s", async (_case, body, query, status, message) => {
    const before = claims();
    const answer = await create(body, query);
    expect(answer.json).toMatchObject({ kind: "Status", status: "Failure", code: status });
    expect(answer.json["message"]).toContain(message);
    expect(answer.status).toBe(status);
    expect(claims()).toBe(before);
  });
});

describe("fields that are not known, or said twice", () => {
  const body = (name: string): string =>
    `{"metadata":{"name":"${name}"},"spec":{"x":1,"podTemplate":{"spec":{"containers":[{"image":"rt:24.04","env":[]}],"y":1}},"x":2}}`;

  test.each(["", "?fieldValidation=Warn"])("are warned of (%s)", async (query) => {
    const answer = await create(body(fresh()), query);
    expect(answer.status).toBe(201);
    expect(answer.headers["warning"]).toBe(
      String.raw`299 - "duplicate field \"spec.x\"", 299 - "unknown field \"spec.x\""`,
    );
  });

  test("are ignored when that is asked for", async () => {
    const answer = await create(body(fresh()), "?fieldValidation=Ignore");
    expect(answer.status).toBe(201);
    expect(answer.headers).not.toHaveProperty("warning");
  });
});

describe("a node", () => {
  test("that refuses a claim is quoted", async () => {
    fixture.node.script("claim", answers(400, "invalid claim_ref"));
    expect((await create(sandboxNamed(fresh()))).json).toMatchObject({ code: 400, message: "invalid claim_ref" });
  });

  test.each([
    ["breaks", fails({ kind: "uncertain", nodeMessage: "secret words" })],
    ["refuses the fleet's token", answers(401, "secret words")],
  ])("that %s is not", async (_case, step) => {
    fixture.node.script("claim", step);
    const answer = await create(sandboxNamed(fresh()));
    expect(answer.json).toMatchObject({ code: 500, reason: "InternalError" });
    expect(answer.text).not.toContain("secret words");
    expect(answer.json["message"]).toMatch(/^Internal error occurred: /);
  });
});

describe("a name", () => {
  test("may be held by several sandboxes", async () => {
    const name = fresh();
    expect((await create(sandboxNamed(name))).status).toBe(201);
    expect((await create(sandboxNamed(name))).status).toBe(201);
  });

  test("is held by one where that is wanted, also while another create is under way", async () => {
    await using unique = await apiFixture({ sandboxUnique: true });
    const statuses = await Promise.all(
      [1, 2, 3].map(async () => (await unique.call("POST", SANDBOXES, { body: sandboxNamed("one") })).status),
    );
    expect(statuses.toSorted((a, b) => a - b)).toEqual([201, 409, 409]);
    const again = await unique.call("POST", SANDBOXES, { body: sandboxNamed("one") });
    expect(again.json).toMatchObject({
      code: 409,
      reason: "AlreadyExists",
      message: 'sandboxes.agents.x-k8s.io "one" already exists',
      details: { name: "one", group: "agents.x-k8s.io", kind: "sandboxes" },
    });
  });
});
