import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { NET_ANNOTATION, poolKeyOf } from "./pod-pool.ts";

/** A pod template whose first container has these resources. */
function pod(resources: unknown, image: unknown = "python:3.12"): object {
  return {
    spec: {
      containers: [
        { image, resources },
        { image: "second", resources: { requests: { cpu: "64" } } },
      ],
    },
  };
}

describe("the size", () => {
  test.each([
    [{}, "small"],
    [undefined, "small"],
    [null, "small"],
    [{ requests: null, limits: null }, "small"],
    [{ requests: { cpu: null } }, "small"],
    [{ requests: { cpu: "1", memory: "2Gi" } }, "small"],
    [{ requests: { cpu: "1001m" } }, "medium"],
    [{ requests: { cpu: 1.5 } }, "medium"],
    [{ requests: { cpu: "1.0000000001" } }, "medium"],
    [{ requests: { memory: "2147483649" } }, "medium"],
    [{ requests: { memory: "2G" } }, "small"],
    [{ requests: { cpu: "4", memory: "8Gi" } }, "medium"],
    [{ requests: { cpu: "4001m" } }, "large"],
    [{ requests: { memory: "8193Mi" } }, "large"],
    [{ requests: { memory: "9e9" } }, "large"],
    [{ limits: { cpu: "8" } }, "large"],
    [{ requests: { cpu: "0" }, limits: { cpu: "2" } }, "medium"],
    [{ requests: { cpu: "100m" }, limits: { cpu: "8" } }, "small"],
    [{ requests: { cpu: "100m" }, limits: { cpu: "8", memory: "16Gi" } }, "large"],
    [{ requests: { cpu: "-1" }, limits: { cpu: "8" } }, "small"],
  ])("of %j is %s", (resources, size) => {
    expect(poolKeyOf(pod(resources)).size).toBe(size);
  });

  test("is decided by each resource alone, strictly above the bounds", () => {
    const tier = (value: number, medium: number, large: number): number => (value > large ? 2 : value > medium ? 1 : 0);
    fc.assert(
      fc.property(fc.nat(10_000), fc.nat(20_000), fc.boolean(), (milli, mebi, asLimit) => {
        const amounts = { cpu: `${milli}m`, memory: `${mebi}Mi` };
        const expected = Math.max(tier(milli, 1000, 4000), tier(mebi, 2048, 8192));
        const { size } = poolKeyOf(pod(asLimit ? { limits: amounts } : { requests: amounts }));
        expect(size).toBe(["small", "medium", "large"][expected]);
      }),
    );
  });
});

describe("the template", () => {
  test("is the image of the first container", () => {
    expect(poolKeyOf(pod({}, "registry/x:1@sha256:0"))).toEqual({
      template: "registry/x:1@sha256:0",
      net: "none",
      size: "small",
    });
  });

  test.each([
    undefined,
    null,
    {},
    { spec: null },
    { spec: {} },
    { spec: { containers: null } },
    { spec: { containers: [] } },
  ])("of %j is empty", (template) => {
    expect(poolKeyOf(template)).toEqual({ template: "", net: "none", size: "small" });
  });
});

describe("the network lane", () => {
  const annotated = { metadata: { annotations: { [NET_ANNOTATION]: "egress" } }, spec: {} };

  test("is what the pod template's annotation says", () => {
    expect(poolKeyOf(annotated).net).toBe("egress");
  });

  test("is what the object's annotation says, when it says anything", () => {
    expect(poolKeyOf(annotated, { [NET_ANNOTATION]: "none" }).net).toBe("none");
    expect(poolKeyOf(annotated, { [NET_ANNOTATION]: "" }).net).toBe("egress");
    expect(poolKeyOf(annotated, { other: "x" }).net).toBe("egress");
    expect(poolKeyOf(annotated, null).net).toBe("egress");
    expect(poolKeyOf({ spec: {} }, { [NET_ANNOTATION]: "egress" }).net).toBe("egress");
  });
});

test.each([
  ["x", "podTemplate must be an object"],
  [{ spec: [] }, "podTemplate.spec must be an object"],
  [{ spec: { containers: {} } }, "podTemplate.spec.containers must be a list"],
  [{ spec: { containers: ["x"] } }, "podTemplate.spec.containers[0] must be an object"],
  [pod({}, 7), "podTemplate.spec.containers[0].image must be a string"],
  [pod({ requests: { cpu: "much" } }), 'podTemplate.spec.containers[0].resources.requests.cpu: "much" is no quantity'],
  [
    pod({ requests: { cpu: "1" }, limits: { cpu: "1x" } }),
    'podTemplate.spec.containers[0].resources.limits.cpu: "1x" is no quantity',
  ],
  [
    { metadata: { annotations: { [NET_ANNOTATION]: 1 } } },
    `podTemplate.metadata.annotations[${NET_ANNOTATION}] must be a string`,
  ],
])("a pod template %j is refused by what is wrong with it", (template, message) => {
  expect(() => poolKeyOf(template)).toThrow(expect.objectContaining({ code: "bad_object", message }));
});
