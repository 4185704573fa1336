import { randomUUID } from "node:crypto";
import { E2bError } from "../errors.ts";
import { createBuildLog } from "./build-log.ts";
import type { BuildLog } from "./build-log.ts";
import type { AskedSize } from "./build-size.ts";
import { runBuild } from "./run-build.ts";
import type { BuildSite } from "./build-site.ts";
import type { BuildFailure, BuildPlan } from "./run-build.ts";
import { TemplateDeleted } from "./template-deleted.ts";

export type BuildStatus = "waiting" | "building" | "ready" | "error";

/** One build, from its request until an hour after its end. */
export interface BuildRecord {
  readonly buildId: string;
  readonly namespace: string;
  /** Bare name of the template. */
  readonly template: string;
  readonly tags: readonly string[];
  readonly asked: AskedSize;
  readonly log: BuildLog;
  readonly status: BuildStatus;
  readonly failure: BuildFailure | undefined;
}

/** The builds of this process. They are remembered here alone: another replica knows nothing of them. */
export interface Builds {
  request(wanted: Pick<BuildRecord, "namespace" | "template" | "tags" | "asked">): BuildRecord;
  /** Throws `not_found`. */
  find(namespace: string, template: string, buildId: string): BuildRecord;
  /** Starts one that waits, in the background; what has begun goes on. Throws `busy` when too many run. */
  start(record: BuildRecord, plan: BuildPlan): void;
  /**
   * Ends the builds of a template that wait or run, since it is being deleted, and waits until their sandboxes are
   * released. Resolves with how many there were.
   */
  cancel(namespace: string, template: string): Promise<number>;
  /** Ends the builds that run and waits until their sandboxes are released. */
  end(): Promise<void>;
}

/** Options of {@link createBuilds}. */
export interface BuildsOptions extends BuildSite {
  readonly parallel: number;
  readonly logLines: number;
}

/** How long a build is remembered that has ended, or that nobody started. */
const KEEP_MS = 3_600_000;
/** A namespace that asks for more loses its oldest ones. */
const MAX_RECORDS = 1000;

interface MutableRecord extends BuildRecord {
  status: BuildStatus;
  failure: BuildFailure | undefined;
  /** When it was asked for, or ended. Milliseconds since 1970. */
  sinceMs: number;
}

export function createBuilds(options: BuildsOptions): Builds {
  const { parallel, logLines, timeoutSeconds } = options;
  const { now } = options.service.settings;
  const records = new Map<string, MutableRecord>();
  const running = new Map<MutableRecord, { readonly stop: AbortController; readonly done: Promise<void> }>();

  const forgetOld = (namespace: string): void => {
    const before = now() - KEEP_MS;
    let own = 0;
    // Newest first, so that the oldest ones are over the bound.
    for (const record of [...records.values()].toReversed()) {
      own += record.namespace === namespace ? 1 : 0;
      const surplus = record.namespace === namespace && own >= MAX_RECORDS;
      if (record.status !== "building" && (surplus || record.sinceMs < before)) {
        records.delete(record.buildId);
      }
    }
  };

  const run = async (record: MutableRecord, plan: BuildPlan, stop: AbortController): Promise<void> => {
    const minutes = Math.round(timeoutSeconds / 6) / 10;
    const late = setTimeout(() => {
      stop.abort(new Error(`the build took longer than ${minutes} minutes (--e2b-build-timeout)`));
    }, timeoutSeconds * 1000);
    try {
      record.failure = await runBuild(options, plan, record.log, stop.signal);
    } finally {
      clearTimeout(late);
      running.delete(record);
      record.sinceMs = now();
      record.status = record.failure === undefined ? "ready" : "error";
    }
  };

  return {
    request({ namespace, template, tags, asked }) {
      forgetOld(namespace);
      const record: MutableRecord = {
        buildId: randomUUID(),
        namespace,
        template,
        tags,
        asked,
        log: createBuildLog(logLines, now),
        status: "waiting",
        failure: undefined,
        sinceMs: now(),
      };
      records.set(record.buildId, record);
      return record;
    },
    find(namespace, template, buildId) {
      const record = records.get(buildId);
      const old = record !== undefined && record.status !== "building" && record.sinceMs < now() - KEEP_MS;
      if (record === undefined || old || record.namespace !== namespace || record.template !== template) {
        throw new E2bError("not_found", "build not found on this replica");
      }
      return record;
    },
    start(asked, plan) {
      const record = records.get(asked.buildId);
      if (record === undefined || record.status !== "waiting") {
        return;
      }
      if (running.size >= parallel) {
        throw new E2bError("busy", `${parallel} builds are running, which is all this deployment does at once`);
      }
      record.status = "building";
      const stop = new AbortController();
      running.set(record, { stop, done: run(record, plan, stop) });
    },
    async cancel(namespace, template) {
      const reason = new TemplateDeleted();
      const ended: Promise<void>[] = [];
      for (const record of records.values()) {
        if (record.namespace !== namespace || record.template !== template) {
          continue;
        }
        const current = running.get(record);
        if (current !== undefined) {
          current.stop.abort(reason);
          ended.push(current.done);
        } else if (record.status === "waiting") {
          record.log.add("error", "base", reason.message);
          record.failure = { step: "base", message: reason.message };
          record.status = "error";
          record.sinceMs = now();
          ended.push(Promise.resolve());
        }
      }
      await Promise.all(ended);
      return ended.length;
    },
    async end() {
      const all = [...running.values()];
      for (const { stop } of all) {
        stop.abort(new Error("the build was ended: the server is shutting down"));
      }
      await Promise.all(all.map(({ done }) => done));
    },
  };
}
