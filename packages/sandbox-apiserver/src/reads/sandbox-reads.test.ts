import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import type { InventoryEntry } from "@org/scale";
import { entry, NEGOTIATED, readsOver, request } from "../testing/reads-fixture.ts";
import { createSandboxReads } from "./index.ts";

const NOW = Date.parse("2026-09-28T12:00:00Z");
const FULL: InventoryEntry = entry("sb_1", "n/x", {
  template: "rt:24.04",
  addr: "http://10.0.0.9:8080",
  deadline: new Date(NOW + 60_000),
  claimedAt: new Date(NOW - 300_000),
  metadata: { b: "2", a: "1" },
  cpuCount: 2,
  memoryBytes: 1024,
});
const clock = (): number => NOW;
const full = (): ReturnType<typeof readsOver> => readsOver({ a: [FULL] }, { clock });

describe("a sandbox", () => {
  it("is shown in full, and never with a token", async () => {
    const { reads, store } = full();
    const response = await reads.get(request("resourceVersion=0", { namespace: "n", name: "x" }));
    expect(response.headers.get("content-type")).toBe("application/json");
    const body = (await response.json()) as object;
    expect(body).toStrictEqual({
      kind: "Sandbox",
      apiVersion: "agents.x-k8s.io/v1beta1",
      metadata: {
        name: "x",
        namespace: "n",
        uid: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/) as string,
        resourceVersion: expect.stringMatching(/^\d+$/) as string,
        creationTimestamp: "2026-09-28T11:55:00Z",
        labels: {
          "sandbox.cocoonstack.io/node": "a",
          "sandbox.cocoonstack.io/phase": "Running",
          "sandbox.cocoonstack.io/template": "rt:24.04",
          "sandbox.cocoonstack.io/claim": "x",
        },
        annotations: {
          "sandbox.cocoonstack.io/claim-id": "sb_1",
          "sandbox.cocoonstack.io/deadline": "2026-09-28T12:01:00Z",
          "sandbox.cocoonstack.io/metadata": '{"a":"1","b":"2"}',
          "sandbox.cocoonstack.io/cpu-count": "2",
          "sandbox.cocoonstack.io/memory-bytes": "1024",
        },
      },
      spec: { podTemplate: { metadata: {}, spec: { containers: [] } } },
      status: {
        nodeName: "a",
        podIPs: ["10.0.0.9"],
        conditions: [
          {
            type: "Ready",
            status: "True",
            reason: "Running",
            message: 'phase "Running" reported by node "a" inventory',
            lastTransitionTime: "2026-09-28T11:55:00Z",
          },
        ],
      },
    });
    const [sandbox] = store.list();
    expect(sandbox && reads.object(sandbox)).toStrictEqual(body);
  });

  it("has no more than is known of it", async () => {
    const { reads } = readsOver({ a: [{ name: "x", id: "", phase: "" }] });
    const body = (await (await reads.get(request("", { namespace: "default", name: "x" }))).json()) as {
      readonly metadata: object;
      readonly status: { readonly conditions: readonly object[] };
    };
    expect(Object.keys(body.metadata)).toStrictEqual(["name", "namespace", "resourceVersion", "labels"]);
    expect(body.status).toMatchObject({
      conditions: [{ status: "False", reason: "Unknown", lastTransitionTime: null }],
    });
  });

  it("is a 404 when there is none", async () => {
    await expect(full().reads.get(request("", { namespace: "n", name: "y" }))).rejects.toMatchObject({
      code: 404,
      message: 'sandboxes.agents.x-k8s.io "y" not found',
    });
  });
});

