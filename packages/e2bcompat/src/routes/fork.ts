import { publicSandboxId } from "@org/sandbox-address";
import type { Assignment, SandboxRecord } from "@org/scale";
import { json } from "../answer.ts";
import type { Answer } from "../answer.ts";
import { BUILT_PREFIX } from "../built-template.ts";
import type { Call } from "../call.ts";
import { daemonToken, dialDaemon } from "../daemon.ts";
import { E2bError } from "../errors.ts";
import { grantedSeconds } from "../granted-lease.ts";
import { stopIfGone } from "../gone.ts";
import { prepareGuest, readVariables } from "../guest.ts";
import { sandboxReply } from "../present.ts";
import { accessTokenOf, findSandbox } from "../service.ts";
import type { Service } from "../service.ts";
import type { ForkSandbox } from "../wire/requests.ts";

/**
 * What commands of the parent start with. Read before anything is made: a daemon that is copied while it runs has them,
 * one that starts anew has not.
 */
async function parentVariables(
  { settings, store }: Service,
  { record, node, id }: { readonly record: SandboxRecord; readonly node: string; readonly id: string },
  signal: AbortSignal,
): Promise<Readonly<Record<string, string>>> {
  try {
    return await readVariables(dialDaemon(store, node, id), daemonToken(settings, record.token), signal);
  } catch (error) {
    throw new E2bError("guest_failed", "the sandbox cannot be forked: its daemon did not answer", { cause: error });
  }
}

/** `POST /sandboxes/{sandboxID}/fork`: all children or none. A client that hangs up leaves none behind. */
export async function fork(
  service: Service,
  call: Call,
  asked: string,
  { count, timeout }: ForkSandbox,
): Promise<Answer> {
  const { settings, store } = service;
  const { signal, namespace } = call;
  const { node, id, ...listed } = await findSandbox(service, call, asked);
  const record = await store.read(node, id, { signal });
  if (record.paused || record.archived) {
    throw new E2bError("conflict", "the sandbox is paused: connect to it before it is forked");
  }
  const template = record.sandbox.template ?? listed.template;
  const derived = settings.envdSecret !== undefined;
  const envVars = derived ? await parentVariables(service, { record, node, id }, signal) : {};
  const lease = { count: count ?? 1, ttlSeconds: timeout ?? settings.defaultTimeoutSeconds };
  const copy = () => store.fork(namespace, node, id, lease, { signal });
  const children = await service.limits.run(call.access, lease.count, copy);
  const abandon = (): Promise<unknown> => Promise.all(children.map((child) => service.abandon(child.node, child.id)));
  const prepare = (assignment: Assignment): Promise<void> =>
    prepareGuest(
      store,
      {
        assignment,
        accessToken: accessTokenOf(settings, assignment.token),
        envVars,
        built: template?.startsWith(BUILT_PREFIX) === true,
        copied: true,
        keepsVariables: false,
        timestampMs: settings.now(),
      },
      signal,
    );
  try {
    stopIfGone(signal);
    if (derived) {
      // All are waited for: none is released while it is still being prepared.
      const prepared = await Promise.allSettled(children.map(prepare));
      const failed = prepared.find((result) => result.status === "rejected");
      if (failed !== undefined) {
        throw failed.reason;
      }
      stopIfGone(signal);
    }
  } catch (error) {
    await abandon();
    throw error;
  }
  children.forEach((child) =>
    service.ends.leased({ namespace, node: child.node, id: child.id }, grantedSeconds(lease.ttlSeconds)),
  );
  const results = children.map((child) => ({
    sandbox: sandboxReply(settings, {
      id: child.id,
      node: child.node,
      namespace,
      template,
      accessToken: accessTokenOf(settings, child.token),
    }),
  }));
  settings.logger.debug(
    { requestId: call.requestId, sandboxId: publicSandboxId(id), children: results.length },
    "forked",
  );
  return { ...json(201, results, service.limits.headers(call.access)), undelivered: () => void abandon() };
}
