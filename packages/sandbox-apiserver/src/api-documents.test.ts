import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createApiServer } from "./create-api-server.ts";
import type { Operation } from "./openapi/document.ts";
import { apiFixture } from "./testing/api-fixture.ts";
import type { ApiFixture } from "./testing/api-fixture.ts";

let fixture: ApiFixture;
let synced = false;
beforeAll(async () => {
  fixture = await apiFixture({ ready: () => synced, serverAddress: "10.0.0.1:6443" });
});
afterAll(() => fixture[Symbol.asyncDispose]());

const ROOT = "/apis/agents.x-k8s.io/v1beta1";
const AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const AGGREGATED_OLD = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

describe("the root", () => {
  test("names the paths in order, also where there is nothing", async () => {
    const { paths } = (await fixture.call("GET", "/")).json as { paths: readonly string[] };
    expect(paths).toEqual([...paths].sort());
    expect(paths).toEqual(
      expect.arrayContaining(["/apis", "/apis/agents.x-k8s.io", ROOT, "/livez", "/readyz/shutdown", "/openapi/v3"]),
    );
    expect(paths.join(" ")).not.toContain(":");
    for (const path of ["/nothing", "/api", "/openapi/v2", "/apis/other.example/v1/things"]) {
      const missing = await fixture.call("GET", path);
      expect(missing.status).toBe(404);
      expect(missing.json).toEqual({ paths });
    }
  });

  test("is not what unknown versions, resources and verbs of the group are answered with", async () => {
    for (const path of [
      "/apis/agents.x-k8s.io/v1",
      `${ROOT}/things`,
      `${ROOT}/namespaces/a`,
      `${ROOT}/namespaces/a/sandboxes/b/renew`,
    ]) {
      expect((await fixture.call("GET", path)).json).toEqual({
        kind: "Status",
        apiVersion: "v1",
        metadata: {},
        status: "Failure",
        message: "the server could not find the requested resource",
        reason: "NotFound",
        details: {},
        code: 404,
      });
    }
  });
});

describe("discovery", () => {
  const version = { groupVersion: "agents.x-k8s.io/v1beta1", version: "v1beta1" };
  const group = {
    name: "agents.x-k8s.io",
    versions: [version],
    preferredVersion: version,
    serverAddressByClientCIDRs: [{ clientCIDR: "0.0.0.0/0", serverAddress: "10.0.0.1:6443" }],
  };

  test("lists the group, the version and its resources", async () => {
    expect((await fixture.call("GET", "/apis")).json).toEqual({ kind: "APIGroupList", groups: [group] });
    const one = await fixture.call("GET", "/apis/agents.x-k8s.io/");
    expect(one.json).toEqual({ kind: "APIGroup", apiVersion: "v1", ...group });
    const sub = (name: string, kind: string): object => ({
      name: `sandboxes/${name}`,
      singularName: "",
      namespaced: true,
      group: "agents.x-k8s.io",
      version: "v1beta1",
      kind,
      verbs: ["create"],
    });
    expect((await fixture.call("GET", ROOT)).json).toEqual({
      kind: "APIResourceList",
      apiVersion: "v1",
      groupVersion: "agents.x-k8s.io/v1beta1",
      resources: [
        {
          name: "sandboxes",
          singularName: "sandbox",
          namespaced: true,
          kind: "Sandbox",
          verbs: ["create", "delete", "get", "list", "patch", "watch"],
          shortNames: ["sandbox", "sbx"],
          categories: ["all"],
        },
        sub("fork", "SandboxForkOptions"),
        sub("pause", "SandboxPauseOptions"),
        sub("resume", "SandboxResumeOptions"),
        sub("snapshot", "SandboxSnapshotOptions"),
      ],
    });
  });

  test("comes in one document under a tag", async () => {
    const accept = `${AGGREGATED},${AGGREGATED_OLD},application/json`;
    const answer = await fixture.call("GET", "/apis", { headers: { accept } });
    expect(answer.headers).toMatchObject({ "content-type": AGGREGATED, vary: "Accept", "cache-control": "public" });
    const hash = createHash("sha512").update(answer.text).digest("hex").toUpperCase();
    expect(answer.headers["etag"]).toBe(`"${hash}"`);
    expect(JSON.parse(answer.text)).toMatchObject({
      kind: "APIGroupDiscoveryList",
      apiVersion: "apidiscovery.k8s.io/v2",
      metadata: {},
      items: [
        {
          metadata: { name: "agents.x-k8s.io" },
          versions: [
            {
              version: "v1beta1",
              freshness: "Current",
              resources: [
                {
                  resource: "sandboxes",
                  responseKind: { group: "agents.x-k8s.io", version: "v1beta1", kind: "Sandbox" },
                  scope: "Namespaced",
                  singularResource: "sandbox",
                  subresources: [
                    { subresource: "fork" },
                    { subresource: "pause" },
                    { subresource: "resume" },
                    { subresource: "snapshot" },
                  ],
                },
              ],
            },
          ],
        },
      ],
    });
    const known = await fixture.call("GET", "/apis", { headers: { accept, "if-none-match": `"${hash}"` } });
    expect(known).toMatchObject({ status: 304, text: "" });
    expect(known.headers).toMatchObject({ etag: `"${hash}"`, vary: "Accept" });
    const other = await fixture.call("GET", "/apis", { headers: { accept, "if-none-match": '"other"' } });
    expect(other.status).toBe(200);
  });

  test.each([AGGREGATED_OLD, "text/html", "application/json;as=Table;g=meta.k8s.io;v=v1"])(
    "has no form %s",
    async (accept) => {
      expect((await fixture.call("GET", "/apis", { headers: { accept } })).json).toMatchObject({ code: 406 });
    },
  );
});

