import * as fc from "fast-check";
import { expect, it } from "vitest";
import { KubeError, statusError } from "./errors.ts";
import type { KubeRequest, KubeStream } from "./kube-client.ts";
import { Reflector } from "./reflector.ts";
import { ManualTiming } from "./testing/manual-timing.ts";
import type { KubeObject } from "./watch-event.ts";

/** What happens to the server, one after the other. */
type Step =
  | { readonly do: "put" | "delete"; readonly name: string }
  /** Forgets all versions up to now. */
  | { readonly do: "compact" }
  /** The open watch breaks, maybe in the middle of a line. */
  | { readonly do: "break"; readonly clean: boolean; readonly cut: number }
  /** The reader is cut off and misses this, of which the server then forgets how it came to be. */
  | { readonly do: "outage"; readonly name: string; readonly gone: boolean }
  /** The next request fails. */
  | { readonly do: "fail"; readonly status: number }
  | { readonly do: "bookmark" }
  | { readonly do: "garble" }
  /** The reader gets some turns. */
  | { readonly do: "turn"; readonly count: number };

interface Change {
  readonly version: number;
  readonly line: Buffer;
}

/** An API server in memory, with a history that it can forget. */
class ModelServer {
  #version = 1;
  #forgotten = 0;
  #history: Change[] = [];
  readonly objects = new Map<string, KubeObject>();
  readonly #failures: number[] = [];
  #watch: { readonly chunks: (Buffer | Error | "end")[]; wake: () => void } | undefined;

  apply(step: Step): void {
    switch (step.do) {
      case "put":
        this.#change(step.name, this.objects.has(step.name) ? "MODIFIED" : "ADDED");
        break;
      case "delete":
        if (this.objects.has(step.name)) {
          this.#change(step.name, "DELETED");
        }
        break;
      case "compact":
        this.#forgotten = this.#version;
        this.#history = [];
        break;
      case "break":
        this.#push(
          this.#line("ADDED", { metadata: { name: "half", resourceVersion: "0" } }).subarray(0, step.cut),
          step.clean ? "end" : new KubeError("connection_lost", "reset"),
        );
        this.#watch = undefined;
        break;
      case "outage":
        this.apply({ do: "break", clean: false, cut: 0 });
        this.apply({ do: step.gone ? "delete" : "put", name: step.name });
        this.apply({ do: "compact" });
        break;
      case "fail":
        this.#failures.push(step.status);
        break;
      case "bookmark":
        this.#push(this.#line("BOOKMARK", { metadata: { resourceVersion: String(this.#version) } }));
        break;
      case "garble":
        this.#push(Buffer.from('{"type":"ADDED","obj\n'));
        break;
      case "turn":
        break;
    }
  }

  request(_request: KubeRequest): Promise<unknown> {
    const failed = this.#failed();
    const metadata = { resourceVersion: String(this.#version) };
    return failed === undefined
      ? Promise.resolve({ metadata, items: [...this.objects.values()] })
      : Promise.reject(failed);
  }

  stream({ query, signal }: KubeRequest): Promise<KubeStream> {
    const from = Number(query?.["resourceVersion"]);
    const failed =
      this.#failed() ?? (from < this.#forgotten ? statusError("watch", { reason: "Expired" }, 410) : undefined);
    if (failed !== undefined) {
      return Promise.reject(failed);
    }
    const missed = this.#history.filter(({ version }) => version > from).map(({ line }) => line);
    const watch = { chunks: missed as (Buffer | Error | "end")[], wake: (): void => undefined };
    this.#watch = watch;
    signal?.addEventListener("abort", () => {
      watch.chunks.push(new KubeError("aborted", "aborted"));
      watch.wake();
    });
    return Promise.resolve(read(watch));
  }

  #failed(): KubeError | undefined {
    const status = this.#failures.shift();
    return status === undefined ? undefined : statusError("scripted", {}, status);
  }

  #change(name: string, type: "ADDED" | "MODIFIED" | "DELETED"): void {
    this.#version += 1;
    const object = { metadata: { name, resourceVersion: String(this.#version) } };
    if (type === "DELETED") {
      this.objects.delete(name);
    } else {
      this.objects.set(name, object);
    }
    const line = this.#line(type, object);
    this.#history.push({ version: this.#version, line });
    // Every line comes in two pieces.
    this.#push(line.subarray(0, 11), line.subarray(11));
  }

  #line(type: string, object: object): Buffer {
    return Buffer.from(`${JSON.stringify({ type, object })}\n`);
  }

  #push(...chunks: (Buffer | Error | "end")[]): void {
    this.#watch?.chunks.push(...chunks);
    this.#watch?.wake();
  }
}

async function* read(watch: { readonly chunks: (Buffer | Error | "end")[]; wake: () => void }): AsyncGenerator<Buffer> {
  for (;;) {
    const chunk = watch.chunks.shift();
    if (chunk === "end") {
      return;
    }
    if (chunk instanceof Error) {
      throw chunk;
    }
    if (chunk !== undefined) {
      yield chunk;
    } else {
      const { promise, resolve } = Promise.withResolvers<void>();
      watch.wake = resolve;
      await promise;
    }
  }
}

const name = fc.constantFrom("a", "b", "c", "d");
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("put" as const), name }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("delete" as const), name }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("compact" as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("break" as const), clean: fc.boolean(), cut: fc.nat(20) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("outage" as const), name, gone: fc.boolean() }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("fail" as const), status: fc.constantFrom(401, 404, 410, 429, 500) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("bookmark" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("garble" as const) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("turn" as const), count: fc.integer({ min: 1, max: 4 }) }) },
);

function same(a: ReadonlyMap<string, unknown>, b: ReadonlyMap<string, unknown>): boolean {
  return a.size === b.size && [...a].every(([key, value]) => b.get(key) === value);
}

it("whatever happens to the server, what is told adds up to what the server has", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const server = new ModelServer();
      const known = new Map<string, string | undefined>();
      const stop = new AbortController();
      const reflector = new Reflector({
        client: server,
        resource: { group: "", version: "v1", plural: "things" },
        timing: new ManualTiming(),
        onChanges({ changed, removed }) {
          for (const { metadata } of changed) {
            // Nothing is told twice.
            expect(known.get(metadata.name)).not.toBe(metadata.resourceVersion);
            known.set(metadata.name, metadata.resourceVersion);
          }
          for (const key of removed) {
            expect(known.delete(key)).toBe(true);
          }
        },
      });
      const running = reflector.run(stop.signal);
      for (const one of steps) {
        server.apply(one);
        for (let turn = 0; one.do === "turn" && turn < one.count; turn += 1) {
          await new Promise(setImmediate);
        }
      }
      const wanted = new Map([...server.objects].map(([key, { metadata }]) => [key, metadata.resourceVersion]));
      for (let turn = 0; turn < 200; turn += 1) {
        await new Promise(setImmediate);
        if (reflector.status.watching && same(known, wanted)) {
          break;
        }
      }
      expect(known).toEqual(wanted);
      expect(reflector.status).toMatchObject({ hasSynced: true, watching: true, lastError: undefined });
      stop.abort();
      await running;
    }),
    { numRuns: 150 },
  );
});
