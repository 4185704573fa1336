import { afterEach, describe, expect, test } from "vitest";
import type { Timing } from "@org/kubeinventory/client";
import { LeaderElection, type Leadership, type LeaderElectionOptions } from "./leader-election.ts";
import { FakeCluster, refusal, silence } from "./testing/fake-cluster.ts";
import { FakeTime, SkewedTime } from "./testing/fake-time.ts";
import { LogLines } from "./testing/log-lines.ts";

const LEASES = "/apis/coordination.k8s.io/v1/namespaces/sandbox-system/leases";
const LEASE = `${LEASES}/driver`;
const EVENTS = "/api/v1/namespaces/sandbox-system/events";
const NOON = Date.UTC(2026, 0, 1, 12);

const ends: AbortController[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) {
    end.abort();
  }
});

/** One candidate that stands again and again, and what became of it. */
class Candidate {
  readonly log = new LogLines();
  readonly #life = new AbortController();
  readonly over: Promise<void>;
  leadership: Leadership | undefined;
  terms = 0;

  constructor(cluster: FakeCluster, identity: string, timing: Timing, more: Partial<LeaderElectionOptions> = {}) {
    ends.push(this.#life);
    const election = new LeaderElection({
      client: cluster,
      lease: { namespace: "sandbox-system", name: "driver" },
      identity,
      timing,
      clock: () => NOON + Math.floor(timing.now()),
      logger: this.log,
      ...more,
    });
    this.over = this.#stand(election);
  }

  get leads(): boolean {
    return this.leadership !== undefined;
  }

  end(): void {
    this.#life.abort();
  }

  async #stand(election: LeaderElection): Promise<void> {
    while (!this.#life.signal.aborted) {
      await election.term((leadership) => this.#lead(leadership), { signal: this.#life.signal });
    }
  }

  async #lead(leadership: Leadership): Promise<void> {
    this.terms += 1;
    this.leadership = leadership;
    await new Promise((resolve) => leadership.signal.addEventListener("abort", resolve, { once: true }));
    this.leadership = undefined;
  }
}

/** What the Lease says. */
function spec(cluster: FakeCluster): Record<string, unknown> {
  return (cluster.get(LEASE)?.["spec"] ?? {}) as Record<string, unknown>;
}

