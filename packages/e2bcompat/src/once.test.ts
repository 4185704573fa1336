import { getEventListeners } from "node:events";
import { ScaleError } from "@org/scale";
import { describe, expect, it } from "vitest";
import { json } from "./answer.ts";
import type { Answer } from "./answer.ts";
import { Once } from "./once.ts";
import type { MadeSandbox, OnceRequest } from "./once.ts";

const DAY_MS = 86_400_000;

function harness(maxRecords?: number) {
  const clock = { ms: 0 };
  const once = new Once({ monotonicMs: () => clock.ms, maxRecords });
  const made: string[] = [];
  const ended: string[] = [];
  const live = new Set<string>();
  const request = (change: Partial<OnceRequest> = {}): OnceRequest => ({
    key: "ns/one",
    fingerprint: "f",
    signal: new AbortController().signal,
    make: () => {
      const id = `sb_${made.length}`;
      made.push(id);
      live.add(id);
      return Promise.resolve({ answer: json(201, { id }), made: { node: "n", id, template: "t" } });
    },
    repeat: ({ id }) => Promise.resolve(live.has(id) ? json(201, { id }) : undefined),
    adopt: () => Promise.resolve(undefined),
    abandon: ({ id }: MadeSandbox) => {
      live.delete(id);
      ended.push(id);
    },
    ...change,
  });
  return { clock, once, made, ended, live, request };
}

describe("an answer that nobody could be given", () => {
  it("ends the sandbox, and the next request makes another", async () => {
    const { once, made, ended, request } = harness();
    (await once.run(request())).undelivered?.();
    expect(ended).toStrictEqual(["sb_0"]);
    await once.run(request());
    expect(made).toStrictEqual(["sb_0", "sb_1"]);
  });

  it("ends the sandbox for everybody from then on, however slowly its node does it", async () => {
    const { once, made, ended, request } = harness();
    const abandon = ({ id }: MadeSandbox): void => void ended.push(id);
    (await once.run(request({ abandon }))).undelivered?.();
    const next = await once.run(request({ abandon }));
    expect([next.body, next.headers, ended, made]).toStrictEqual([
      '{"id":"sb_1"}',
      undefined,
      ["sb_0"],
      ["sb_0", "sb_1"],
    ]);
  });

  it.each(["the first", "the second"])(
    "leaves the sandbox to whoever else was told of it (%s is lost)",
    async (lost) => {
      const { once, made, ended, request } = harness();
      const answers = [await once.run(request()), await once.run(request())];
      answers[lost === "the first" ? 0 : 1]?.undelivered?.();
      expect(ended).toStrictEqual([]);
      await once.run(request());
      expect(made).toHaveLength(1);
    },
  );

  it("ends the sandbox when those who waited could not be told either", async () => {
    const { once, ended, request } = harness();
    const answers = await Promise.all(Array.from({ length: 5 }, () => once.run(request())));
    answers.slice(1).forEach(({ undelivered }) => undelivered?.());
    expect(ended).toStrictEqual([]);
    answers[0]?.undelivered?.();
    expect(ended).toStrictEqual(["sb_0"]);
  });

  it("never ends a sandbox that another process made", async () => {
    const { once, made, ended, live, request } = harness();
    live.add("sb_other");
    const adopt = () => Promise.resolve({ node: "n", id: "sb_other", template: "t" });
    const answer = await once.run(request({ adopt }));
    expect(answer.body).toContain("sb_other");
    answer.undelivered?.();
    expect([made, ended]).toStrictEqual([[], []]);
  });
});

