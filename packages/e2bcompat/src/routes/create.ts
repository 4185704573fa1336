import { publicSandboxId } from "@org/sandbox-address";
import { json } from "../answer.ts";
import type { Answer } from "../answer.ts";
import type { Call } from "../call.ts";
import { claimSandbox } from "../claim-sandbox.ts";
import { createOnce } from "../create-once.ts";
import { refuseUnserved } from "../create-options.ts";
import { stopIfGone } from "../gone.ts";
import { grantedSeconds } from "../granted-lease.ts";
import { prepareGuest } from "../guest.ts";
import { keyedRequest } from "../idempotency-key.ts";
import type { MadeSandbox } from "../once.ts";
import { sandboxReply } from "../present.ts";
import { accessTokenOf } from "../service.ts";
import type { Service } from "../service.ts";
import type { CreateSandbox } from "../wire/requests.ts";

/** `POST /sandboxes` and `POST /v2/sandboxes`. A client that hangs up at any time leaves no sandbox behind. */
export async function create(service: Service, call: Call, body: CreateSandbox): Promise<Answer> {
  const { settings } = service;
  refuseUnserved(body, settings.envdSecret !== undefined);
  const asked = body.templateID;
  const request = keyedRequest(call, body, settings.envdSecret);
  if (request === undefined) {
    const { answer, abandon } = await makeSandbox(service, call, body, asked);
    return { ...answer, undelivered: abandon };
  }
  const named: Service = { ...service, newName: () => request.name(service.newName()) };
  return createOnce(service, call, request, () => makeSandbox(named, call, body, asked));
}

interface Made {
  readonly answer: Answer;
  readonly made: MadeSandbox;
  /** Ends the sandbox: nobody could be told of it. */
  readonly abandon: () => void;
}

async function makeSandbox(service: Service, call: Call, body: CreateSandbox, asked: string): Promise<Made> {
  const { settings, store } = service;
  const claim = () => claimSandbox(service, call, body, asked);
  const { assignment, template, built, copied } = await service.limits.run(call.access, 1, claim);
  const { id, node } = assignment;
  const abandon = (): Promise<void> => service.abandon(node, id);
  call.sandboxId = publicSandboxId(id);
  const accessToken = accessTokenOf(settings, assignment.token);
  try {
    stopIfGone(call.signal);
    if (settings.envdSecret !== undefined) {
      const envVars = body.envVars ?? {};
      const kept = { built, copied, keepsVariables: built || copied };
      const fresh = { assignment, accessToken, envVars, ...kept, timestampMs: settings.now() };
      await prepareGuest(store, fresh, call.signal);
      stopIfGone(call.signal);
    }
  } catch (error) {
    await abandon();
    throw error;
  }
  const sandbox = { id, node, namespace: call.namespace, template, accessToken };
  service.ends.leased(sandbox, grantedSeconds(body.timeout ?? settings.defaultTimeoutSeconds));
  const headers = service.limits.headers(call.access);
  const answer = json(201, sandboxReply(settings, sandbox), headers);
  return { answer, made: { node, id, template }, abandon: () => void abandon() };
}
