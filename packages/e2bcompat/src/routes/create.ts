import { publicSandboxId } from "@org/sandbox-address";
import { isScaleError, ScaleError } from "@org/scale";
import type { Assignment, ClaimOptions, PoolKey } from "@org/scale";
import { json } from "../answer.ts";
import type { Answer } from "../answer.ts";
import type { Call } from "../call.ts";
import { refuseUnsupported } from "../create-options.ts";
import { E2bError } from "../errors.ts";
import { prepareGuest } from "../guest.ts";
import { sandboxReply } from "../present.ts";
import { accessTokenOf } from "../service.ts";
import type { Service } from "../service.ts";
import { BUILT_PREFIX } from "../template-catalog.ts";
import type { Templates } from "../template-catalog.ts";
import { createSandbox, readBody } from "../wire/requests.ts";
import type { CreateSandbox } from "../wire/requests.ts";

function unknownTemplate(asked: string): E2bError {
  return new E2bError(
    "not_found",
    `template ${JSON.stringify(asked)} not found: no pool offers it and --e2b-template-aliases does not name it`,
  );
}

function noCapacity(asked: string, cause: unknown): E2bError {
  return new E2bError("unavailable", `no warm sandbox of template ${JSON.stringify(asked)} is available, retry later`, {
    cause,
  });
}

function stopIfGone(signal: AbortSignal): void {
  if (signal.aborted) {
    throw new ScaleError("aborted", "the client closed the connection while its sandbox was made");
  }
}

interface Claimed {
  readonly assignment: Assignment;
  readonly pool: PoolKey;
  readonly built: boolean;
}

/**
 * What to claim after nothing was warm: the namespace's built template of this name. An alias or a pool image stays
 * "retry later" and never turns into something else of the same name.
 */
function builtPool(service: Service, call: Call, body: CreateSandbox, asked: string, cause: unknown): PoolKey {
  let templates: Templates;
  try {
    templates = service.templates();
  } catch {
    throw noCapacity(asked, cause);
  }
  if (service.settings.aliases.byAlias.has(asked) || templates.images.has(asked)) {
    throw noCapacity(asked, cause);
  }
  const built = templates.built(call.namespace).get(asked);
  if (built === undefined) {
    throw unknownTemplate(asked);
  }
  if (body.allow_internet_access === true) {
    throw new E2bError("bad_request", "allow_internet_access is not supported for built templates");
  }
  const { template, net, size } = built.current;
  return { template, net, size };
}

async function claim(service: Service, call: Call, body: CreateSandbox, asked: string): Promise<Claimed> {
  const { namespace, signal } = call;
  const { settings, store } = service;
  const alias = settings.aliases.byAlias.get(asked);
  const pool: PoolKey = {
    template: alias?.image ?? asked,
    net: body.allow_internet_access === true ? "egress" : "none",
    size: alias?.size ?? "small",
  };
  const options: ClaimOptions = {
    ttlSeconds: body.timeout ?? settings.defaultTimeoutSeconds,
    metadata: body.metadata ?? undefined,
    onExpire: body.autoPause === true ? "archive" : undefined,
    noEgress: body.allow_internet_access === false ? true : undefined,
    uniqueName: true,
    signal,
  };
  const name = service.newName();
  try {
    return { assignment: await store.claim(namespace, name, pool, options), pool, built: false };
  } catch (error) {
    if (!isScaleError(error, "no_warm_capacity")) {
      throw error;
    }
    const promoted = builtPool(service, call, body, asked, error);
    try {
      const assignment = await store.claim(namespace, name, promoted, { ...options, promoted: true });
      return { assignment, pool: promoted, built: true };
    } catch (second) {
      throw isScaleError(second, "no_warm_capacity") ? noCapacity(asked, second) : second;
    }
  }
}

/** `POST /sandboxes` and `POST /v2/sandboxes`. A client that hangs up at any time leaves no sandbox behind. */
export async function create(service: Service, call: Call): Promise<Answer> {
  const { settings, store } = service;
  const body = await readBody(call, createSandbox);
  refuseUnsupported(body, settings.envdSecret !== undefined);
  const asked = body.templateID ?? "";
  if (asked.trim() === "") {
    throw new E2bError("bad_request", "templateID: a template is required");
  }
  if (asked.startsWith(BUILT_PREFIX)) {
    throw unknownTemplate(asked);
  }
  const { assignment, pool, built } = await claim(service, call, body, asked);
  const { id, node } = assignment;
  const abandon = (): Promise<void> => service.abandon(node, id);
  call.sandboxId = publicSandboxId(id);
  const accessToken = accessTokenOf(settings, assignment.token);
  try {
    stopIfGone(call.signal);
    if (settings.envdSecret !== undefined) {
      const timestampMs = settings.now();
      const envVars = body.envVars ?? {};
      await prepareGuest(store, { assignment, accessToken, envVars, built, timestampMs }, call.signal);
      stopIfGone(call.signal);
    }
  } catch (error) {
    await abandon();
    throw error;
  }
  const sandbox = { id, node, namespace: call.namespace, template: pool.template, accessToken };
  return { ...json(201, sandboxReply(settings, sandbox)), undelivered: () => void abandon() };
}
