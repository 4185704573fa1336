import type { ApiCall } from "../api-call.ts";
import { badRequest, invalid } from "../api-status.ts";
import { decodeBody } from "../decode-body.ts";
import { bodyType } from "../media-type.ts";
import { META_SCHEMAS } from "../openapi/meta-schemas.ts";
import { schemas } from "../openapi/schemas.ts";
import { checkSchema } from "../schema-check.ts";
import { dryRunFaults, refuseDryRun, refuseFaults } from "../write-options.ts";
import { membersOf, textOf } from "./members.ts";
import type { Members } from "./members.ts";
import { checkPreconditions } from "./preconditions.ts";
import type { Preconditions } from "./preconditions.ts";
import { ownedSandbox } from "./verb-parts.ts";
import type { VerbParts } from "./verb-parts.ts";

const POLICIES: readonly string[] = ["Background", "Foreground", "Orphan"];

/** What a delete asks for, as far as it counts. */
interface DeleteOptions {
  readonly dryRun: readonly string[];
  readonly policy: string;
  readonly orphans: boolean;
  readonly preconditions: Preconditions;
}

/** Releases a sandbox. Kube specification §2.8. */
export async function deleteSandbox(parts: VerbParts, call: ApiCall): Promise<Response> {
  const negotiated = call.negotiated();
  const options = deleteOptions(await call.body(), call);
  refuseFaults(faultsOf(options), "DeleteOptions");
  if (options.orphans && options.policy !== "") {
    const message = `Invalid value: ${JSON.stringify(options.policy)}: orphanDependents and deletionPropagation cannot be both set`;
    throw invalid([{ reason: "FieldValueInvalid", field: "propagationPolicy", message }], {
      group: "meta.k8s.io",
      kind: "DeleteOptions",
    });
  }
  refuseDryRun(options.dryRun);
  const { info, signal } = call;
  const sandbox = await ownedSandbox(parts, { namespace: info.namespace, name: info.name, signal });
  const object = parts.reads.object(sandbox);
  checkPreconditions(options.preconditions, object);
  await parts.store.release(sandbox.node, sandbox.id, { signal });
  return parts.reads.present(object, negotiated);
}

function faultsOf({ dryRun, policy }: DeleteOptions): ReturnType<typeof dryRunFaults> {
  const unknown = policy === "" || POLICIES.includes(policy);
  return [
    ...dryRunFaults(dryRun),
    ...(unknown ? [] : [{ field: "propagationPolicy", value: policy, supported: POLICIES }]),
  ];
}

/** Options out of the body; without one out of the query. */
function deleteOptions(bytes: Uint8Array, { contentType, info: { query } }: ApiCall): DeleteOptions {
  if (bytes.byteLength === 0) {
    return {
      dryRun: query.getAll("dryRun"),
      policy: query.get("propagationPolicy") ?? "",
      orphans: query.has("orphanDependents"),
      preconditions: { uid: query.get("uid") ?? undefined },
    };
  }
  const { value } = decodeBody(bytes, bodyType(contentType));
  checkDeleteOptions(value);
  const dryRun = value["dryRun"];
  const preconditions = membersOf(value["preconditions"]);
  return {
    dryRun: [...(Array.isArray(dryRun) ? dryRun.map(String) : []), ...query.getAll("dryRun")],
    policy: textOf(value["propagationPolicy"]),
    orphans: typeof value["orphanDependents"] === "boolean",
    preconditions: {
      uid: presentText(preconditions["uid"]),
      resourceVersion: presentText(preconditions["resourceVersion"]),
    },
  };
}

function checkDeleteOptions(value: Members): void {
  const kind = textOf(value["kind"]);
  if (kind !== "" && kind !== "DeleteOptions") {
    throw badRequest(`the object provided is a ${JSON.stringify(kind)}, expected a DeleteOptions`);
  }
  const { mistyped } = checkSchema(value, META_SCHEMAS.deleteOptions, schemas);
  if (mistyped.length > 0) {
    throw badRequest(
      `the body of the request cannot be handled as a DeleteOptions: ${mistyped.slice(0, 10).join(", ")}`,
    );
  }
}

function presentText(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
