import { EnvdClientError } from "@org/envd-client";
import { publicSandboxId } from "@org/sandbox-address";
import { isScaleError } from "@org/scale";
import type { SandboxRecord } from "@org/scale";
import { json } from "./answer.ts";
import type { Answer } from "./answer.ts";
import type { Call } from "./call.ts";
import { daemonToken, dialDaemon } from "./daemon.ts";
import { E2bError } from "./errors.ts";
import { readVariables } from "./guest.ts";
import type { KeyedRequest } from "./idempotency-key.ts";
import type { KeyedSandbox } from "./keyed-sandboxes.ts";
import { REPEAT_MS } from "./once.ts";
import type { MadeSandbox, OnceRequest } from "./once.ts";
import { sandboxReply } from "./present.ts";
import { accessTokenOf } from "./service.ts";
import type { Service } from "./service.ts";

/** How long another process may take to prepare a guest that it has claimed. */
const PREPARING_MS = 20_000;

/** The record of a sandbox; `undefined` when it is gone. */
async function recordOf(service: Service, call: Call, { node, id }: MadeSandbox): Promise<SandboxRecord | undefined> {
  try {
    return await service.store.read(node, id, { signal: call.signal });
  } catch (error) {
    if (isScaleError(error, "not_found") && error.unanswered === 0) {
      return undefined;
    }
    throw error;
  }
}

/** The answer of its creation, as its node tells it now: nothing secret is kept for that. */
async function repeat(service: Service, call: Call, made: MadeSandbox): Promise<Answer | undefined> {
  const record = await recordOf(service, call, made);
  if (record === undefined) {
    return undefined;
  }
  const { settings } = service;
  const { node, id } = made;
  call.sandboxId = publicSandboxId(id);
  const template = record.sandbox.template ?? made.template;
  const accessToken = accessTokenOf(settings, record.token);
  return json(201, sandboxReply(settings, { node, id, namespace: call.namespace, template, accessToken }));
}

function isRefusal(error: unknown): boolean {
  return error instanceof EnvdClientError && error.code === "refused" && (error.status === 401 || error.status === 403);
}

/** Whether the guest's daemon believes the sandbox's token and nobody without one. */
async function isPrepared(service: Service, call: Call, made: MadeSandbox, record: SandboxRecord): Promise<boolean> {
  const { settings, store } = service;
  if (settings.envdSecret === undefined || record.paused || record.archived) {
    return true;
  }
  const believes = async (token: string | undefined): Promise<boolean> => {
    try {
      await readVariables(dialDaemon(store, made.node, made.id), token, call.signal);
      return true;
    } catch (error) {
      if (isRefusal(error)) {
        return false;
      }
      throw new E2bError("unavailable", "the sandbox of this Idempotency-Key does not answer, retry later", {
        cause: error,
      });
    }
  };
  return !(await believes(undefined)) && believes(daemonToken(settings, record.token));
}

/**
 * The sandbox that another process made for this key: a replica, or this one before it was started anew. One that its
 * process left half made is ended.
 */
async function adopt(
  service: Service,
  call: Call,
  fingerprint: string,
  found: readonly KeyedSandbox[],
): Promise<MadeSandbox | undefined> {
  for (const candidate of found) {
    const record = await recordOf(service, call, candidate);
    if (record === undefined) {
      continue;
    }
    const now = record.answeredAt?.getTime() ?? service.settings.now();
    const ageMs = now - (record.sandbox.claimedAt?.getTime() ?? now - REPEAT_MS);
    if (ageMs > REPEAT_MS) {
      // Its key is free again, as it is in the process that made it.
      continue;
    }
    if (candidate.fingerprint !== fingerprint) {
      throw new E2bError("conflict", "this Idempotency-Key was used for another request: want a new key");
    }
    if (await isPrepared(service, call, candidate, record)) {
      return candidate;
    }
    if (ageMs < PREPARING_MS) {
      throw new E2bError("unavailable", "a sandbox of this Idempotency-Key is being made, retry later");
    }
    await service.abandon(candidate.node, candidate.id);
  }
  return undefined;
}

/** A create that happens once, however often it is sent. */
export function createOnce(
  service: Service,
  call: Call,
  { prefix, fingerprint }: KeyedRequest,
  make: OnceRequest["make"],
): Promise<Answer> {
  const { namespace, signal } = call;
  return service.once.run({
    key: `${namespace}/${prefix}`,
    fingerprint,
    signal,
    make,
    repeat: (made) => repeat(service, call, made),
    adopt: () => adopt(service, call, fingerprint, service.keyed.find(namespace, prefix)),
    abandon: ({ node, id }) => void service.abandon(node, id),
  });
}
