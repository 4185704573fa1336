import { createSelfSigned } from "@org/certificates";
import { afterEach, describe, expect, it } from "vitest";
import { examine, type Examined } from "./examine.ts";
import type { Finding } from "./finding.ts";
import { type NodeScript, scriptedNode, type ScriptedNode } from "./testing/scripted-node.ts";

const DAY_MS = 86_400_000;
const KEY = `e2b_${"0123456789".repeat(4)}`;
const DOMAIN = "sandbox.example.com";

const opened: AsyncDisposable[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((one) => one[Symbol.asyncDispose]()));
});

async function node(script: NodeScript = {}): Promise<ScriptedNode> {
  const started = await scriptedNode({ token: "root", ...script });
  opened.push(started);
  return started;
}

function pair(dns: readonly string[], from = -1, to = 90): { cert: string; key: string } {
  const day = (days: number): Date => new Date(Date.now() + days * DAY_MS);
  return createSelfSigned("x", { dns, addresses: [] }, { from: day(from), to: day(to) });
}

/** A service in which nothing is wrong, but for what is given. */
async function examined(part: Partial<Examined> = {}, names = [`*.${DOMAIN}`]): Promise<Finding[]> {
  const service: Examined = {
    seeds: part.seeds ?? [(await node()).address],
    token: "root",
    domain: DOMAIN,
    namespace: "default",
    keys: [KEY],
    allowAnonymous: false,
    aliases: [{ alias: "base", image: "image", size: "small" }],
    envdVersion: "0.8.0",
    ...part,
  };
  const found: Finding[] = [];
  const lookup = (name: string): Promise<{ address: string; family: number }[]> =>
    names.some((known) => known === name || (known.startsWith("*.") && name.endsWith(known.slice(1))))
      ? Promise.resolve([{ address: "203.0.113.7", family: 4 }])
      : Promise.reject(new Error(`getaddrinfo ENOTFOUND ${name}`));
  for await (const finding of examine(service, { lookup, requestTimeoutMs: 500 })) found.push(finding);
  return found;
}

const faultsOf = (found: readonly Finding[]): readonly Finding[] => found.filter(({ level }) => level === "fault");

it("finds nothing to mend in a service that is in order, and keeps no sandbox", async () => {
  const good = await node();
  const found = await examined({ seeds: [good.address] });
  expect(found.map(({ check, level }) => `${check} ${level}`)).toEqual([
    "keys ok",
    "nodes ok",
    "token ok",
    "addresses ok",
    "clocks ok",
    "pools ok",
    "names ok",
    "guest ok",
  ]);
  expect(good.held.size).toBe(0);
});

