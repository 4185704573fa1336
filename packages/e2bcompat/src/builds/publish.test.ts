import { afterEach, describe, expect, it, vi } from "vitest";
import { createStore } from "@org/scale";
import type { Promotion, SandboxStore } from "@org/scale";
import { ScriptedNodes, StaticInventorySource } from "@org/scale/testing";
import { resolveOptions } from "../options.ts";
import { createTemplateWrites } from "../template-writes.ts";
import { publish } from "./publish.ts";
import { TemplateDeleted } from "./template-deleted.ts";

const FINISHED = { node: "10.0.0.2:27777", sandboxId: "sb_1", stamped: "e2b/ns1/mine", tags: [] };
const PROMOTION: Promotion = {
  key: { template: "e2b/ns1/mine", net: "none", size: "small" },
  contentDigest: "sha256:late",
};

describe("a node that does not come to an end with a promotion", () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  /** Publishes over a node that promotes when it is told to, and gives what it was asked to delete. */
  function publishing(): {
    readonly stop: AbortController;
    readonly done: Promise<boolean>;
    readonly promoted: PromiseWithResolvers<Promotion>;
    readonly deleted: string[];
  } {
    vi.useFakeTimers();
    const promoted = Promise.withResolvers<Promotion>();
    const deleted: string[] = [];
    const inventory = new StaticInventorySource();
    const whole = createStore(inventory, { clients: new ScriptedNodes() });
    const store: SandboxStore = Object.create(whole, {
      promote: { value: () => promoted.promise },
      deleteTemplate: { value: async (_node: string, _key: object, digest: string) => void deleted.push(digest) },
    }) as SandboxStore;
    const settings = resolveOptions({ inventory, domain: "sandbox.example.com", allowAnonymous: true });
    const stop = new AbortController();
    const parts = { store, settings, templateWrites: createTemplateWrites(inventory) };
    const done = publish(parts, FINISHED, stop.signal);
    done.catch(() => undefined);
    return { stop, done, promoted, deleted };
  }

  it("is given up five seconds after the build's end", async () => {
    const { stop, done, promoted, deleted } = publishing();
    const late = new Error("the build took longer");
    stop.abort(late);
    await vi.advanceTimersByTimeAsync(4999);
    expect(await Promise.race([done, Promise.resolve("waiting")])).toBe("waiting");
    await vi.advanceTimersByTimeAsync(1);
    await expect(done).rejects.toBe(late);
    promoted.resolve(PROMOTION);
    await vi.advanceTimersByTimeAsync(0);
    expect(deleted).toStrictEqual([]);
  });

  it("loses what it promotes late when the template was deleted", async () => {
    const { stop, done, promoted, deleted } = publishing();
    stop.abort(new TemplateDeleted());
    await vi.advanceTimersByTimeAsync(5000);
    await expect(done).rejects.toBeInstanceOf(TemplateDeleted);
    promoted.resolve(PROMOTION);
    await vi.advanceTimersByTimeAsync(0);
    expect(deleted).toStrictEqual(["sha256:late"]);
  });
});