describe("the version", () => {
  test("is semantic with a v", async () => {
    expect((await fixture.call("GET", "/version")).json).toMatchObject({
      major: "1",
      minor: "2",
      gitVersion: "v1.2.3",
    });
  });

  test.each(["", "1.2", "dev", "1.2.3.4", "v01.2.3"])("is refused at the start when it is %j", (version) => {
    const { store } = fixture;
    const nobody = { authenticate: () => Promise.resolve({ kind: "rejected" as const }) };
    const authorizer = { authorize: () => Promise.resolve("deny" as const) };
    expect(() => createApiServer({ store, version: { version }, authenticator: nobody, authorizer })).toThrow(
      TypeError,
    );
  });
});

describe("health", () => {
  test("is told plainly, by check, and in full", async () => {
    const plain = await fixture.call("GET", "/livez");
    expect(plain).toMatchObject({ status: 200, text: "ok" });
    expect(plain.headers).toMatchObject({
      "content-type": "text/plain; charset=utf-8",
      "x-content-type-options": "nosniff",
    });
    expect(await fixture.call("GET", "/healthz/ping")).toMatchObject({ status: 200, text: "ok" });
    expect(await fixture.call("GET", "/healthz/shutdown")).toMatchObject({ status: 404 });
    expect((await fixture.call("GET", "/livez?verbose")).text).toBe("[+]ping ok\n[+]log ok\nlivez check passed\n");
    expect((await fixture.call("GET", "/livez?verbose&exclude=ping&exclude=nope")).text).toBe(
      '[+]ping excluded: ok\n[+]log ok\nwarn: some health checks cannot be excluded: no matches for "nope"\nlivez check passed\n',
    );
  });

  test("is ready from the first inventory on, until the end begins", async () => {
    await using other = await apiFixture({ ready: () => synced });
    const early = await other.call("GET", "/readyz");
    expect(early.status).toBe(500);
    expect(early.text).toBe(
      "[+]ping ok\n[+]log ok\n[-]informer-sync failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n",
    );
    expect(await other.call("GET", "/readyz/informer-sync")).toMatchObject({ status: 500 });
    expect(await other.call("GET", "/readyz?exclude=informer-sync")).toMatchObject({ status: 200, text: "ok" });
    expect(await other.call("GET", "/livez")).toMatchObject({ status: 200 });
    synced = true;
    expect(await other.call("GET", "/readyz")).toMatchObject({ status: 200, text: "ok" });
    synced = false;
    expect(await other.call("GET", "/readyz")).toMatchObject({ status: 200, text: "ok" });
    other.api.shutdown();
    expect((await other.call("GET", "/readyz")).text).toContain("[-]shutdown failed: reason withheld");
    expect(await other.call("GET", "/livez")).toMatchObject({ status: 200 });
  });
});

