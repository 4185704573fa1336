import { describe, expect, test } from "vitest";
import { createEgressPolicy, type EgressHost } from "./egress-gate.ts";

describe("the way out", () => {
  const names: Record<string, string[]> = {
    "example.test": ["203.0.113.7", "2606:4700::1"],
    "rebound.test": ["203.0.113.7", "127.0.0.1"],
    "local.test": ["127.0.0.1", "::1"],
    "own.test": ["203.0.114.9"],
    "node.test": ["203.0.115.77"],
    "alias.test": ["203.0.115.77"],
  };
  const host: EgressHost = {
    resolve: async (name) => names[name] ?? Promise.reject(new Error("no such name")),
    dial: () => {
      throw new Error("not dialed here");
    },
    ownAddresses: () => ["127.0.0.1", "203.0.114.9", "2606:4700::99", "fe80::1%eth0"],
  };
  const policy = createEgressPolicy({
    host,
    refused: () => [
      { host: "node.test", port: 7777 },
      { host: "198.51.99.1", port: 7777 },
    ],
  });

  test.each([
    ["a public address", "203.0.115.7", 443, ["203.0.115.7"]],
    ["a private network", "10.1.2.3", 80, ["10.1.2.3"]],
    ["loopback", "127.0.0.1", 80, []],
    ["all of loopback", "127.8.9.1", 80, []],
    ["loopback in six", "::1", 80, []],
    ["loopback, mapped", "::ffff:127.0.0.1", 80, []],
    ["loopback, mapped, in hex", "0:0:0:0:0:ffff:7f00:1", 80, []],
    ["loopback through NAT64", "64:ff9b::7f00:1", 80, []],
    ["loopback through 6to4", "2002:7f00:1::", 80, []],
    ["loopback, compatible", "::7f00:1", 80, []],
    ["loopback behind the zone of a public address", "203.0.115.7%local.test", 80, ["203.0.115.7"]],
    ["loopback behind the zone of a public address in six", "2606:4700::5%local.test", 80, ["2606:4700:0:0:0:0:0:5"]],
    ["a public address, mapped", "::ffff:203.0.115.7", 80, ["203.0.115.7"]],
    ["unspecified", "0.0.0.0", 80, []],
    ["unspecified in six", "::", 80, []],
    ["link-local", "169.254.169.254", 80, []],
    ["link-local in six", "fe80::2%eth0", 80, []],
    ["multicast", "224.0.0.1", 80, []],
    ["broadcast", "255.255.255.255", 80, []],
    ["this machine", "203.0.114.9", 22, []],
    ["this machine in six", "2606:4700:0:0:0:0:0:99", 22, []],
    ["this machine, mapped", "::ffff:203.0.114.9", 22, []],
    ["a name of this machine", "own.test", 22, []],
    ["a name of loopback", "local.test", 80, []],
    ["the node by name", "NODE.test", 7777, []],
    ["the node by name with its last dot", "node.test.", 7777, []],
    ["the node by the address of its name", "203.0.115.77", 7777, []],
    ["the node by another name", "alias.test", 7777, []],
    ["the node by address", "198.51.99.1", 7777, []],
    ["another port of that name", "alias.test", 443, ["203.0.115.77"]],
    ["another port there", "198.51.99.1", 443, ["198.51.99.1"]],
  ])("judges %s by its address", async (_, name, port, allowed) => {
    expect(await policy.allowed(name, port)).toEqual(allowed);
  });

  test("hands out only the harmless addresses of a name", async () => {
    const allowed = await createEgressPolicy({
      host: { ...host, resolve: async () => ["198.51.99.7", "127.0.0.1", "2606:4700::1"] },
    }).allowed("mixed.test", 80);
    expect(allowed).toEqual(["198.51.99.7", "2606:4700:0:0:0:0:0:1"]);
  });

  test("resolves few names at once, and addresses beside them", async () => {
    let running = 0;
    let most = 0;
    const answers: (() => void)[] = [];
    const slow = createEgressPolicy({
      host: {
        ...host,
        resolve: async () => {
          most = Math.max(most, (running += 1));
          await new Promise<void>((resolve) => {
            answers.push(resolve);
          });
          running -= 1;
          return ["203.0.115.7"];
        },
      },
    });
    const asked = Array.from({ length: 20 }, (_, index) => slow.allowed(`slow-${index}.test`, 80));
    expect(await slow.allowed("203.0.115.9", 80)).toEqual(["203.0.115.9"]);
    for (let answered = 0; answered < 20; answered += 1) {
      while (answers.length === 0) {
        await new Promise((resolve) => setImmediate(resolve));
      }
      answers.shift()?.();
    }
    expect(new Set((await Promise.all(asked)).flat())).toEqual(new Set(["203.0.115.7"]));
    expect(most).toBe(3);
  });

  test("fails for a name that does not resolve", async () => {
    await expect(policy.allowed("nowhere.test", 80)).rejects.toThrow("no such name");
  });
});
