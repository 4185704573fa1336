import { setTimeout as sleep } from "node:timers/promises";
import { EnvdClientError } from "@org/envd-client";
import { isScaleError } from "@org/scale";
import type { Assignment, PoolKey } from "@org/scale";
import { dialBuildDaemon } from "../daemon.ts";
import { E2bError } from "../errors.ts";
import { RELAY_ENVIRONMENT } from "../guest.ts";
import { createBuildGuest } from "./build-guest.ts";
import type { BuildGuest, OnLine, RunAs } from "./build-guest.ts";
import { keepLease } from "./build-lease.ts";
import type { BuildLease } from "./build-lease.ts";
import type { BuildLog } from "./build-log.ts";
import type { BuildSite } from "./build-site.ts";
import { describeStep } from "./build-steps.ts";
import type { BuildStep } from "./build-steps.ts";
import { publish } from "./publish.ts";
import { FIRST_STATE, runStep } from "./run-steps.ts";
import { startServing } from "./start-command.ts";

/** What is to be built. */
export interface BuildPlan {
  readonly namespace: string;
  /** Bare name of the template. */
  readonly template: string;
  /** Name on nodes. */
  readonly stamped: string;
  readonly tags: readonly string[];
  readonly pool: PoolKey;
  readonly steps: readonly BuildStep[];
  readonly startCommand: string | undefined;
  readonly readyCommand: string | undefined;
}

/** Why and where a build failed. */
export interface BuildFailure {
  /** `base`, the number of a step, or `finalize`: clients map it to a line of the template's source. */
  readonly step: string;
  readonly message: string;
}

/** One build while it runs. */
interface Run extends BuildSite {
  readonly plan: BuildPlan;
  readonly log: BuildLog;
  readonly signal: AbortSignal;
}

/** Lease of a build's sandbox, in seconds. It is renewed until the build ends. */
const LEASE_SECONDS = 60;
/** While a node copies a sandbox it may answer nothing else, for minutes. */
const PUBLISH_LEASE_SECONDS = 300;

const GONE = "the sandbox of the build does not answer: it has ended, or its node cannot be reached";

/** A ready command that only waits says nothing of the program that it waits for. */
const MERE_WAIT = /^\s*sleep\s+\d+(?:\.\d+)?\s*$/;

/**
 * Builds a template in a sandbox of its base and resolves with what went wrong, if anything. The sandbox is released in
 * every case; should its node not answer then, or this process die, its lease ends it, which is short and renewed while
 * the build runs. The signal ends a build; its reason is an `Error` with the message that clients see.
 */