describe("a candidate", () => {
  test("makes the lease when there is none, and leads", async () => {
    const [cluster, time] = [new FakeCluster(), new FakeTime()];
    const a = new Candidate(cluster, "a", time);
    await time.pass(0);
    expect(a.leads).toBe(true);
    expect(spec(cluster)).toEqual({
      holderIdentity: "a",
      leaseDurationSeconds: 15,
      acquireTime: "2026-01-01T12:00:00.000000Z",
      renewTime: "2026-01-01T12:00:00.000000Z",
      leaseTransitions: 0,
    });
  });

  test("renews every two seconds and changes nothing else", async () => {
    const [cluster, time] = [new FakeCluster(), new FakeTime()];
    let now = NOON;
    const a = new Candidate(cluster, "a", time, { clock: () => now });
    await time.pass(0);
    now += 2345;
    await time.pass(2000);
    expect(spec(cluster)).toMatchObject({
      acquireTime: "2026-01-01T12:00:00.000000Z",
      renewTime: "2026-01-01T12:00:02.345000Z",
      leaseTransitions: 0,
    });
    await time.pass(60_000);
    expect([a.leads, a.terms, cluster.seen("PUT").length]).toEqual([true, 1, 31]);
  });

  test("waits for the lease's own duration after it last saw it change, whatever the times in it are", async () => {
    const [cluster, time] = [new FakeCluster(), new FakeTime()];
    const old = { holderIdentity: "b", leaseDurationSeconds: 30, renewTime: "1999-01-01T00:00:00.000000Z" };
    cluster.put(LEASE, { spec: { ...old, leaseTransitions: 7, strategy: "kept" } });
    const a = new Candidate(cluster, "a", time);
    await time.pass(20_000);
    cluster.put(LEASE, {
      spec: { ...old, renewTime: "2099-01-01T00:00:00.000000Z", leaseTransitions: 7, strategy: "kept" },
    });
    await time.pass(29_000);
    expect(a.leads).toBe(false);
    await time.pass(6000);
    expect(a.leads).toBe(true);
    expect(spec(cluster)).toMatchObject({ holderIdentity: "a", leaseTransitions: 8, strategy: "kept" });
    expect(
      a.log.lines.filter(({ level }) => level === "info").map(({ message, fields }) => [message, fields["holder"]]),
    ).toEqual([
      ["another is the leader", "b"],
      ["became the leader", undefined],
    ]);
  });

  test("takes a lease that nobody holds at once", async () => {
    const [cluster, time] = [new FakeCluster(), new FakeTime()];
    cluster.put(LEASE, { spec: { holderIdentity: "", leaseDurationSeconds: 15, leaseTransitions: 1 } });
    const a = new Candidate(cluster, "a", time);
    await time.pass(0);
    expect([a.leads, spec(cluster)["leaseTransitions"]]).toEqual([true, 2]);
  });

  test.each([
    undefined,
    {},
    { holderIdentity: "b", leaseDurationSeconds: "15" },
    { holderIdentity: "b", leaseDurationSeconds: -1 },
  ])("gets over a lease that says %j", async (content) => {
    const [cluster, time] = [new FakeCluster(), new FakeTime()];
    cluster.put(LEASE, content === undefined ? {} : { spec: content });
    const a = new Candidate(cluster, "a", time);
    await time.pass(14_000);
    await time.pass(5000);
    expect(a.leads).toBe(true);
    expect(spec(cluster)).toMatchObject({ holderIdentity: "a", leaseDurationSeconds: 15 });
  });

  test("goes on with a lease of its own, as after a lost answer", async () => {
    const [cluster, time] = [new FakeCluster(), new FakeTime()];
    const acquireTime = "2025-12-31T00:00:00.000000Z";
    cluster.put(LEASE, { spec: { holderIdentity: "a", acquireTime, leaseDurationSeconds: 15, leaseTransitions: 4 } });
    const a = new Candidate(cluster, "a", time);
    await time.pass(0);
    expect(a.leads).toBe(true);
    expect(spec(cluster)).toMatchObject({ acquireTime, leaseTransitions: 4 });
  });

  test("keeps trying while it may not, and says so once", async () => {
    const [cluster, time] = [new FakeCluster(), new FakeTime()];
    cluster.gate = (request) => {
      throw refusal(request, 403, "Forbidden");
    };
    const a = new Candidate(cluster, "a", time);
    await time.pass(60_000);
    expect(a.log.of("warn")).toEqual(["the lease cannot be used"]);
    cluster.revive();
    await time.pass(3000);
    expect(a.leads).toBe(true);
  });

  test("leaves the lease as it is when it ends", async () => {
    const [cluster, time] = [new FakeCluster(), new FakeTime()];
    const a = new Candidate(cluster, "a", time);
    await time.pass(0);
    a.end();
    await a.over;
    expect([a.leads, spec(cluster)["holderIdentity"], a.log.of("warn")]).toEqual([false, "a", []]);
    await time.pass(0);
    expect(time.pending).toBe(0);
  });

  test("records what it became beside the lease", async () => {
    const [cluster, time] = [new FakeCluster(), new FakeTime()];
    const a = new Candidate(cluster, "a", time);
    await time.pass(0);
    cluster.put(LEASE, { spec: { holderIdentity: "b", leaseDurationSeconds: 15 } });
    await time.pass(2000);
    expect(a.leads).toBe(false);
    expect(cluster.all(EVENTS).map((event) => event["message"])).toEqual(["a became leader", "a stopped leading"]);
    expect(cluster.all(EVENTS)[0]).toMatchObject({
      kind: "Event",
      reason: "LeaderElection",
      type: "Normal",
      involvedObject: { kind: "Lease", namespace: "sandbox-system", name: "driver" },
      firstTimestamp: "2026-01-01T12:00:00Z",
    });
  });

  test("does not mind that events are refused", async () => {
    const [cluster, time] = [new FakeCluster(), new FakeTime()];
    cluster.gate = (request) => {
      if (request.path === EVENTS) {
        throw refusal(request, 403, "Forbidden");
      }
    };
    const a = new Candidate(cluster, "a", time);
    await time.pass(10_000);
    expect([a.leads, a.log.of("warn")]).toEqual([true, []]);
  });
});

