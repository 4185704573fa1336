import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { requestInfo } from "./request-info.ts";

const ROOT = "/apis/agents.x-k8s.io/v1beta1";
const common = { kind: "resource", group: "agents.x-k8s.io", version: "v1beta1", resource: "sandboxes" };

describe("a request's line", () => {
  test.each<[string, string, object]>([
    ["GET", `${ROOT}/sandboxes`, { verb: "list" }],
    ["GET", `${ROOT}/sandboxes/`, { verb: "list" }],
    ["GET", `${ROOT}/sandboxes?watch=true`, { verb: "watch" }],
    ["GET", `${ROOT}/sandboxes?watch`, { verb: "watch" }],
    ["GET", `${ROOT}/sandboxes?watch=0`, { verb: "list" }],
    ["GET", `${ROOT}/sandboxes?watch=False`, { verb: "list" }],
    ["HEAD", `${ROOT}/sandboxes`, { verb: "list" }],
    ["GET", `${ROOT}/namespaces/a/sandboxes`, { verb: "list", namespace: "a" }],
    ["POST", `${ROOT}/namespaces/a/sandboxes`, { verb: "create", namespace: "a" }],
    ["DELETE", `${ROOT}/namespaces/a/sandboxes`, { verb: "deletecollection", namespace: "a" }],
    ["GET", `${ROOT}/namespaces/a/sandboxes/b`, { verb: "get", namespace: "a", name: "b" }],
    ["GET", `${ROOT}/namespaces/a/sandboxes/b?watch=true`, { verb: "get", namespace: "a", name: "b" }],
    ["GET", `${ROOT}/namespaces/a/%73andboxes/b%2Fc`, { verb: "get", namespace: "a", name: "b/c" }],
    ["PUT", `${ROOT}/namespaces/a/sandboxes/b`, { verb: "update", namespace: "a", name: "b" }],
    ["PATCH", `${ROOT}/namespaces/a/sandboxes/b`, { verb: "patch", namespace: "a", name: "b" }],
    ["DELETE", `${ROOT}/namespaces/a/sandboxes/b`, { verb: "delete", namespace: "a", name: "b" }],
    [
      "POST",
      `${ROOT}/namespaces/a/sandboxes/b/fork`,
      { verb: "create", namespace: "a", name: "b", subresource: "fork" },
    ],
    ["GET", `${ROOT}/watch/sandboxes`, { verb: "watch" }],
    ["GET", `${ROOT}/watch/namespaces/a/sandboxes`, { verb: "watch", namespace: "a" }],
    ["GET", `${ROOT}/watch/namespaces/a/sandboxes/b`, { verb: "watch", namespace: "a", name: "b" }],
    ["GET", `${ROOT}/namespaces/a`, { verb: "get", resource: "namespaces", name: "a" }],
    [
      "GET",
      `${ROOT}/sandboxes?fieldSelector=metadata.name%3Db`,
      { verb: "list", name: "b", fieldSelector: [{ key: "metadata.name", operator: "In", values: ["b"] }] },
    ],
    [
      "GET",
      `${ROOT}/sandboxes?fieldSelector=status.nodeName!%3Db`,
      { verb: "list", fieldSelector: [{ key: "status.nodeName", operator: "NotIn", values: ["b"] }] },
    ],
    ["GET", `${ROOT}/sandboxes?fieldSelector=other%3Db`, { verb: "list" }],
    [
      "GET",
      `${ROOT}/sandboxes?labelSelector=${encodeURIComponent("a=b,c!=d,e in (f,g),h,!i")}`,
      {
        verb: "list",
        labelSelector: [
          { key: "a", operator: "In", values: ["b"] },
          { key: "c", operator: "NotIn", values: ["d"] },
          { key: "e", operator: "In", values: ["f", "g"] },
          { key: "h", operator: "Exists" },
          { key: "i", operator: "DoesNotExist" },
        ],
      },
    ],
    ["GET", `${ROOT}/sandboxes?labelSelector=%3D`, { verb: "list" }],
  ])("%s %s is a resource", (method, url, expected) => {
    expect(requestInfo(method, url).attributes).toEqual({ ...common, ...expected });
  });

  test.each([
    ["GET", "/"],
    ["GET", "/apis"],
    ["GET", "/apis/agents.x-k8s.io"],
    ["GET", ROOT],
    ["POST", `${ROOT}/`],
    ["GET", "/readyz/ping?verbose"],
    ["GET", "/api/v1/pods"],
  ])("%s %s is a path", (method, url) => {
    const path = url.replace(/\?.*/, "");
    expect(requestInfo(method, url).attributes).toEqual({ kind: "path", verb: method.toLowerCase(), path });
  });

  test("with percent signs that mean nothing is refused", () => {
    expect(() => requestInfo("GET", "/apis/%zz")).toThrow(expect.objectContaining({ code: 400 }) as Error);
  });

  test("names of paths come out as they went in", () => {
    const segment = fc.string({ minLength: 1, unit: "grapheme" }).filter((text) => text.isWellFormed());
    fc.assert(
      fc.property(segment, segment, (namespace, name) => {
        const url = `${ROOT}/namespaces/${encodeURIComponent(namespace)}/sandboxes/${encodeURIComponent(name)}`;
        expect(requestInfo("DELETE", url)).toMatchObject({
          namespace,
          name,
          attributes: { verb: "delete", namespace, name },
        });
      }),
    );
  });
});