export async function runBuild(
  site: BuildSite,
  plan: BuildPlan,
  log: BuildLog,
  signal: AbortSignal,
): Promise<BuildFailure | undefined> {
  const stop = new AbortController();
  const onAbort = (): void => stop.abort(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  const run: Run = { ...site, plan, log, signal: stop.signal };
  const { logger } = site.service.settings;
  const { template, namespace } = plan;
  let at = "base";
  let assignment: Assignment | undefined;
  let lease: BuildLease | undefined;
  try {
    log.add("info", at, `FROM ${plan.pool.template}`);
    assignment = await claim(run);
    lease = leaseOf(run, assignment, stop);
    const guest = guestOf(run, assignment);
    const environment = assignment.netRoute === "relay" ? RELAY_ENVIRONMENT : {};
    let state: RunAs = { ...FIRST_STATE, environment };
    for (const [index, step] of plan.steps.entries()) {
      at = String(index + 1);
      log.add("info", at, `[${at}/${plan.steps.length}] ${describeStep(step)}`);
      state = await runStep(stepContext(run, guest, at), step, state);
    }
    at = "finalize";
    await finalize(run, guest, assignment, state, lease);
    logger.info({ template, namespace, node: assignment.node }, "template built");
    return undefined;
  } catch (error) {
    const why = stop.signal.aborted ? wordsOf(stop.signal.reason) : describeFailure(error);
    const step = plan.steps[Number(at) - 1];
    const message = step === undefined ? why : `step ${at} (${step.kind}) failed: ${why}`;
    logger.info({ template, namespace, node: assignment?.node, step: at, err: error }, "template build failed");
    log.add("error", at, message);
    return { step: at, message };
  } finally {
    signal.removeEventListener("abort", onAbort);
    lease?.stop();
    if (assignment !== undefined) {
      await site.service.abandon(assignment.node, assignment.id);
    }
  }
}

/** How long a build waits for a pool to have a warm sandbox again. */
const CLAIM_WAIT_MS = 30_000;
const CLAIM_PAUSE_MS = 500;

/** Claims the base. A pool that was emptied a moment ago is waited for, since nobody waits for the build's first second. */
async function claim(run: Run): Promise<Assignment> {
  const { service, plan, signal } = run;
  const until = performance.now() + CLAIM_WAIT_MS;
  for (;;) {
    try {
      const options = { ttlSeconds: leaseSeconds(run), uniqueName: true, signal };
      return await service.store.claim(plan.namespace, service.newName(), plan.pool, options);
    } catch (error) {
      if (!isScaleError(error, "no_warm_capacity")) {
        throw error;
      }
      if (!isPooled(run) || performance.now() > until) {
        throw noWarmBase(plan.pool, error);
      }
      await sleep(CLAIM_PAUSE_MS, undefined, { signal });
    }
  }
}

function leaseSeconds({ timeoutSeconds }: Run): number {
  return Math.min(LEASE_SECONDS, timeoutSeconds);
}

/** Ends the build when its sandbox is gone: a node that vanished leaves connections that nothing comes over any more. */
function leaseOf(run: Run, { node, id }: Assignment, stop: AbortController): BuildLease {
  return keepLease({
    seconds: leaseSeconds(run),
    renew: async (ttlSeconds) => void (await run.service.store.renew(node, id, { ttlSeconds })),
    onLost: () => stop.abort(new Error(GONE)),
  });
}

/** Whether some node means to keep sandboxes of the base warm. */
function isPooled({ service, plan: { pool } }: Run): boolean {
  return service.settings.inventory
    .nodeCapacities()
    .some(({ pools }) =>
      pools.some(
        ({ template, net, size, target }) =>
          target > 0 && template === pool.template && (net || "none") === pool.net && (size || "small") === pool.size,
      ),
    );
}

function noWarmBase({ template, net, size }: PoolKey, cause: unknown): E2bError {
  return new E2bError(
    "unavailable",
    `no warm sandbox of ${template} (${net}, ${size}); a pool must serve the build's image and size`,
    { cause },
  );
}

/** The guest, over the sandbox's own relay, which keeps it awake. */
function guestOf({ service, signal }: Run, { node, id, token }: Assignment): BuildGuest {
  return createBuildGuest(dialBuildDaemon(service.store, node, id, token), signal, service.settings.now);
}

function stepContext(run: Run, guest: BuildGuest, at: string): Parameters<typeof runStep>[0] {
  const { plan, uploads, signal } = run;
  return {
    guest,
    onLine: lineTo(run, at),
    openUpload: async (hash) => {
      const key = { namespace: plan.namespace, template: plan.template, hash };
      const content = await uploads?.open(key, { signal });
      if (content === undefined) {
        throw new E2bError("guest_failed", "the files were not uploaded");
      }
      return content;
    },
  };
}

function lineTo({ log }: Run, at: string): OnLine {
  return (level, line) => log.add(level, at, line);
}

async function finalize(
  run: Run,
  guest: BuildGuest,
  { node, id }: Assignment,
  state: RunAs,
  lease: BuildLease,
): Promise<void> {
  const { service, plan, log, signal } = run;
  const { startCommand, readyCommand } = plan;
  const at = "finalize";
  const { user, workdir, environment } = state;
  await guest.init({ defaultUser: user, defaultWorkdir: workdir, envVars: environment });
  await startServing({ guest, state, startCommand, readyCommand, onLine: lineTo(run, at), signal });
  await guest.putBoot({
    user,
    workdir,
    environment,
    startCommand,
    readyCommand: readyCommand === undefined || MERE_WAIT.test(readyCommand) ? undefined : readyCommand,
  });
  log.add("info", at, "Publishing the template");
  await lease.lengthen(PUBLISH_LEASE_SECONDS);
  signal.throwIfAborted();
  const { stamped, tags } = plan;
  const newest = await publish(service, { node, sandboxId: id, stamped, tags }, signal);
  log.add(newest ? "info" : "warn", at, newest ? "Done" : "Done, but a newer build of this template has replaced it");
}

function wordsOf(reason: unknown): string {
  return reason instanceof Error ? reason.message : "the build was ended";
}

/** What a client is told of a failure. Nodes are not named, and nothing of a foreign error is shown. */
function describeFailure(error: unknown): string {
  if (error instanceof E2bError) {
    return error.message;
  }
  if (error instanceof EnvdClientError) {
    const refused = error.code === "refused" ? error.guestMessage : undefined;
    return refused === undefined ? GONE : `the sandbox refused: ${refused}`;
  }
  if (isScaleError(error)) {
    const refused = error.status !== undefined && error.status >= 400 && error.status < 500;
    const words = refused && error.status !== 401 && error.status !== 403 ? error.nodeMessage : undefined;
    return words === undefined ? "the node of the build failed" : `the node refused: ${words}`;
  }
  return "internal error";
}
