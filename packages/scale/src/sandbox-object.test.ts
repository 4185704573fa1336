import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Sandbox } from "./domain.ts";
import { resourceVersionOf } from "./resource-version.ts";
import { labelOf, labelsOf, sandboxObject } from "./sandbox-object.ts";

const bare: Sandbox = { namespace: "n", name: "x", node: "node-a", id: "", phase: "Running", paused: false };

describe("a sandbox as a Kubernetes object", () => {
  it("shows everything that its node reported", () => {
    const sandbox: Sandbox = {
      ...bare,
      id: "sb_1",
      phase: "Hibernated",
      paused: true,
      template: "rt:24.04",
      claimRef: "n/x/y",
      addr: "https://n2.sb.example.com:443",
      deadline: new Date("2030-01-02T03:04:05.678Z"),
      claimedAt: new Date("2030-01-01T00:00:00.999Z"),
      metadata: { b: '"2"', "10": "x", "9": "y", a: "1" },
      cpuCount: 2,
      memoryBytes: 2 ** 31,
    };
    expect(sandboxObject(sandbox)).toStrictEqual({
      metadata: {
        namespace: "n",
        name: "x",
        resourceVersion: resourceVersionOf(sandbox),
        creationTimestamp: "2030-01-01T00:00:00Z",
        labels: {
          "sandbox.cocoonstack.io/node": "node-a",
          "sandbox.cocoonstack.io/phase": "Hibernated",
          "sandbox.cocoonstack.io/template": "rt:24.04",
          "sandbox.cocoonstack.io/claim": "x/y",
        },
        annotations: {
          "sandbox.cocoonstack.io/claim-id": "sb_1",
          "sandbox.cocoonstack.io/deadline": "2030-01-02T03:04:05Z",
          "sandbox.cocoonstack.io/metadata": '{"10":"x","9":"y","a":"1","b":"\\"2\\""}',
          "sandbox.cocoonstack.io/cpu-count": "2",
          "sandbox.cocoonstack.io/memory-bytes": "2147483648",
        },
      },
      status: {
        nodeName: "node-a",
        podIPs: ["n2.sb.example.com"],
        conditions: [
          {
            type: "Ready",
            status: "False",
            reason: "Hibernated",
            message: 'phase "Hibernated" reported by node "node-a" inventory',
          },
        ],
      },
    });
  });

  it("R14: leaves out what its node did not report", () => {
    expect(sandboxObject(bare)).toStrictEqual({
      metadata: {
        namespace: "n",
        name: "x",
        resourceVersion: resourceVersionOf(bare),
        labels: { "sandbox.cocoonstack.io/node": "node-a", "sandbox.cocoonstack.io/phase": "Running" },
      },
      status: {
        nodeName: "node-a",
        conditions: [
          {
            type: "Ready",
            status: "True",
            reason: "Running",
            message: 'phase "Running" reported by node "node-a" inventory',
          },
        ],
      },
    });
  });

  it("leaves out empty metadata and amounts that are none", () => {
    const { metadata } = sandboxObject({ ...bare, metadata: {}, cpuCount: 0, memoryBytes: -1 });
    expect(metadata).not.toHaveProperty("annotations");
  });

  it.each([
    ["Running", "True", "Running"],
    ["rEADY", "True", "rEADY"],
    ["Hibernated", "False", "Hibernated"],
    ["NotReady", "False", "NotReady"],
    ["", "False", "Unknown"],
  ])("in phase %j is ready: %s", (phase, status, reason) => {
    expect(sandboxObject({ ...bare, phase }).status.conditions).toMatchObject([{ status, reason }]);
  });

  it.each([
    ["node-a", ["node-a"]],
    ["10.0.0.1:8080", ["10.0.0.1"]],
    ["10.0.0.1", ["10.0.0.1"]],
    ["https://n2.sb.example.com:443", ["n2.sb.example.com"]],
    ["http://n2/path:1", ["n2"]],
    ["[fd00::1]:443", ["fd00::1"]],
    ["https://[fd00::1]", ["fd00::1"]],
    ["fd00::1", ["fd00::1"]],
    ["", undefined],
    [":80", undefined],
  ])("at address %j has the addresses %j", (addr, podIPs) => {
    expect(sandboxObject({ ...bare, addr }).status.podIPs).toStrictEqual(podIPs);
  });

  it("reads one label as it reads them all", () => {
    const text = fc.string({ maxLength: 4 });
    fc.assert(
      fc.property(fc.record({ phase: text, template: text, claimRef: text }), (parts) => {
        const sandbox: Sandbox = { ...bare, ...parts };
        const labels = labelsOf(sandbox);
        for (const key of ["node", "phase", "template", "claim"].map((name) => `sandbox.cocoonstack.io/${name}`)) {
          expect(labelOf(sandbox, key)).toBe(labels[key]);
        }
        expect(labelOf(sandbox, "constructor")).toBeUndefined();
      }),
    );
  });
});
