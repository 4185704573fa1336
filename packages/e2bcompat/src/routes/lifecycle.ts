import { isScaleError } from "@org/scale";
import type { Sandbox, SandboxRecord } from "@org/scale";
import { empty, json } from "../answer.ts";
import type { Answer } from "../answer.ts";
import type { Call } from "../call.ts";
import { E2bError } from "../errors.ts";
import { sandboxReply } from "../present.ts";
import { accessTokenOf, findSandbox } from "../service.ts";
import type { Service } from "../service.ts";
import {
  connectBody,
  pauseBody,
  readBody,
  readOptionalBody,
  refreshBody,
  resumeBody,
  setTimeoutBody,
} from "../wire/requests.ts";

// Verbs that change a sandbox are finished even when the client hangs up: they get no signal.

function refuseWithoutMemory(memory: boolean | null | undefined): void {
  if (memory === false) {
    throw new E2bError("bad_request", "memory: false is not supported: a sandbox pauses with its memory");
  }
}

/** `DELETE /sandboxes/{sandboxID}` */
export async function remove(service: Service, call: Call, asked: string): Promise<Answer> {
  const { node, id } = await findSandbox(service, call, asked);
  await service.store.release(node, id);
  return empty(204);
}

/** `POST /sandboxes/{sandboxID}/timeout`: the lease ends that many seconds from now, also earlier than before. */
export async function setLease(service: Service, call: Call, asked: string): Promise<Answer> {
  const { timeout } = await readBody(call, setTimeoutBody);
  const { node, id } = await findSandbox(service, call, asked);
  await service.store.renew(node, id, { ttlSeconds: timeout });
  return empty(204);
}

/** `POST /sandboxes/{sandboxID}/refreshes` */
export async function refresh(service: Service, call: Call, asked: string): Promise<Answer> {
  const { duration } = await readOptionalBody(call, refreshBody);
  const { node, id } = await findSandbox(service, call, asked);
  // Zero counts as absent here, other than in a timeout.
  await service.store.renew(node, id, { ttlSeconds: duration || service.settings.defaultTimeoutSeconds });
  return empty(204);
}

/** `POST /sandboxes/{sandboxID}/pause` */
export async function pause(service: Service, call: Call, asked: string): Promise<Answer> {
  const { memory } = await readOptionalBody(call, pauseBody);
  refuseWithoutMemory(memory);
  const sandbox = await findSandbox(service, call, asked);
  const { node, id } = sandbox;
  let { paused } = sandbox;
  try {
    const record = await service.store.read(node, id, { signal: call.signal });
    paused = record.paused || record.archived;
  } catch (error) {
    // Only a node that cannot be asked leaves the decision to inventory; one that says "gone" is right.
    if (!isScaleError(error, "node_failed")) {
      throw error;
    }
  }
  if (paused) {
    throw new E2bError("conflict", "the sandbox is already paused");
  }
  try {
    await service.store.pause(node, id);
  } catch (error) {
    // Clients read 409 as "already paused" and go on. A node pauses a paused sandbox again without complaint, so its
    // conflict means that this one cannot be paused.
    if (isScaleError(error, "node_refused") && error.status === 409) {
      throw new E2bError("bad_request", `this sandbox cannot be paused: ${error.nodeMessage ?? "its node refuses"}`);
    }
    throw error;
  }
  return empty(204);
}

interface Lease {
  readonly timeout: number;
  /** Set when the action at the end of the lease is to change as well. */
  readonly onExpire?: "archive" | "destroy" | undefined;
}

/** Never shortens a lease. What is left of it is judged by the clock of the node that granted it. */
async function extend(service: Service, at: Sandbox, record: SandboxRecord, lease: Lease): Promise<void> {
  const { node, id } = at;
  const deadline = record.deadline?.getTime() ?? Number.NaN;
  const now = record.answeredAt?.getTime() ?? service.settings.now();
  const remaining = Number.isNaN(deadline) ? 0 : Math.max(0, (deadline - now) / 1000);
  if (lease.onExpire !== undefined) {
    const ttlSeconds = Math.max(lease.timeout, Math.ceil(remaining));
    await service.store.renew(node, id, { ttlSeconds, onExpire: lease.onExpire });
  } else if (lease.timeout > remaining) {
    await service.store.renew(node, id, { ttlSeconds: lease.timeout });
  }
}

async function wakeAndExtend(
  service: Service,
  call: Call,
  asked: string,
  lease: Lease,
  refuseRunning: boolean,
): Promise<Answer> {
  const { settings, store } = service;
  const sandbox = await findSandbox(service, call, asked);
  const { node, id } = sandbox;
  let record = await store.read(node, id, { signal: call.signal });
  const sleeping = record.paused || record.archived;
  if (!sleeping && refuseRunning) {
    throw new E2bError("conflict", "the sandbox is already running");
  }
  if (sleeping) {
    await store.resume(node, id);
    // Waking may have granted a new lease, and an archived sandbox a new token.
    record = await store.read(node, id);
  }
  await extend(service, sandbox, record, lease);
  const accessToken = accessTokenOf(settings, record.token);
  const template = record.sandbox.template ?? sandbox.template;
  const reply = sandboxReply(settings, { id, node, namespace: call.namespace, template, accessToken });
  return json(sleeping ? 201 : 200, reply);
}

/** `POST /sandboxes/{sandboxID}/connect` and its v2 */
export async function connect(service: Service, call: Call, asked: string): Promise<Answer> {
  const { memory, timeout } = await readOptionalBody(call, connectBody);
  refuseWithoutMemory(memory);
  const lease = { timeout: timeout ?? service.settings.defaultTimeoutSeconds };
  return wakeAndExtend(service, call, asked, lease, false);
}

/** `POST /sandboxes/{sandboxID}/resume` */
export async function resume(service: Service, call: Call, asked: string): Promise<Answer> {
  const { memory, timeout, autoPause } = await readOptionalBody(call, resumeBody);
  refuseWithoutMemory(memory);
  const lease: Lease = {
    timeout: timeout ?? service.settings.defaultTimeoutSeconds,
    onExpire: autoPause === true ? "archive" : autoPause === false ? "destroy" : undefined,
  };
  return wakeAndExtend(service, call, asked, lease, true);
}
