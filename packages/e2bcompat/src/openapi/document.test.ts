import { readFile } from "node:fs/promises";
import { Validator } from "@seriousme/openapi-schema-validator";
import { Hono } from "hono";
import { describe, expect, it } from "vitest";
import { createFleet } from "../testing/fleet.ts";
import type { Fleet, Reply } from "../testing/fleet.ts";

const METHODS = ["get", "post", "put", "patch", "delete"];

async function documentOf(fleet: Fleet = createFleet()): Promise<Reply["body"]> {
  return (await fleet.send("GET", "/openapi.json")).body;
}

/** Every `$ref` in a document. */
function refsIn(value: unknown): readonly string[] {
  if (typeof value !== "object" || value === null) {
    return [];
  }
  return Object.entries(value).flatMap(([name, member]) =>
    name === "$ref" && typeof member === "string" ? [member] : refsIn(member),
  );
}

function resolve(document: unknown, ref: string): unknown {
  return ref
    .slice(2)
    .split("/")
    .reduce<unknown>((at, name) => (at as Record<string, unknown>)[name], document);
}

describe("the document", () => {
  it("is one of OpenAPI 3.1", async () => {
    const result = await new Validator().validate(await documentOf());
    expect(result.errors ?? []).toStrictEqual([]);
    expect(result.valid).toBe(true);
  });

  it("refers to nothing that it has not, and has nothing that it does not refer to", async () => {
    const document = await documentOf();
    const refs = new Set(refsIn(document));
    expect([...refs].filter((ref) => resolve(document, ref) === undefined)).toStrictEqual([]);
    const unused = ["schemas", "responses", "parameters", "headers"].flatMap((kind) =>
      Object.keys(document["components"][kind] as object)
        .map((name) => `#/components/${kind}/${name}`)
        .filter((ref) => !refs.has(ref)),
    );
    expect(unused).toStrictEqual([]);
  });

  it("has every route that is mounted, and no other", async () => {
    const fleet = createFleet();
    const { paths } = await documentOf(fleet);
    const described = Object.entries(paths as Record<string, object>).flatMap(([path, item]) =>
      Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const refused = new Set<string>();
    const mounted = new Set<string>();
    for (const { method, path } of fleet.server.app.routes) {
      const pattern = path.replaceAll(/:(\w+)/g, "{$1}");
      if (METHODS.includes(method.toLowerCase()) && !pattern.includes("*")) {
        const reply = await fleet.send(method, pattern.replaceAll(/[{}]/g, ""));
        (reply.status === 501 ? refused : mounted).add(`${method} ${pattern}`);
      }
    }
    expect(described.toSorted()).toStrictEqual([...mounted].toSorted());
    expect([...refused].toSorted()).toStrictEqual([
      "GET /teams",
      "GET /teams/{teamID}/metrics",
      "GET /teams/{teamID}/metrics/max",
      "POST /templates",
      "POST /templates/{templateID}",
      "POST /templates/{templateID}/builds/{buildID}",
      "POST /v2/templates",
    ]);
  });

  it("names each operation once", async () => {
    const { paths } = await documentOf();
    const ids = Object.values(paths as Record<string, Record<string, { operationId: string }>>).flatMap((item) =>
      Object.values(item).map(({ operationId }) => operationId),
    );
    expect(new Set(ids).size).toBe(ids.length);
  });

  it("says what this release is, and where it is mounted", async () => {
    const fleet = createFleet();
    const document = await documentOf(fleet);
    const manifest = JSON.parse(await readFile(new URL("../../package.json", import.meta.url), "utf8"));
    expect(document["info"].version).toBe(manifest.version);
    expect(document["servers"]).toStrictEqual([{ url: "/" }]);
    const outer = new Hono().route("/e2b", fleet.server.app);
    const inside = (await (await outer.request("http://localhost/e2b/openapi.json")).json()) as typeof document;
    expect(inside["servers"]).toStrictEqual([{ url: "/e2b" }]);
    expect(inside["paths"]).toStrictEqual(document["paths"]);
  });

  it("asks for a key where one is needed", async () => {
    const closed = await documentOf();
    expect(closed["security"]).toStrictEqual([{ apiKey: [] }]);
    expect(closed["paths"]["/health"].get.security).toStrictEqual([]);
    expect(closed["paths"]["/sandboxes"].get.security).toBeUndefined();
    const open = await documentOf(createFleet({ keys: [], allowAnonymous: true }));
    expect(open["security"]).toBeUndefined();
    expect(open["components"].securitySchemes).toBeUndefined();
  });

  it("keeps the bounds of 64-bit integers", async () => {
    const { text } = await createFleet().send("GET", "/openapi.json");
    expect(text).toContain('"maximum":9223372036854775807');
  });

  it("says what creates cannot have", async () => {
    const { components } = await documentOf();
    const { properties, required } = components.schemas.CreateSandbox;
    expect(required).toStrictEqual(["templateID"]);
    expect(properties.secure.anyOf[0]).toStrictEqual({ type: "boolean", const: true });
    expect(properties.network.anyOf[0]).toMatchObject({ properties: {}, additionalProperties: false });
  });
});

describe("GET /openapi.json", () => {
  it("needs no key, and is open to browsers", async () => {
    const fleet = createFleet();
    const reply = await fleet.send("GET", "/openapi.json", undefined, {
      key: "wrong",
      headers: { origin: "https://docs.example.com" },
    });
    expect(reply.status).toBe(200);
    expect(reply.headers.get("access-control-allow-origin")).toBe("*");
  });

  it.each(["TAG", "W/TAG", '"other", TAG', "*"])("is not sent again to who has it: %s", async (form) => {
    const fleet = createFleet();
    const first = await fleet.send("GET", "/openapi.json");
    const tag = first.headers.get("etag") ?? "";
    expect(tag).toMatch(/^"[\w-]{22}"$/);
    expect(first.headers.get("cache-control")).toBe("public, no-cache");
    const headers = { "if-none-match": form.replace("TAG", tag) };
    const second = await fleet.send("GET", "/openapi.json", undefined, { headers });
    expect([second.status, second.text, second.headers.get("etag")]).toStrictEqual([304, "", tag]);
    const other = await fleet.send("GET", "/openapi.json", undefined, { headers: { "if-none-match": '"other"' } });
    expect(other.status).toBe(200);
  });
});
