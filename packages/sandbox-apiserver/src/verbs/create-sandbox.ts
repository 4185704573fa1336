import { isScaleError } from "@org/scale";
import type { Assignment } from "@org/scale";
import { KubeError } from "@org/kubeinventory/client";
import { poolKeyOf } from "@org/kubeinventory/pod";
import type { PodPool } from "@org/kubeinventory/pod";
import type { ApiCall } from "../api-call.ts";
import { alreadyExists, badRequest, invalid, unavailable } from "../api-status.ts";
import { GROUP_VERSION, KIND } from "../group.ts";
import { bodyType } from "../media-type.ts";
import { sandboxUid } from "../sandbox-uid.ts";
import { scaleStatus } from "../scale-status.ts";
import { typedBody } from "../typed-body.ts";
import { writeOptions } from "../write-options.ts";
import { hostOf } from "./host-of.ts";
import { leaseSeconds } from "./lease.ts";
import { membersOf, textOf } from "./members.ts";
import type { Members } from "./members.ts";
import { sandboxIdentity } from "./sandbox-name.ts";
import type { SandboxIdentity } from "./sandbox-name.ts";
import type { VerbParts } from "./verb-parts.ts";

const PREFIX = "sandbox.cocoonstack.io/";
const DEADLINE = `${PREFIX}deadline`;

/** Metadata that means nothing here, or that the server sets. */
const DROPPED: ReadonlySet<string> = new Set([
  "generateName",
  "resourceVersion",
  "generation",
  "finalizers",
  "managedFields",
  "selfLink",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
]);

const MODES: Readonly<Record<string, readonly string[]>> = {
  operatingMode: ["Running", "Suspended"],
  shutdownPolicy: ["Delete", "Retain"],
};

/** Claims a sandbox for a posted object. Kube specification §2.8. */
export async function createSandbox(parts: VerbParts, call: ApiCall): Promise<Response> {
  const negotiated = call.negotiated();
  const { fieldValidation } = writeOptions(call.info.query, "CreateOptions");
  const type = bodyType(call.contentType);
  const object = typedBody({ bytes: await call.body(), type, kind: KIND, fieldValidation, warn: call.warn });
  const created = await claimFor(parts, object, call);
  return parts.reads.present(created, negotiated, 201);
}

/**
 * Claims a sandbox for an object and answers the object of it: what was sent, who it is, and its token.
 * @param unique whether a name that is held is refused
 * @throws ApiStatusError
 */
export async function claimFor(
  parts: VerbParts,
  object: Members,
  { info, signal }: Pick<ApiCall, "info" | "signal">,
  unique: boolean = parts.sandboxUnique,
): Promise<object> {
  const metadata = membersOf(object["metadata"]);
  const identity = sandboxIdentity(metadata, info.namespace);
  checkModes(membersOf(object["spec"]), identity.name);
  const pool = poolOf(object, metadata);
  const ttlSeconds = leaseSeconds(object, parts.now());
  const claim = (): Promise<Assignment> =>
    parts.store.claim(identity.namespace, identity.name, pool, {
      ...(ttlSeconds > 0 && { ttlSeconds }),
      uniqueName: identity.generated,
      signal,
    });
  try {
    const assignment = await (unique ? aloneUnderName(parts, identity, signal, claim) : claim());
    return createdObject(object, identity, assignment, new Date(parts.now()));
  } catch (error) {
    throw isScaleError(error) ? scaleStatus(error, identity.name) : error;
  }
}

/** Runs a claim while nothing else holds its name, in this process and as far as the nodes tell. */
async function aloneUnderName<T>(
  { store, claiming }: VerbParts,
  { namespace, name }: SandboxIdentity,
  signal: AbortSignal,
  claim: () => Promise<T>,
): Promise<T> {
  const key = `${namespace}/${name}`;
  if (claiming.has(key)) {
    throw alreadyExists(name);
  }
  claiming.add(key);
  try {
    if (await isHeld(store, namespace, name, signal)) {
      throw alreadyExists(name);
    }
    return await claim();
  } finally {
    claiming.delete(key);
  }
}

async function isHeld(
  store: VerbParts["store"],
  namespace: string,
  name: string,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await store.get(namespace, name, { signal });
    return true;
  } catch (error) {
    if (!isScaleError(error, "not_found")) {
      throw error;
    }
    if (error.unanswered > 0) {
      throw unavailable("not every node answered whether the name is held", 1, error);
    }
    return false;
  }
}

function checkModes(spec: Members, name: string): void {
  const causes = Object.entries(MODES).flatMap(([field, values]) => {
    const value = textOf(spec[field]);
    const supported = values.map((one) => JSON.stringify(one)).join(", ");
    const message = `Unsupported value: ${JSON.stringify(value)}: supported values: ${supported}`;
    return value === "" || values.includes(value)
      ? []
      : [{ reason: "FieldValueNotSupported", field: `spec.${field}`, message }];
  });
  if (causes.length > 0) {
    throw invalid(causes, { name });
  }
}

function poolOf(object: Members, metadata: Members): PodPool {
  try {
    return poolKeyOf(membersOf(object["spec"])["podTemplate"], metadata["annotations"]);
  } catch (error) {
    if (error instanceof KubeError && error.code === "bad_object") {
      throw badRequest(error.message.startsWith("podTemplate") ? `spec.${error.message}` : error.message, error);
    }
    throw error;
  }
}

function createdObject(
  object: Members,
  { namespace, name }: SandboxIdentity,
  { id, node, address, token, deadline }: Assignment,
  now: Date,
): object {
  const metadata = membersOf(object["metadata"]);
  const kept = Object.entries(metadata).filter(([key, value]) => !DROPPED.has(key) && value !== null);
  const annotations = Object.entries(membersOf(metadata["annotations"])).filter(
    ([key, value]) => value !== null && key !== DEADLINE,
  );
  const host = hostOf(address);
  const uid = sandboxUid(node, id);
  const moment = seconds(now);
  return {
    kind: KIND,
    apiVersion: GROUP_VERSION,
    metadata: {
      ...Object.fromEntries(kept),
      name,
      namespace,
      ...(uid !== undefined && { uid }),
      creationTimestamp: moment,
      annotations: {
        ...Object.fromEntries(annotations),
        [`${PREFIX}claim-id`]: id,
        [`${PREFIX}address`]: address,
        [`${PREFIX}token`]: token,
        ...(deadline !== undefined && { [DEADLINE]: seconds(deadline) }),
      },
    },
    spec: membersOf(object["spec"]),
    status: {
      nodeName: node,
      ...(host !== "" && { podIPs: [host] }),
      conditions: [
        {
          type: "Ready",
          status: "True",
          reason: "DependenciesReady",
          message: `claimed on node ${JSON.stringify(node)}`,
          lastTransitionTime: moment,
        },
      ],
    },
  };
}

/** RFC 3339, UTC, to the second. */
function seconds(time: Date): string {
  return time.toISOString().replace(/\.\d+Z$/, "Z");
}