/** Each plants one fault, and says how it is told and what to do. */
const planted: readonly {
  name: string;
  plant: () => Promise<Partial<Examined>>;
  finds: Pick<Finding, "check" | "level">;
  message: RegExp;
  fix: RegExp;
  names?: string[];
}[] = [
  {
    name: "a seed that nobody listens at",
    plant: async () => {
      const gone = await scriptedNode();
      await gone[Symbol.asyncDispose]();
      return { seeds: [gone.address] };
    },
    finds: { check: "nodes", level: "fault" },
    message: /cannot be reached.*ECONNREFUSED/,
    fix: /start sandboxd there/,
  },
  {
    name: "a seed whose name is unknown",
    plant: async () => ({ seeds: ["no-such-host.invalid:7777"] }),
    finds: { check: "nodes", level: "fault" },
    message: /cannot be reached/,
    fix: /DNS/,
  },
  {
    name: "a seed that is another service",
    plant: async () => ({ seeds: [(await node({ page: "<html>" })).address] }),
    finds: { check: "nodes", level: "fault" },
    message: /does not answer as sandboxd/,
    fix: /address of the node's API/,
  },
  {
    name: "a seed that never answers",
    plant: async () => ({ seeds: [(await node({ silent: true })).address] }),
    finds: { check: "nodes", level: "fault" },
    message: /does not answer in time/,
    fix: /load and log/,
  },
  {
    name: "a seed that is no address",
    plant: async () => ({ seeds: ["http://"] }),
    finds: { check: "nodes", level: "fault" },
    message: /no address/,
    fix: /host:port/,
  },
  {
    name: "no seed",
    plant: async () => ({ seeds: [] }),
    finds: { check: "nodes", level: "fault" },
    message: /no node is named/,
    fix: /--sandboxd-seeds/,
  },
  {
    name: "a draining node",
    plant: async () => ({ seeds: [(await node({ info: { draining: true } })).address] }),
    finds: { check: "nodes", level: "warning" },
    message: /draining/,
    fix: /undrain/,
  },
  {
    name: "a wrong token",
    plant: async () => ({ token: "other" }),
    finds: { check: "token", level: "fault" },
    message: /refuses the token/,
    fix: /root api_token/,
  },
  {
    name: "no token",
    plant: async () => ({ token: "" }),
    finds: { check: "token", level: "fault" },
    message: /wants a token and none is given/,
    fix: /--sandboxd-token-file/,
  },
  {
    name: "a tenant's token",
    plant: async () => ({ seeds: [(await node({ tenant: "theirs" })).address], token: "theirs" }),
    finds: { check: "token", level: "fault" },
    message: /for a tenant's/,
    fix: /root api_token/,
  },
  {
    name: "open nodes",
    plant: async () => ({ seeds: [(await node({ token: undefined })).address] }),
    finds: { check: "token", level: "warning" },
    message: /without a token as well/,
    fix: /api_token/,
  },
  {
    name: "a node that advertises nothing",
    plant: async () => ({ seeds: [(await node({ info: { advertise_addr: undefined } })).address] }),
    finds: { check: "addresses", level: "fault" },
    message: /advertises no address/,
    fix: /advertise_addr/,
  },
  {
    name: "a node whose own address leads nowhere",
    plant: async () => ({ seeds: [(await node({ info: { advertise_addr: "127.0.0.1:1" } })).address] }),
    finds: { check: "addresses", level: "fault" },
    message: /cannot be used from here/,
    fix: /claims are sent there/,
  },
  {
    name: "a node that goes by another one's address",
    plant: async () => {
      const other = await node({ info: { advertise_addr: "10.0.0.9:7777" } });
      return { seeds: [(await node({ info: { advertise_addr: other.address } })).address] };
    },
    finds: { check: "addresses", level: "fault" },
    message: /another node answers/,
    fix: /of its own/,
  },
  {
    name: "two nodes that do not know each other",
    plant: async () => ({ seeds: [(await node()).address, (await node()).address] }),
    finds: { check: "mesh", level: "fault" },
    message: /does not know/,
    fix: /join/,
  },
  {
    name: "a clock that is minutes ahead",
    plant: async () => ({ seeds: [(await node({ aheadMs: 300_000 })).address] }),
    finds: { check: "clocks", level: "fault" },
    message: /(299|300) s ahead/,
    fix: /time service/,
  },
  {
    name: "a clock that is seconds behind",
    plant: async () => ({ seeds: [(await node({ aheadMs: -12_000 })).address] }),
    finds: { check: "clocks", level: "warning" },
    message: /1[12] s behind/,
    fix: /time service/,
  },
  {
    name: "a template that no node serves",
    plant: async () => ({ aliases: [{ alias: "base", image: "imgae", size: "small" }] }),
    finds: { check: "pools", level: "fault" },
    message: /no node serves template base/,
    fix: /mend the image/,
  },
  {
    name: "a template in a size that no node serves",
    plant: async () => ({ aliases: [{ alias: "base", image: "image", size: "large" }] }),
    finds: { check: "pools", level: "fault" },
    message: /no node serves/,
    fix: /have it as small: mend the size/,
  },
  {
    name: "nodes without pools",
    plant: async () => ({ seeds: [(await node({ info: { pools: [] } })).address] }),
    finds: { check: "pools", level: "fault" },
    message: /no node keeps any pool/,
    fix: /PUT \/v1\/pools/,
  },
  {
    name: "no alias called base",
    plant: async () => ({ aliases: [{ alias: "mine", image: "image", size: "small" }] }),
    finds: { check: "pools", level: "warning" },
    message: /no alias is called "base"/,
    fix: /base <image> small/,
  },
  {
    name: "a domain without a wildcard entry",
    plant: async () => ({}),
    names: [DOMAIN],
    finds: { check: "names", level: "fault" },
    message: /leads nowhere/,
    fix: /wildcard entry/,
  },
  {
    name: "a certificate of the bare domain",
    plant: async () => ({ certificate: pair([DOMAIN]) }),
    finds: { check: "certificate", level: "fault" },
    message: /does not cover \*\.sandbox\.example\.com/,
    fix: /wildcard covers one level/,
  },
  {
    name: "a certificate that ended",
    plant: async () => ({ certificate: pair([`*.${DOMAIN}`], -9, -2) }),
    finds: { check: "certificate", level: "fault" },
    message: /ended on/,
    fix: /renew/,
  },
  {
    name: "a certificate that ends soon",
    plant: async () => ({ certificate: pair([`*.${DOMAIN}`], -9, 5) }),
    finds: { check: "certificate", level: "warning" },
    message: /ends in [45] days/,
    fix: /without a restart/,
  },
  {
    name: "the key of another certificate",
    plant: async () => ({ certificate: { ...pair([`*.${DOMAIN}`]), key: pair(["x"]).key } }),
    finds: { check: "certificate", level: "fault" },
    message: /another certificate/,
    fix: /made for this certificate/,
  },
  {
    name: "an old daemon in the image",
    plant: async () => ({ seeds: [(await node({ envd: "0.5.1" })).address] }),
    finds: { check: "guest", level: "fault" },
    message: /told envd 0\.8\.0, and base has 0\.5\.1/,
    fix: /--e2b-envd-version=0\.5\.1/,
  },
  {
    name: "no daemon in the image",
    plant: async () => ({ seeds: [(await node({ envd: false })).address] }),
    finds: { check: "guest", level: "fault" },
    message: /./,
    fix: /envd|node's log/,
  },
  {
    name: "a key that can be guessed",
    plant: async () => ({ keys: ["secret"] }),
    finds: { check: "keys", level: "warning" },
    message: /short enough/,
    fix: /random/,
  },
];

