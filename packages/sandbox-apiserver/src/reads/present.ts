import { GROUP_VERSION, KIND } from "../group.ts";
import type { Negotiated } from "../negotiation.ts";
import { cellsOf, COLUMN_DEFINITIONS } from "./table.ts";
import type { RowSource } from "./table.ts";

/** An object in the form that was negotiated. Only sandboxes have others than their own. */
export function presented(object: object, { as, metaVersion, includeObject }: Negotiated, nowMs: number): object {
  if (as === "object" || !isSandbox(object)) {
    return object;
  }
  const apiVersion = `meta.k8s.io/${metaVersion}`;
  const partial = { kind: "PartialObjectMetadata", apiVersion, metadata: object.metadata };
  if (as === "partial") {
    return partial;
  }
  const held = { None: null, Metadata: partial, Object: object }[includeObject];
  return {
    kind: "Table",
    apiVersion,
    metadata: { resourceVersion: object.metadata.resourceVersion },
    columnDefinitions: COLUMN_DEFINITIONS,
    rows: [{ cells: cellsOf(object, nowMs), object: held }],
  };
}

function isSandbox(object: object): object is RowSource {
  return "kind" in object && object.kind === KIND && "apiVersion" in object && object.apiVersion === GROUP_VERSION;
}