describe("the OpenAPI document", () => {
  interface Document {
    readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
    readonly components: { readonly schemas: Readonly<Record<string, Readonly<Record<string, unknown>>>> };
  }

  test("is found by its hash, for ever", async () => {
    const root = (
      await fixture.call("GET", "/openapi/v3?timeout=32s", { headers: { accept: "application/json, */*" } })
    ).json;
    const { paths } = root as { paths: Readonly<Record<string, { serverRelativeURL: string }>> };
    const address = paths["apis/agents.x-k8s.io/v1beta1"]?.serverRelativeURL ?? "";
    expect(address).toMatch(/^\/openapi\/v3\/apis\/agents\.x-k8s\.io\/v1beta1\?hash=[0-9A-F]{128}$/);
    const answer = await fixture.call("GET", address);
    expect(answer.headers["cache-control"]).toBe("public, immutable");
    expect(answer.json["openapi"]).toBe("3.0.0");
    const wrong = await fixture.call("GET", address.replace(/hash=../, "hash=ZZ"));
    expect(wrong).toMatchObject({ status: 301, headers: { location: address } });
    const etag = String(answer.headers["etag"]);
    expect(await fixture.call("GET", address, { headers: { "if-none-match": etag } })).toMatchObject({
      status: 304,
      text: "",
    });
    const plain = await fixture.call("GET", address.replace(/\?.*/, ""));
    expect(plain.headers["cache-control"]).toBe("no-cache");
    expect(plain.text).toBe(answer.text);
  });

  test.each(["application/com.github.proto-openapi.spec.v3@v1.0+protobuf", "application/yaml"])(
    "has no form %s",
    async (accept) => {
      for (const path of ["/openapi/v3", "/openapi/v3/apis/agents.x-k8s.io/v1beta1"]) {
        expect((await fixture.call("GET", path, { headers: { accept } })).status).toBe(406);
        const either = await fixture.call("GET", path, { headers: { accept: `${accept},application/json` } });
        expect(either.headers).toMatchObject({ "content-type": "application/json" });
      }
    },
  );

  test("has the patch by which clients see that fields are checked here, and every reference leads somewhere", async () => {
    const { text } = await fixture.call("GET", "/openapi/v3/apis/agents.x-k8s.io/v1beta1");
    const { paths, components } = JSON.parse(text) as Document;
    const patch = paths[`${ROOT}/namespaces/{namespace}/sandboxes/{name}`]?.["patch"];
    expect(patch?.["x-kubernetes-group-version-kind"]).toEqual({
      group: "agents.x-k8s.io",
      version: "v1beta1",
      kind: "Sandbox",
    });
    expect(patch?.parameters).toContainEqual(expect.objectContaining({ name: "fieldValidation", in: "query" }));
    for (const [, name = ""] of text.matchAll(/#\/components\/schemas\/([^"]+)/g)) {
      expect(components.schemas).toHaveProperty([name]);
    }
    const ids = Object.values(paths).flatMap((operations) =>
      Object.values(operations).map(({ operationId }) => operationId),
    );
    expect(new Set(ids).size).toBe(ids.length);
    for (const [path, operations] of Object.entries(paths)) {
      const inPath = new Set([...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name));
      for (const { parameters } of Object.values(operations)) {
        expect(new Set(parameters.filter((one) => one.in === "path").map(({ name }) => name))).toEqual(inPath);
      }
    }
    expect(components.schemas["io.x-k8s.agents.v1beta1.Sandbox"]).toMatchObject({
      "x-kubernetes-group-version-kind": [{ group: "agents.x-k8s.io", version: "v1beta1", kind: "Sandbox" }],
    });
  });
});