describe("a planted fault", () => {
  it.each(planted)("is found, with what to do: $name", async ({ plant, finds, message, fix, names }) => {
    const found = await examined(await plant(), names);
    expect(found).toContainEqual({
      ...finds,
      message: expect.stringMatching(message),
      fix: expect.stringMatching(fix),
    });
  });
});

it("tells no secret, whatever is wrong", async () => {
  const secrets = { token: "very-secret-token", keys: ["e2b_0", "another-secret-key-of-someone"] };
  for (const { plant, names } of planted) {
    const text = JSON.stringify(await examined({ ...secrets, ...(await plant()) }, names));
    expect(text).not.toMatch(/very-secret|another-secret|e2b_0|PRIVATE KEY|token-of-the-sandbox/);
  }
});

it("gives the sandbox back when it is told to stop while it looks into it", async () => {
  const slow = await node();
  const stop = new AbortController();
  const service = { seeds: [slow.address], token: "root", domain: "", namespace: "default", allowAnonymous: false };
  const aliases = [{ alias: "base", image: "image", size: "small" }];
  const run = async (): Promise<void> => {
    const told = examine({ ...service, aliases, envdVersion: "0.8.0" }, { signal: stop.signal });
    for await (const { check } of told) if (check === "pools") stop.abort();
  };
  await expect(run()).rejects.toThrow(/abort/i);
  expect(slow.held.size).toBe(0);
});

it("asks every node that the seeds name, once", async () => {
  const far = await node();
  const near = await node({ info: { peers: [far.address] } });
  far.script = { token: "root", info: { peers: [near.address] } };
  const found = await examined({ seeds: [near.address] });
  expect(found.filter(({ check }) => check === "nodes").map(({ message }) => message)).toEqual([
    `seed ${near.address} answers: 0 sandboxes`,
    `node ${far.address} answers: 0 sandboxes`,
  ]);
  expect(found.filter(({ check }) => check === "mesh")).toEqual([
    { check: "mesh", level: "ok", message: "2 nodes know each other" },
  ]);
  expect(faultsOf(found)).toEqual([]);
});
