import { isScaleError } from "@org/scale";
import type { Sandbox, SandboxRecord, SandboxStore } from "@org/scale";
import { empty, json } from "../answer.ts";
import type { Answer } from "../answer.ts";
import type { Call } from "../call.ts";
import { E2bError } from "../errors.ts";
import { grantedSeconds, secondsLeft } from "../granted-lease.ts";
import { sandboxReply } from "../present.ts";
import { accessTokenOf, findSandbox } from "../service.ts";
import type { Service } from "../service.ts";
import type { Refresh, ResumeSandbox, SetTimeout, WakeSandbox } from "../wire/requests.ts";

// Verbs that change a sandbox are finished even when the client hangs up: they get no signal.

type Renewal = Parameters<SandboxStore["renew"]>[2];

async function renew({ store, ends }: Service, sandbox: Sandbox, renewal: Renewal): Promise<void> {
  await store.renew(sandbox.node, sandbox.id, renewal);
  ends.leased(sandbox, grantedSeconds(renewal.ttlSeconds));
}

/** `DELETE /sandboxes/{sandboxID}` */
export async function remove(service: Service, call: Call, asked: string): Promise<Answer> {
  const sandbox = await findSandbox(service, call, asked);
  await service.store.release(sandbox.node, sandbox.id);
  service.ends.killed(sandbox);
  return empty(204);
}

/** `POST /sandboxes/{sandboxID}/timeout`: the lease ends that many seconds from now, also earlier than before. */
export async function setLease(service: Service, call: Call, asked: string, { timeout }: SetTimeout): Promise<Answer> {
  await renew(service, await findSandbox(service, call, asked), { ttlSeconds: timeout });
  return empty(204);
}

/** `POST /sandboxes/{sandboxID}/refreshes` */
export async function refresh(service: Service, call: Call, asked: string, { duration }: Refresh): Promise<Answer> {
  const sandbox = await findSandbox(service, call, asked);
  // Zero counts as absent here, other than in a timeout.
  await renew(service, sandbox, { ttlSeconds: duration || service.settings.defaultTimeoutSeconds });
  return empty(204);
}

/** `POST /sandboxes/{sandboxID}/pause` */
export async function pause(service: Service, call: Call, asked: string): Promise<Answer> {
  const sandbox = await findSandbox(service, call, asked);
  return service.gate.alone(sandbox.id, call.signal, () => pauseNow(service, call, sandbox));
}

async function pauseNow(service: Service, call: Call, sandbox: Sandbox): Promise<Answer> {
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
  const remaining = secondsLeft(record, service.settings.now()) ?? 0;
  if (lease.onExpire !== undefined) {
    const ttlSeconds = Math.max(lease.timeout, Math.ceil(remaining));
    await renew(service, at, { ttlSeconds, onExpire: lease.onExpire });
  } else if (lease.timeout > remaining) {
    await renew(service, at, { ttlSeconds: lease.timeout });
  } else {
    service.ends.leased(at, remaining);
  }
}

function isAsleep({ paused, archived }: SandboxRecord): boolean {
  return paused || archived;
}

/** How often a sandbox is woken that falls asleep again before its lease could be renewed. */
const MAX_WAKES = 3;

/**
 * What the node says of the sandbox once it is awake and has its lease. The end of a lease may archive it at any time
 * before: then the node refuses to renew it, and it is woken again.
 */
async function awaken(service: Service, at: Sandbox, first: SandboxRecord, lease: Lease): Promise<SandboxRecord> {
  const { store, wakes } = service;
  let record = first;
  for (let wakesLeft = MAX_WAKES; ; wakesLeft -= 1) {
    if (isAsleep(record)) {
      if (wakesLeft === 0) {
        throw new E2bError("unavailable", "the sandbox fell asleep again each time it was woken, retry later");
      }
      await wakes.wake(at.node, at.id);
      // Waking may have granted a new lease, and an archived sandbox a new token.
      record = await store.read(at.node, at.id);
      if (isAsleep(record)) {
        continue;
      }
    }
    try {
      await extend(service, at, record, lease);
      return record;
    } catch (error) {
      if (wakesLeft === 0 || !isScaleError(error, "node_refused") || error.status !== 409) {
        throw error;
      }
      record = await store.read(at.node, at.id);
      if (!isAsleep(record)) {
        throw error;
      }
    }
  }
}

async function wakeAndExtend(
  service: Service,
  call: Call,
  asked: string,
  lease: Lease,
  refuseRunning: boolean,
): Promise<Answer> {
  const { settings, store, gate } = service;
  const sandbox = await findSandbox(service, call, asked);
  const { node, id } = sandbox;
  return gate.together(id, call.signal, async () => {
    const first = await store.read(node, id, { signal: call.signal });
    if (!isAsleep(first) && refuseRunning) {
      throw new E2bError("conflict", "the sandbox is already running");
    }
    const record = await awaken(service, sandbox, first, lease);
    const accessToken = accessTokenOf(settings, record.token);
    const template = record.sandbox.template ?? sandbox.template;
    const reply = sandboxReply(settings, { id, node, namespace: call.namespace, template, accessToken });
    return json(isAsleep(first) ? 201 : 200, reply);
  });
}

/** `POST /sandboxes/{sandboxID}/connect` and its v2 */
export function connect(service: Service, call: Call, asked: string, { timeout }: WakeSandbox): Promise<Answer> {
  const lease = { timeout: timeout ?? service.settings.defaultTimeoutSeconds };
  return wakeAndExtend(service, call, asked, lease, false);
}

/** `POST /sandboxes/{sandboxID}/resume` */
export function resume(
  service: Service,
  call: Call,
  asked: string,
  { timeout, autoPause }: ResumeSandbox,
): Promise<Answer> {
  const lease: Lease = {
    timeout: timeout ?? service.settings.defaultTimeoutSeconds,
    onExpire: autoPause === true ? "archive" : autoPause === false ? "destroy" : undefined,
  };
  return wakeAndExtend(service, call, asked, lease, true);
}
