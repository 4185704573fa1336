import { afterEach, describe, expect, test } from "vitest";
import type { Timing } from "@org/kubeinventory/client";
import { driveWarmPools, type WarmPoolDriverOptions } from "./driver.ts";
import type { SetPools } from "./node-pools.ts";
import { FakeCluster, refusal } from "./testing/fake-cluster.ts";
import { FakeFleet } from "./testing/fake-fleet.ts";
import { FakeTime } from "./testing/fake-time.ts";
import { LogLines } from "./testing/log-lines.ts";

const GROUP = "/apis/extensions.agents.x-k8s.io/v1beta1";
const LEASE = "/apis/coordination.k8s.io/v1/namespaces/sandbox-system/leases/cocoon-warmpool-driver";

const ends: AbortController[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) {
    end.abort();
  }
});

/** A cluster, a fleet and drivers over them. */
class World {
  readonly cluster = new FakeCluster();
  readonly fleet = new FakeFleet();
  readonly time = new FakeTime();
  readonly log = new LogLines();

  /** Starts a driver. Returns what ends it. */
  drive(more: { setPools?: SetPools | undefined; timing?: Timing; identity?: string; syncIntervalMs?: number } = {}): {
    end: () => void;
    over: Promise<void>;
  } {
    const life = new AbortController();
    ends.push(life);
    const { setPools = this.fleet.setPools, timing = this.time, identity = "a", syncIntervalMs } = more;
    const options: Omit<WarmPoolDriverOptions, "nodes"> = {
      client: this.cluster,
      source: this.fleet,
      namespace: "sandbox-system",
      identity,
      syncIntervalMs,
      signal: life.signal,
      logger: this.log,
      clock: () => Date.UTC(2026, 0, 1) + timing.now(),
      timing,
    };
    const over = driveWarmPools(options, "setPools" in more ? more.setPools : setPools);
    return { end: () => life.abort(), over };
  }

  pool(name: string, spec: object, namespace = "default"): string {
    const path = `${GROUP}/namespaces/${namespace}/sandboxwarmpools/${name}`;
    this.cluster.put(path, { spec: { sandboxTemplateRef: { name: "t" }, ...spec } });
    return path;
  }

  template(name: string, more: { image?: string; net?: string; cpu?: string } = {}, namespace = "default"): string {
    const { image = "python:3.12", net, cpu = "1" } = more;
    const path = `${GROUP}/namespaces/${namespace}/sandboxtemplates/${name}`;
    const metadata = { annotations: { "sandbox.cocoonstack.io/net": "egress" } };
    this.cluster.put(path, {
      // Only the annotations of the pod template count.
      metadata,
      spec: {
        podTemplate: {
          metadata: net === undefined ? {} : { annotations: { "sandbox.cocoonstack.io/net": net } },
          spec: { containers: [{ image, resources: { requests: { cpu } } }] },
        },
      },
    });
    return path;
  }

  status(path: string): unknown {
    return this.cluster.get(path)?.["status"];
  }
}

