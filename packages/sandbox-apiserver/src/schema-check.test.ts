import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { META_SCHEMAS } from "./openapi/meta-schemas.ts";
import { schemaName } from "./openapi/sandbox-schemas.ts";
import { schemas } from "./openapi/schemas.ts";
import { checkSchema } from "./schema-check.ts";

const check = (value: unknown): object => checkSchema(value, schemaName("Sandbox"), schemas);

describe("an object", () => {
  test("of every known member fits", () => {
    const value = {
      apiVersion: "agents.x-k8s.io/v1beta1",
      kind: "Sandbox",
      metadata: {
        name: "a",
        labels: { "any.key/x": "y" },
        creationTimestamp: null,
        ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "p", uid: "u", controller: true }],
        managedFields: [{ manager: "m", fieldsV1: { "f:spec": { "f:x": {} } }, time: "2026-11-30T10:00:00Z" }],
      },
      spec: {
        podTemplate: {
          metadata: { labels: {}, annotations: { a: "b" } },
          spec: {
            containers: [
              { name: "c", image: "i", command: ["x"], resources: { requests: { cpu: 1, memory: "1Gi" }, claims: [] } },
            ],
            volumes: [{ anything: true }],
          },
        },
        volumeClaimTemplates: [{ spec: { any: 1 } }],
        service: true,
        shutdownTime: "2026-11-30T10:00:00.123+01:00",
        shutdownPolicy: "Delete",
        operatingMode: "Running",
      },
      status: { conditions: [{ type: "Ready", status: "True", lastTransitionTime: null, reason: "r", message: "m" }] },
    };
    expect(check(value)).toEqual({ unknown: [], mistyped: [] });
  });

  test.each<[object, readonly string[], readonly string[]]>([
    [{ x: 1 }, ["x"], []],
    [{ spec: { podTemplate: { spec: {}, x: 1 }, y: { z: 1 } } }, ["spec.podTemplate.x", "spec.y"], []],
    [{ metadata: { labels: { a: 1 } } }, [], ["metadata.labels.a: expected string"]],
    [{ metadata: [] }, [], ["metadata: expected object"]],
    [{ metadata: { generation: 1.5 } }, [], ["metadata.generation: expected int64"]],
    [{ spec: { service: "yes" } }, [], ["spec.service: expected boolean"]],
    [{ spec: { shutdownTime: "2026-13-30T10:00:00Z" } }, [], ["spec.shutdownTime: expected an RFC 3339 time"]],
    [
      { spec: { podTemplate: { spec: { containers: [{ image: 1 }] } } } },
      [],
      ["spec.podTemplate.spec.containers[0].image: expected string"],
    ],
    [{ status: { conditions: [{ x: 1 }] } }, ["status.conditions[0].x"], []],
    [{ constructor: 1, __proto__: { y: 1 } }, ["constructor"], []],
  ])("%j is told what is wrong", (value, unknown, mistyped) => {
    expect(check(value)).toEqual({ unknown, mistyped });
  });

  test("of any JSON is checked without failing, by every schema", () => {
    const names = [
      ...Object.values(META_SCHEMAS),
      ...["Sandbox", "SandboxForkOptions", "SandboxSnapshotResult"].map(schemaName),
    ];
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(...names), (value, name) => {
        const { unknown, mistyped } = checkSchema(value, name, schemas);
        expect([...unknown, ...mistyped].every((fault) => typeof fault === "string")).toBe(true);
      }),
    );
  });
});
