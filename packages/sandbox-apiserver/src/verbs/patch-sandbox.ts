import { isScaleError } from "@org/scale";
import type { Sandbox } from "@org/scale";
import type { ApiCall } from "../api-call.ts";
import { badRequest, invalid } from "../api-status.ts";
import { decodeBody } from "../decode-body.ts";
import { KIND } from "../group.ts";
import { bodyType } from "../media-type.ts";
import type { SandboxResource } from "../reads/index.ts";
import { isDateTime } from "../schema-check.ts";
import { checkKind, typedBody } from "../typed-body.ts";
import { writeOptions } from "../write-options.ts";
import { claimFor } from "./create-sandbox.ts";
import { secondsUntil } from "./lease.ts";
import { membersOf, textOf } from "./members.ts";
import type { Members } from "./members.ts";
import { changedFields, isRecord, mergePatch } from "./merge-patch.ts";
import { checkPreconditions } from "./preconditions.ts";
import { ownedSandbox } from "./verb-parts.ts";
import type { VerbParts } from "./verb-parts.ts";

const APPLY = "application/apply-patch+yaml";

/** Patches that merge. The strategic one merges alike where nothing but single values may change. */
const MERGES: readonly string[] = ["application/merge-patch+json", "application/strategic-merge-patch+json"];

const PATCH_TYPES: readonly string[] = [APPLY, ...MERGES];

/** What a patch may change. */
const MODE = "spec.operatingMode";
const SHUTDOWN = "spec.shutdownTime";

/**
 * Changes a sandbox, or makes one. A server-side apply claims a sandbox while its name is free; a merge patch renews by
 * `spec.shutdownTime` and pauses or resumes by `spec.operatingMode`. Kube specification §2.8.
 */
export async function patchSandbox(parts: VerbParts, call: ApiCall): Promise<Response> {
  const type = bodyType(call.contentType, PATCH_TYPES);
  const { fieldValidation } = writeOptions(call.info.query, "PatchOptions");
  const bytes = await call.body();
  return type === APPLY
    ? applied(parts, call, () => typedBody({ bytes, type, kind: KIND, fieldValidation, warn: call.warn }))
    : merged(parts, call, decodeBody(bytes, "application/json").value);
}

async function applied(parts: VerbParts, call: ApiCall, read: () => Members): Promise<Response> {
  const negotiated = call.negotiated();
  if ((call.info.query.get("fieldManager") ?? "") === "") {
    throw invalid(
      [{ reason: "FieldValueRequired", field: "fieldManager", message: "Required value: is required for apply patch" }],
      {
        group: "meta.k8s.io",
        kind: "PatchOptions",
      },
    );
  }
  const object = read();
  const { info } = call;
  // Who may patch need not be allowed to claim.
  await call.require({ ...info.attributes, verb: "create" });
  const metadata = membersOf(object["metadata"]);
  const name = textOf(metadata["name"]);
  if (name !== "" && name !== info.name) {
    throw badRequest(`the name of the object (${name}) does not match the name on the URL (${info.name})`);
  }
  const named = { ...object, metadata: { ...metadata, name: info.name } };
  return parts.reads.present(await claimFor(parts, named, call, true), negotiated, 201);
}

async function merged(parts: VerbParts, call: ApiCall, patch: Members): Promise<Response> {
  const negotiated = call.negotiated();
  const { info, signal } = call;
  checkKind(patch, KIND);
  const sandbox = await ownedSandbox(parts, { namespace: info.namespace, name: info.name, signal });
  const object = parts.reads.object(sandbox);
  const asked = membersOf(patch["metadata"]);
  checkPreconditions({ uid: given(asked["uid"]), resourceVersion: given(asked["resourceVersion"]) }, object);
  const change = changeOf(object, patch, parts.now());
  if (change.ttlSeconds !== undefined) {
    await parts.store.renew(sandbox.node, sandbox.id, { ttlSeconds: change.ttlSeconds }, { signal });
  }
  if (change.mode === "Suspended") {
    await parts.store.pause(sandbox.node, sandbox.id, { signal });
  } else if (change.mode === "Running") {
    await parts.store.resume(sandbox.node, sandbox.id, { signal });
  }
  return parts.reads.present(parts.reads.object(await afterwards(parts, sandbox, signal)), negotiated);
}

/** What a patch comes to. */
interface Change {
  readonly mode: "Running" | "Suspended" | undefined;
  readonly ttlSeconds: number | undefined;
}

/** @throws ApiStatusError 422 for everything else that a patch would change, 400 for an end that is over. */
function changeOf(object: SandboxResource, patch: Members, nowMs: number): Change {
  const { operatingMode: mode, shutdownTime: end, ...others } = membersOf(patch["spec"]);
  const rest = isRecord(patch["spec"]) ? { ...patch, spec: others } : patch;
  const causes = changedFields(object, mergePatch(object, rest)).map((field) => ({
    reason: "FieldValueForbidden",
    field,
    message: `Forbidden: only ${MODE} and ${SHUTDOWN} of a sandbox can be changed; delete it and create another`,
  }));
  if (mode !== undefined && mode !== "Running" && mode !== "Suspended") {
    const message = `Unsupported value: ${JSON.stringify(mode)}: supported values: "Running", "Suspended"`;
    causes.push({ reason: "FieldValueNotSupported", field: MODE, message });
  }
  if (end !== undefined && (typeof end !== "string" || !isDateTime(end))) {
    const message = `Invalid value: ${JSON.stringify(end)}: must be an RFC 3339 time; no lease is without an end`;
    causes.push({ reason: "FieldValueInvalid", field: SHUTDOWN, message });
  }
  if (causes.length > 0) {
    throw invalid(causes, { name: object.metadata.name });
  }
  return {
    mode: mode === "Running" || mode === "Suspended" ? mode : undefined,
    ttlSeconds: typeof end === "string" ? secondsUntil(end, nowMs) : undefined,
  };
}

/** The sandbox after its verbs; as it was before when it is gone by now. */
async function afterwards({ store }: VerbParts, before: Sandbox, signal: AbortSignal): Promise<Sandbox> {
  const { namespace, id } = before;
  try {
    return await store.getByClaimId(namespace, id, (claimId) => claimId === id, { signal });
  } catch (error) {
    if (isScaleError(error, "not_found")) {
      return before;
    }
    throw error;
  }
}

function given(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