describe("forms", () => {
  it("are a Table with columns for people", async () => {
    const { reads } = full();
    const negotiated = { ...NEGOTIATED, as: "table" } as const;
    const one = (await (await reads.get(request("", { namespace: "n", name: "x", negotiated }))).json()) as {
      readonly columnDefinitions: readonly { readonly name: string; readonly priority: number }[];
      readonly rows: readonly { readonly cells: readonly string[]; readonly object: { readonly metadata: object } }[];
    };
    expect(one.columnDefinitions.map(({ name, priority }) => `${name} ${priority}`)).toStrictEqual([
      "Name 0",
      "Ready 0",
      "Reason 0",
      "Age 0",
      "Node 1",
      "Template 1",
      "Claim 1",
      "Deadline 1",
    ]);
    expect(one).toMatchObject({ kind: "Table", apiVersion: "meta.k8s.io/v1" });
    expect(one.rows).toMatchObject([
      {
        cells: ["x", "True", "Running", "5m", "a", "rt:24.04", "sb_1", "2026-09-28T12:01:00Z"],
        object: { kind: "PartialObjectMetadata", metadata: { name: "x", labels: {} } },
      },
    ]);
    const list = (await (await reads.list(request("", { negotiated }))).json()) as { rows: unknown; items?: unknown };
    expect(list.rows).toStrictEqual(one.rows);
    expect(list).toMatchObject({ kind: "Table", metadata: { resourceVersion: reads.version() } });
    expect(list.items).toBeUndefined();
  });

  it.each([
    ["None", null],
    ["Metadata", { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1beta1" }],
    ["Object", { kind: "Sandbox", apiVersion: "agents.x-k8s.io/v1beta1", status: { nodeName: "a" } }],
  ] as const)("carry of an object in a row: %s", async (includeObject, object) => {
    const { reads, store } = full();
    const negotiated = { ...NEGOTIATED, as: "table", metaVersion: "v1beta1", includeObject } as const;
    const list = (await (await reads.list(request("", { negotiated }))).json()) as { rows: readonly object[] };
    expect(list.rows).toMatchObject([{ object }]);
    const [sandbox] = store.list();
    const presented = reads.present(sandbox === undefined ? {} : reads.object(sandbox), negotiated, 201);
    expect(presented.status).toBe(201);
    const { columnDefinitions, rows } = (await presented.json()) as { columnDefinitions: unknown[]; rows: unknown };
    expect(columnDefinitions).toHaveLength(8);
    expect(rows).toStrictEqual(list.rows);
  });

  it("are metadata alone", async () => {
    const { reads, store } = full();
    const negotiated = { ...NEGOTIATED, as: "partial" } as const;
    const list = (await (await reads.list(request("", { negotiated }))).json()) as { items: readonly object[] };
    const [sandbox] = store.list();
    const object = sandbox && reads.object(sandbox);
    expect(list).toMatchObject({ kind: "PartialObjectMetadataList", apiVersion: "meta.k8s.io/v1" });
    const partial = { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", metadata: object?.metadata };
    expect(list.items).toStrictEqual([partial]);
    const one = await reads.get(request("", { namespace: "n", name: "x", negotiated }));
    expect(await one.json()).toStrictEqual(partial);
    expect(await reads.present(object ?? {}, negotiated).json()).toStrictEqual(partial);
  });

  it.each([0, 1, 3, 70])("are YAML and indented JSON that say the same, of %d sandboxes", async (count) => {
    const { reads } = readsOver({
      a: Array.from({ length: count }, (_, at) => ({ ...FULL, id: `sb_${at}`, name: `n/x${at}` })),
    });
    const texts = await Promise.all(
      ([{}, { pretty: true }, { format: "yaml" }] as const).map(async (more) => {
        const response = await reads.list(request("", { negotiated: { ...NEGOTIATED, ...more } }));
        return { type: response.headers.get("content-type"), text: await response.text() };
      }),
    );
    const [json, pretty, yaml] = texts;
    const body: unknown = JSON.parse(json?.text ?? "");
    expect(pretty?.text).toBe(`${JSON.stringify(body, null, 2)}\n`);
    expect(parse(yaml?.text ?? "")).toStrictEqual(body);
    expect(texts.map(({ type }) => type)).toStrictEqual(["application/json", "application/json", "application/yaml"]);
  });

  it("are for sandboxes alone", async () => {
    const status = { kind: "Status", apiVersion: "v1" };
    const response = full().reads.present(status, { ...NEGOTIATED, as: "table" });
    expect(await response.json()).toStrictEqual(status);
  });
});

describe("lists", () => {
  const nodes = {
    b: [entry("sb_4", "m/a"), entry("sb_2", "n/a"), entry("sb_5", "n/c", { phase: "Hibernated" })],
    a: [entry("sb_3", "n/a"), entry("sb_1", "n/b"), entry("sb_6", "k/z")],
  };
  const names = async (query: string, namespace?: string): Promise<string> => {
    const { items } = await readsOver(nodes).list(query, { namespace });
    return items.map(({ metadata }) => metadata.annotations?.["sandbox.cocoonstack.io/claim-id"]?.slice(3)).join("");
  };

  it.each([
    ["everything, by namespace, name and id", "", undefined, "642315"],
    ["a namespace", "", "n", "2315"],
    ["an unknown namespace", "", "x", ""],
    ["a node", "fieldSelector=status.nodeName%3Db", undefined, "425"],
    ["a name in a namespace", "fieldSelector=metadata.name%3Db", "n", "1"],
    ["a name anywhere", "fieldSelector=metadata.name%3Da", undefined, "423"],
    ["a namespace by field", "fieldSelector=metadata.namespace!%3Dn", undefined, "64"],
    ["labels of a set", "labelSelector=sandbox.cocoonstack.io/claim in (b,c)", undefined, "15"],
    [
      "a label and a field",
      "labelSelector=sandbox.cocoonstack.io/phase%3DRunning&fieldSelector=status.nodeName%3Db",
      "n",
      "2",
    ],
    ["a label that must be missing", "labelSelector=!sandbox.cocoonstack.io/template", "m", "4"],
  ])("show %s", async (_case, query, namespace, ids) => {
    await expect(names(query, namespace)).resolves.toBe(ids);
  });

  it.each([
    ["a field that is none", "fieldSelector=spec.x%3D1"],
    ["a broken label selector", "labelSelector=a in"],
    ["an image as a label value", "labelSelector=a%3Drt:24.04"],
  ])("refuse %s", async (_case, query) => {
    await expect(readsOver(nodes).list(query)).rejects.toMatchObject({ code: 400, reason: "BadRequest" });
    await expect(readsOver(nodes).watch(query)).rejects.toMatchObject({ code: 400 });
  });

  it("have a version that grows with changes alone", async () => {
    const { reads, source, list } = readsOver(nodes);
    const first = BigInt((await list()).metadata.resourceVersion);
    source.put({ node: "a", entries: structuredClone(nodes.a) });
    expect(BigInt(reads.version())).toBe(first);
    source.put({ node: "a", entries: nodes.a.slice(1) });
    expect(BigInt(reads.version())).toBeGreaterThan(first);
    expect(BigInt((await list()).metadata.resourceVersion)).toBe(BigInt(reads.version()));
  });

  it("come in pages that count what remains, unless something is selected", async () => {
    const { list } = readsOver(nodes);
    const page = await list("limit=2", { namespace: "n" });
    expect(page.items).toHaveLength(2);
    expect(page.metadata).toMatchObject({ remainingItemCount: 2, continue: expect.any(String) as string });
    const rest = await list(`limit=2&continue=${page.metadata.continue}`, { namespace: "n" });
    expect(rest.items).toHaveLength(2);
    expect(rest.metadata).toStrictEqual({ resourceVersion: page.metadata.resourceVersion });
    const some = await list("limit=1&fieldSelector=status.nodeName%3Db");
    expect(some.metadata.continue).toBeDefined();
    expect(some.metadata.remainingItemCount).toBeUndefined();
    const last = await list(`limit=2&fieldSelector=status.nodeName%3Db&continue=${some.metadata.continue}`);
    expect(last.items).toHaveLength(2);
    expect(last.metadata.continue).toBeUndefined();
  });

  it("page through a fleet that changes without a repetition, and without skipping what was there throughout", async () => {
    const someName = fc.constantFrom("a", "b", "c", "d", "e", "f", "g", "h");
    const churn = fc.array(fc.array(fc.tuple(fc.constantFrom("m", "n"), someName), { maxLength: 8 }), {
      maxLength: 12,
    });
    await fc.assert(
      fc.asyncProperty(churn, fc.integer({ min: 1, max: 4 }), fc.boolean(), async (changes, limit, selected) => {
        const fixed = ["m/b", "m/e", "n/a", "n/d", "n/h"].map((name, at) => entry(`sb_f${at}`, name));
        const { source, list } = readsOver({ a: fixed, b: [] });
        const query = `limit=${limit}${selected ? "&labelSelector=sandbox.cocoonstack.io/node" : ""}`;
        const seen: string[] = [];
        let token: string | undefined = "";
        for (let round = 0; token !== undefined; round += 1) {
          const page = await list(`${query}&continue=${token}`);
          expect(page.items.length).toBeLessThanOrEqual(limit);
          seen.push(...page.items.map(({ metadata }) => metadata.uid ?? ""));
          token = page.metadata.continue;
          const others = changes[round] ?? [];
          source.put({
            node: "b",
            entries: others.map(([space, name], at) => entry(`sb_${round}${at}`, `${space}/${name}`)),
          });
        }
        expect(new Set(seen).size).toBe(seen.length);
        const { items } = await readsOver({ a: fixed }).list();
        expect(seen).toEqual(expect.arrayContaining(items.map(({ metadata }) => metadata.uid)));
      }),
      { numRuns: 30 },
    );
  });

  it("find a pinned name at its node when inventory does not show it", async () => {
    const selected: unknown[] = [];
    const { store } = readsOver(nodes);
    const reads = createSandboxReads({
      store: {
        get: (...args) => store.get(...args),
        list: () => store.list(),
        watch: (options) => store.watch(options),
        onChange: (listener) => store.onChange(listener),
        select: (options) => {
          selected.push({ ...options, signal: undefined });
          return store.select(options);
        },
      },
    });
    const response = await reads.list(request("fieldSelector=status.nodeName%3Da", { namespace: "n", name: "b" }));
    expect(await response.json()).toMatchObject({ items: [{ metadata: { name: "b" } }] });
    expect(selected).toMatchObject([{ namespace: "n", fieldSelector: "metadata.name=b,status.nodeName=a" }]);
  });
});

it("refuses options out of range", () => {
  const { store } = readsOver({});
  for (const options of [{ cacheBytes: -1 }, { historyChanges: 0.5 }, { bookmarkIntervalMs: 0 }]) {
    expect(() => createSandboxReads({ store, ...options })).toThrow(TypeError);
  }
});