describe("a leader", () => {
  test("that cannot renew ends after ten seconds, before anybody else may begin", async () => {
    const [cluster, time] = [new FakeCluster(), new FakeTime()];
    const a = new Candidate(cluster, "a", time);
    await time.pass(4000);
    cluster.die();
    await time.pass(9900);
    expect(a.leads).toBe(true);
    await time.pass(200);
    expect([a.leads, a.log.of("warn")]).toEqual([false, ["the lease cannot be used", "lost the lease"]]);
    cluster.revive();
    await time.pass(3000);
    expect([a.leads, spec(cluster)["leaseTransitions"]]).toEqual([true, 0]);
  });

  test("that gets no answer ends as well", async () => {
    const [cluster, time] = [new FakeCluster(), new FakeTime()];
    const a = new Candidate(cluster, "a", time);
    await time.pass(0);
    cluster.gate = silence;
    await time.pass(10_100);
    expect(a.leads).toBe(false);
  });

  test("ends at once when another holds the lease", async () => {
    const [cluster, time] = [new FakeCluster(), new FakeTime()];
    const a = new Candidate(cluster, "a", time);
    await time.pass(0);
    cluster.put(LEASE, { spec: { ...spec(cluster), holderIdentity: "b" } });
    await time.pass(2000);
    expect(a.leads).toBe(false);
  });

  test("gets over a conflict and over a lease that was deleted", async () => {
    const [cluster, time] = [new FakeCluster(), new FakeTime()];
    const a = new Candidate(cluster, "a", time);
    await time.pass(0);
    let conflicts = 1;
    cluster.gate = (request) => {
      if (request.method === "PUT" && conflicts > 0) {
        conflicts -= 1;
        throw refusal(request, 409, "Conflict");
      }
    };
    await time.pass(4000);
    cluster.remove(LEASE);
    await time.pass(10_000);
    expect([a.leads, a.terms, a.log.of("warn"), spec(cluster)["holderIdentity"]]).toEqual([true, 1, [], "a"]);
  });

  test("that was stopped for a while knows before its timers do that it holds nothing any more", async () => {
    const [cluster, time] = [new FakeCluster(), new FakeTime()];
    const a = new Candidate(cluster, "a", time);
    await time.pass(5000);
    const { leadership } = a;
    expect(leadership?.holds()).toBe(true);
    time.sleep(11_000);
    expect([leadership?.signal.aborted, leadership?.holds()]).toEqual([false, false]);
    await time.pass(0);
    expect([leadership?.signal.aborted, leadership?.holds()]).toEqual([true, false]);
  });

  test("whose work fails gives up the term and passes the failure on", async () => {
    const [cluster, time] = [new FakeCluster(), new FakeTime()];
    const lease = { namespace: "sandbox-system", name: "driver" };
    const election = new LeaderElection({ client: cluster, lease, identity: "a", timing: time });
    const { signal } = new AbortController();
    const term = election.term(() => Promise.reject(new Error("broken")), { signal });
    await expect(term).rejects.toThrow("broken");
    await time.pass(0);
    expect(time.pending).toBe(0);
  });
});

describe("of two candidates", () => {
  test("who create the lease together one leads, and the other takes over once that one is gone", async () => {
    const [cluster, time] = [new FakeCluster(), new FakeTime()];
    const [a, b] = [new Candidate(cluster, "a", time), new Candidate(cluster, "b", time)];
    await time.pass(60_000);
    expect([a.leads, b.leads]).toEqual([true, false]);
    a.end();
    await time.pass(14_000);
    expect(b.leads).toBe(false);
    await time.pass(5000);
    expect([b.leads, spec(cluster)["leaseTransitions"]]).toEqual([true, 1]);
  });

  test.each([
    ["the same", 0, 1],
    ["an hour ahead", 3_600_000, 1],
    ["years behind", -1e11, 1],
    ["a fifth faster", 500, 1.2],
    ["a fifth slower", 500, 0.8],
  ])("never both lead through outages, with one clock %s", async (_, offset, rate) => {
    const [cluster, time] = [new FakeCluster(), new FakeTime()];
    const a = new Candidate(cluster, "a", time);
    const b = new Candidate(cluster, "b", new SkewedTime(time, offset, rate), {
      clock: () => NOON + offset + time.now(),
    });
    const cut = (identity: string) => (request: { readonly path: string; readonly body?: unknown }) => {
      // Who asks shows in what is written; reads are let through.
      const body = request.body as { readonly spec?: { readonly holderIdentity?: string } } | undefined;
      if (body?.spec?.holderIdentity === identity) {
        throw refusal(request, 503, "ServiceUnavailable");
      }
    };
    const led = new Set<string>();
    for (const who of ["a", "", "b", "", "a", "b", "", "a"]) {
      cluster.gate = cut(who);
      for (let passed = 0; passed < 40_000; passed += 250) {
        await time.pass(250);
        expect(a.leads && b.leads).toBe(false);
        for (const [name, candidate] of [
          ["a", a],
          ["b", b],
        ] as const) {
          if (candidate.leads) {
            led.add(name);
          }
        }
      }
    }
    expect([...led].toSorted()).toEqual(["a", "b"]);
  });
});

test.each([
  [{ identity: "" }, "identity must not be empty"],
  [{ leaseDurationMs: 15_500 }, "leaseDurationMs must be a positive number of whole seconds"],
  [{ leaseDurationMs: 10_000 }, "leaseDurationMs must be above renewDeadlineMs, and that above retryPeriodMs"],
  [{ retryPeriodMs: 0 }, "leaseDurationMs must be above renewDeadlineMs, and that above retryPeriodMs"],
])("options %j are refused", (more, message) => {
  const lease = { namespace: "x", name: "y" };
  expect(() => new LeaderElection({ client: new FakeCluster(), lease, identity: "a", ...more })).toThrow(
    new TypeError(message),
  );
});