describe("a first client that hangs up", () => {
  it("leaves the work to those who wait, one of them makes it anew", async () => {
    const { once, made, request } = harness();
    const gate = Promise.withResolvers<never>();
    const first = once.run(request({ make: () => gate.promise })).catch((error: unknown) => error);
    const waiting = Array.from({ length: 10 }, () => once.run(request()));
    gate.reject(new ScaleError("aborted", "left"));
    const answers = await Promise.all(waiting);
    expect(await first).toMatchObject({ code: "aborted" });
    expect(made).toStrictEqual(["sb_0"]);
    expect(new Set(answers.map(({ body }) => body)).size).toBe(1);
  });

  it("leaves the work to those who wait also when what it broke off failed in another way", async () => {
    const { once, made, request } = harness();
    const gate = Promise.withResolvers<never>();
    const client = new AbortController();
    const first = once.run(request({ make: () => gate.promise, signal: client.signal })).catch(() => "failed");
    const second = once.run(request());
    client.abort();
    gate.reject(new Error("the daemon did not answer in time"));
    expect([await first, (await second).status, made]).toStrictEqual(["failed", 201, ["sb_0"]]);
  });

  it("is not answered, and nobody who waits is told of what was ended for that", async () => {
    const { once, live, request } = harness();
    const gate = Promise.withResolvers<void>();
    const made = { node: "n", id: "sb_first", template: "t" };
    const make = async () => {
      await gate.promise;
      live.add(made.id);
      return { answer: json(201, { id: made.id }), made };
    };
    const first = once.run(request({ make })).then(({ undelivered }) => undelivered?.());
    const others = [once.run(request()), once.run(request())];
    gate.resolve();
    await first;
    for (const { body } of await Promise.all(others)) {
      expect(live).toContain(JSON.parse(body ?? "").id);
    }
  });

  it("does not keep those from leaving who wait", async () => {
    const { once, request } = harness();
    const gate = Promise.withResolvers<never>();
    const first = once.run(request({ make: () => gate.promise })).catch(() => undefined);
    const client = new AbortController();
    const second = once.run(request({ signal: client.signal }));
    client.abort();
    await expect(second).rejects.toMatchObject({ code: "aborted" });
    await expect(once.run(request({ signal: client.signal }))).rejects.toMatchObject({ code: "aborted" });
    gate.reject(new Error("end"));
    await first;
  });
});

describe("memory", () => {
  it("is bounded, and what still runs is never forgotten", async () => {
    const { once, made, request } = harness(10);
    const gate = Promise.withResolvers<Awaited<ReturnType<OnceRequest["make"]>>>();
    const first = once.run(request({ make: () => gate.promise }));
    for (let index = 0; index < 100; index += 1) {
      await once.run(request({ key: `ns/${index}` }));
    }
    expect(once.size).toBe(10);
    const second = once.run(request());
    gate.resolve({ answer: json(201, "first"), made: { node: "n", id: "sb_first", template: "t" } });
    const answers: readonly Answer[] = await Promise.all([first, second]);
    expect(answers.map(({ body }) => body)).toStrictEqual(['"first"', '"first"']);
    expect(made).toHaveLength(100);
  });

  it("gives up the key that was used first, of those that were used anew the last use counts", async () => {
    const { once, made, request } = harness(2);
    const fails = () => Promise.reject(new Error("no"));
    await expect(once.run(request({ key: "a", make: fails }))).rejects.toThrow("no");
    await once.run(request({ key: "b" }));
    await once.run(request({ key: "a" }));
    await once.run(request({ key: "c" }));
    expect(made).toHaveLength(3);
    await once.run(request({ key: "a" }));
    expect(made).toHaveLength(3);
    await once.run(request({ key: "b" }));
    expect(made).toHaveLength(4);
  });

  it("of those who wait ends with their wait", async () => {
    const { once, request } = harness();
    const client = new AbortController();
    await Promise.all([once.run(request()), once.run(request({ signal: client.signal }))]);
    expect(getEventListeners(client.signal, "abort")).toHaveLength(0);
  });

  it("of a key lasts as long as its first request runs, be it more than a day", async () => {
    const { clock, once, made, request } = harness();
    const gate = Promise.withResolvers<Awaited<ReturnType<OnceRequest["make"]>>>();
    const first = once.run(request({ make: () => gate.promise }));
    clock.ms += DAY_MS + 1;
    const second = once.run(request());
    gate.resolve({ answer: json(201, "first"), made: { node: "n", id: "sb_first", template: "t" } });
    expect([(await first).body, (await second).body, made]).toStrictEqual(['"first"', '"first"', []]);
  });

  it.each([
    [DAY_MS, 1],
    [DAY_MS + 1, 2],
  ])("of a key lasts a day (%i ms, then %i sandboxes)", async (laterMs, sandboxes) => {
    const { clock, once, made, request } = harness();
    await once.run(request());
    clock.ms += laterMs;
    await once.run(request());
    expect(made).toHaveLength(sandboxes);
  });
});