describe("a driver", () => {
  test("spreads replicas over the nodes and reports what is warm", async () => {
    const world = new World();
    world.fleet.nodes("n2", "n1", { node: "n0", address: "" });
    world.template("t", { cpu: "2", net: "egress" });
    const path = world.pool("p", { replicas: 5 });
    world.fleet.fill = (warm, address) => (address === "n1" ? warm : 0);
    world.drive();
    await world.time.pass(100);
    expect(world.fleet.puts.map(({ address }) => address)).toEqual(["n1", "n2"]);
    expect(world.fleet.poolsOf("n1")).toEqual(["python:3.12 egress medium 3"]);
    expect(world.fleet.poolsOf("n2")).toEqual(["python:3.12 egress medium 2"]);
    expect(world.status(path)).toEqual({
      replicas: 3,
      readyReplicas: 3,
      selector: "agents.x-k8s.io/warm-pool=p",
      observedGeneration: 1,
    });
  });

  test("gives each node all pools in one call, in order, those with one key added up", async () => {
    const world = new World();
    world.fleet.nodes("n1", "n2");
    world.template("t");
    world.template("t", { image: "alpine" }, "other");
    world.template("u", { image: "python:3.12", net: "none" });
    const paths = [
      world.pool("p", { replicas: 3 }),
      world.pool("q", { replicas: 5, sandboxTemplateRef: { name: "u" } }),
    ];
    world.pool("r", {}, "other");
    world.fleet.fill = (warm) => (warm === 5 || warm === 3 ? 2 : 0);
    world.drive();
    await world.time.pass(100);
    expect(world.fleet.puts).toHaveLength(2);
    expect(world.fleet.poolsOf("n1")).toEqual(["alpine none small 1", "python:3.12 none small 5"]);
    expect(world.fleet.poolsOf("n2")).toEqual(["alpine none small 0", "python:3.12 none small 3"]);
    expect(paths.map((path) => world.status(path))).toMatchObject([{ readyReplicas: 2 }, { readyReplicas: 2 }]);
  });

  test("drains a pool that was deleted, one that is being deleted and one without replicas", async () => {
    const world = new World();
    world.fleet.nodes("n1");
    world.template("t");
    world.template("u", { image: "b" });
    world.template("v", { image: "c" });
    const gone = world.pool("p", { replicas: 1 });
    world.pool("q", { replicas: 1, sandboxTemplateRef: { name: "u" } });
    const leaving = world.pool("r", { replicas: 1, sandboxTemplateRef: { name: "v" } });
    world.drive();
    await world.time.pass(100);
    expect(world.fleet.poolsOf("n1")).toHaveLength(3);
    world.cluster.remove(gone);
    world.pool("q", { replicas: 0, sandboxTemplateRef: { name: "u" } });
    await world.time.pass(1000);
    expect(world.fleet.poolsOf("n1")).toEqual(["b none small 0", "c none small 1"]);
    const spec = world.cluster.get(leaving)?.["spec"];
    world.cluster.put(leaving, { metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" }, spec });
    await world.time.pass(2000);
    expect(world.fleet.poolsOf("n1")).toEqual(["b none small 0"]);
    world.cluster.remove(leaving);
    world.cluster.remove(`${GROUP}/namespaces/default/sandboxwarmpools/q`);
    await world.time.pass(2000);
    expect(world.fleet.poolsOf("n1")).toEqual([]);
  });

  test("runs for changes of what is asked and of the fleet, at intervals, and not for its own status", async () => {
    const world = new World();
    world.fleet.nodes("n1");
    world.template("t");
    world.pool("p", { replicas: 1 });
    world.drive();
    await world.time.pass(4000);
    // The first run, and nothing for the status that it wrote.
    expect(world.fleet.puts).toHaveLength(1);
    await world.time.pass(1500);
    expect(world.fleet.puts).toHaveLength(2);
    world.fleet.nodes("n1", "n2");
    await world.time.pass(1100);
    expect(world.fleet.puts.map(({ address }) => address)).toEqual(["n1", "n1", "n1", "n2"]);
    world.template("t", { image: "new" });
    await world.time.pass(1100);
    expect(world.fleet.poolsOf("n1")).toEqual(["new none small 1"]);
    world.pool("p", { replicas: 4 });
    await world.time.pass(1100);
    expect(world.fleet.poolsOf("n2")).toEqual(["new none small 2"]);
  });

  test("writes a status only when it changed", async () => {
    const world = new World();
    world.fleet.nodes("n1");
    world.template("t");
    const path = world.pool("p", { replicas: 2 });
    world.drive();
    await world.time.pass(30_000);
    expect(world.cluster.seen("PUT", "/status")).toHaveLength(1);
    world.fleet.fill = () => 1;
    await world.time.pass(10_000);
    expect(world.cluster.seen("PUT", "/status")).toHaveLength(2);
    expect(world.status(path)).toMatchObject({ replicas: 1, readyReplicas: 1 });
  });

  test("does not insist on a member of the status that the cluster drops", async () => {
    const world = new World();
    world.cluster.prunes = ["observedGeneration"];
    world.fleet.nodes("n1");
    world.template("t");
    world.pool("p", { replicas: 2 });
    world.drive();
    await world.time.pass(60_000);
    expect(world.cluster.seen("PUT", "/status").length).toBeLessThanOrEqual(2);
  });

  test("leaves a status that somebody else changed meanwhile to the next run", async () => {
    const world = new World();
    world.fleet.nodes("n1");
    world.template("t");
    const path = world.pool("p", { replicas: 2 });
    let conflicts = 1;
    world.cluster.gate = (request) => {
      if (request.path.endsWith("/status") && conflicts > 0) {
        conflicts -= 1;
        throw refusal(request, 409, "Conflict");
      }
    };
    world.drive();
    await world.time.pass(100);
    expect(world.status(path)).toBeUndefined();
    await world.time.pass(5000);
    expect(world.status(path)).toMatchObject({ readyReplicas: 2 });
    expect(world.log.of("warn")).toEqual([]);
  });

  test("counts what inventory says of nodes that do not answer, and sets the others", async () => {
    const world = new World();
    const key = { template: "python:3.12", net: "", size: "" };
    world.fleet.nodes(
      "n1",
      { node: "n2", pools: [{ ...key, warm: 7, target: 9 }] },
      { node: "n3", address: "", pools: [{ ...key, warm: 20, target: 9 }] },
    );
    world.template("t");
    const path = world.pool("p", { replicas: 2 });
    world.fleet.gate = (address) => {
      if (address === "n2") {
        throw new Error("node is ill");
      }
    };
    world.drive();
    await world.time.pass(20_000);
    expect(world.fleet.poolsOf("n1")).toEqual(["python:3.12 none small 1"]);
    expect(world.status(path)).toMatchObject({ readyReplicas: 28 });
    // The same trouble is worth one warning.
    expect(world.log.of("warn")).toEqual(["the pools of a node were not set"]);
  });

  test("calls sixteen nodes at once", async () => {
    const world = new World();
    world.fleet.nodes(...Array.from({ length: 50 }, (_, at) => `n${at}`));
    world.fleet.gate = () => new Promise((resolve) => world.time.after(1000, resolve));
    world.drive();
    await world.time.pass(3900);
    expect([world.fleet.peak, world.fleet.puts.length]).toEqual([16, 48]);
    await world.time.pass(200);
    expect(world.fleet.puts).toHaveLength(50);
  });

  test("without a way to set pools leaves the nodes alone, and says so", async () => {
    const world = new World();
    world.fleet.nodes({ node: "n1", pools: [{ template: "python:3.12", warm: 4, target: 4 }] });
    world.template("t");
    const path = world.pool("p", { replicas: 2 });
    world.drive({ setPools: undefined });
    await world.time.pass(10_000);
    expect(world.fleet.puts).toEqual([]);
    expect(world.log.of("warn")).toEqual(["there is no token for nodes: no warm pools are set"]);
    expect(world.status(path)).toMatchObject({ readyReplicas: 4 });
  });

  test("does nothing in an empty fleet but report that nothing is warm", async () => {
    const world = new World();
    world.template("t");
    const path = world.pool("p", { replicas: 2 });
    world.drive();
    await world.time.pass(6000);
    expect(world.status(path)).toMatchObject({ replicas: 0, readyReplicas: 0 });
  });
});

describe("a pool that asks for nothing", () => {
  test.each([
    ["whose template is missing", { sandboxTemplateRef: { name: "none" } }, 'there is no template "none"'],
    ["that names no template", { sandboxTemplateRef: null }, "spec.sandboxTemplateRef names no template"],
    [
      "whose template has no image",
      { sandboxTemplateRef: { name: "bare" } },
      "the template's first container has no image",
    ],
    [
      "whose template names an unknown lane",
      { sandboxTemplateRef: { name: "lane" } },
      'nodes know no network lane "vpn"',
    ],
    [
      "whose template has amounts that are none",
      { sandboxTemplateRef: { name: "amount" } },
      'podTemplate.spec.containers[0].resources.requests.cpu: "lots" is no quantity',
    ],
    ["whose replicas are no count", { replicas: -1 }, "spec.replicas is no count"],
  ])("%s holds up no other, and its status says that nothing is warm", async (_, spec, err) => {
    const world = new World();
    world.fleet.nodes("n1");
    world.template("t");
    world.template("bare", { image: "" });
    world.template("lane", { net: "vpn" });
    world.template("amount", { cpu: "lots" });
    const path = world.pool("broken", { replicas: 3, ...spec });
    world.pool("p", { replicas: 2 });
    world.drive();
    await world.time.pass(20_000);
    expect(world.fleet.poolsOf("n1")).toEqual(["python:3.12 none small 2"]);
    expect(world.status(path)).toMatchObject({ replicas: 0, readyReplicas: 0 });
    expect(world.log.lines.filter(({ level }) => level === "warn")).toEqual([
      { level: "warn", message: "a warm pool asks for nothing", fields: { pool: "default/broken", err } },
    ]);
  });
});

describe("a template name that no template can have", () => {
  test.each([
    ["..", ".."],
    [".", "."],
    ["a/b", "a/b"],
    ["t/status", "t/status"],
    ["T", "T"],
    ["with a space", "a b"],
    ["with a query", "t?watch=true"],
    ["encoded", "%2e%2e"],
    ["none", ""],
    ["a little too long", "x".repeat(254)],
    ["longer than a URL may be", "x".repeat(100_000)],
  ])("is asked for by nobody: the API server could refuse it, and hold up all pools (%s)", async (_what, name) => {
    const world = new World();
    world.fleet.nodes("n1");
    world.template("t");
    world.pool("broken", { sandboxTemplateRef: { name } });
    world.pool("p", { replicas: 2 });
    world.cluster.gate = (request) => {
      if (request.path.includes("/sandboxtemplates/")) {
        throw refusal(request, 403, "Forbidden");
      }
    };
    world.drive();
    await world.time.pass(6000);
    expect(world.fleet.poolsOf("n1")).toEqual(["python:3.12 none small 2"]);
    const [{ fields } = { fields: {} }] = world.log.lines.filter(({ level }) => level === "warn");
    expect(JSON.stringify(fields).length).toBeLessThan(300);
  });

  test("and that of a pool that leaves is not asked for", async () => {
    const world = new World();
    world.fleet.nodes("n1");
    world.template("t");
    world.pool("p", { replicas: 2 });
    const path = world.pool("leaving", { sandboxTemplateRef: { name: "gone" } });
    world.cluster.put(path, { metadata: { deletionTimestamp: "2026-11-30T10:00:00Z" } });
    world.cluster.gate = (request) => {
      if (request.path.includes("/sandboxtemplates/")) {
        throw refusal(request, 500, "InternalError");
      }
    };
    world.drive();
    await world.time.pass(6000);
    expect(world.fleet.poolsOf("n1")).toEqual(["python:3.12 none small 2"]);
  });
});

describe("while templates cannot be read", () => {
  test("nothing is set", async () => {
    const world = new World();
    world.fleet.nodes("n1");
    world.template("t");
    world.pool("p", { replicas: 2 });
    world.pool("q", { sandboxTemplateRef: { name: "late" } });
    let broken = true;
    world.cluster.gate = (request) => {
      if (broken && request.path.endsWith("/sandboxtemplates/late")) {
        throw refusal(request, 500, "InternalError");
      }
    };
    world.drive();
    await world.time.pass(60_000);
    expect(world.fleet.puts).toEqual([]);
    expect(world.log.of("warn")).toContain("a template cannot be read: no warm pools are set");
    broken = false;
    await world.time.pass(30_000);
    expect(world.fleet.poolsOf("n1")).toEqual(["python:3.12 none small 2"]);
  });

  test.each(["sandboxtemplates", "sandboxwarmpools"])(
    "nothing is set as long as %s were not listed",
    async (plural) => {
      const world = new World();
      world.fleet.nodes("n1");
      world.template("t");
      world.pool("p", { replicas: 2 });
      let broken = true;
      world.cluster.gate = (request) => {
        if (broken && request.path === `${GROUP}/${plural}`) {
          throw refusal(request, 404, "NotFound");
        }
      };
      world.drive();
      await world.time.pass(60_000);
      expect(world.fleet.puts).toEqual([]);
      broken = false;
      await world.time.pass(31_000);
      expect(world.fleet.poolsOf("n1")).toEqual(["python:3.12 none small 2"]);
    },
  );
});

test("a leader begins with the newest state, since pools that a cache does not have yet would drain", async () => {
  const world = new World();
  world.drive();
  await world.time.pass(100);
  const lists = world.cluster.requests.filter(
    ({ path, query }) => path.startsWith(GROUP) && query?.["watch"] !== "true",
  );
  expect(lists.map(({ query }) => query?.["resourceVersion"])).toEqual([undefined, undefined]);
});

describe("of two drivers", () => {
  test("one sets pools, and the other goes on when that one is gone", async () => {
    const world = new World();
    world.fleet.nodes("n1");
    world.template("t");
    world.pool("p", { replicas: 2 });
    const by: string[] = [];
    const setPools = (who: string): SetPools => {
      return (...call) => {
        by.push(who);
        return world.fleet.setPools(...call);
      };
    };
    const a = world.drive({ identity: "a", setPools: setPools("a") });
    world.drive({ identity: "b", setPools: setPools("b") });
    await world.time.pass(60_000);
    expect(new Set(by)).toEqual(new Set(["a"]));
    a.end();
    await a.over;
    by.length = 0;
    await world.time.pass(14_000);
    expect(by).toEqual([]);
    await world.time.pass(10_000);
    expect(new Set(by)).toEqual(new Set(["b"]));
    expect(world.cluster.get(LEASE)?.["spec"]).toMatchObject({ holderIdentity: "b", leaseTransitions: 1 });
  });

  test("one begins only after the calls of the other were called off", async () => {
    const world = new World();
    world.fleet.nodes("n1", "n2");
    const open = new Map<string, number>();
    const setPools = (who: string): SetPools => {
      return async (_address, _pools, { signal }) => {
        // A node that never answers: only the signal ends the call.
        open.set(who, (open.get(who) ?? 0) + 1);
        await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
        open.set(who, (open.get(who) ?? 0) - 1);
        throw signal.reason;
      };
    };
    world.drive({ identity: "a", setPools: setPools("a") });
    await world.time.pass(100);
    world.drive({ identity: "b", setPools: setPools("b") });
    await world.time.pass(100);
    expect(open).toEqual(new Map([["a", 2]]));
    // From now on a cannot renew, and b can.
    world.cluster.gate = (request) => {
      const spec = (request.body as { readonly spec?: { readonly holderIdentity?: string } } | undefined)?.spec;
      if (spec?.holderIdentity === "a") {
        throw refusal(request, 503, "ServiceUnavailable");
      }
    };
    for (let at = 0; at < 300; at += 1) {
      await world.time.pass(100);
      expect(Math.min(open.get("a") ?? 0, open.get("b") ?? 0)).toBe(0);
    }
    expect([open.get("a"), open.get("b")]).toEqual([0, 2]);
  });
});

test("a driver whose API server dies stops setting pools, and goes on by itself once it is back", async () => {
  const world = new World();
  world.fleet.nodes("n1");
  world.template("t");
  world.pool("p", { replicas: 2 });
  world.drive();
  await world.time.pass(3000);
  world.cluster.die();
  await world.time.pass(12_000);
  const before = world.fleet.puts.length;
  await world.time.pass(120_000);
  expect(world.fleet.puts).toHaveLength(before);
  world.cluster.revive();
  world.pool("p", { replicas: 7 });
  await world.time.pass(10_000);
  expect(world.fleet.poolsOf("n1")).toEqual(["python:3.12 none small 7"]);
});

test("a driver that was stopped for a while sets nothing when it wakes up", async () => {
  const world = new World();
  world.fleet.nodes("n1");
  world.drive();
  await world.time.pass(4900);
  const before = world.fleet.puts.length;
  // Its next run is due before the timer that ends its term.
  world.time.sleep(20_000);
  world.cluster.put(LEASE, { spec: { holderIdentity: "b", leaseDurationSeconds: 15 } });
  await world.time.pass(3000);
  expect(world.fleet.puts).toHaveLength(before);
});

test("a driver ends with its signal, calls off what it began and leaves nothing behind", async () => {
  const world = new World();
  world.fleet.nodes("n1");
  let reason: unknown;
  world.fleet.gate = (_, signal) =>
    new Promise((resolve) => {
      signal.addEventListener("abort", () => {
        reason = "aborted";
        resolve();
      });
    });
  const { end, over } = world.drive();
  await world.time.pass(100);
  end();
  await over;
  expect([reason, world.fleet.puts, world.log.of("warn")]).toEqual(["aborted", [], []]);
  await world.time.pass(0);
  expect(world.time.pending).toBe(0);
  expect(world.cluster.get(LEASE)?.["spec"]).toMatchObject({ holderIdentity: "a" });
});

test.each([-1, Number.NaN, 2 ** 31])("an interval of %d ms is refused", async (syncIntervalMs) => {
  await expect(new World().drive({ syncIntervalMs }).over).rejects.toThrow(TypeError);
});
