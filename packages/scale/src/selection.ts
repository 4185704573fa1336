import type { Sandbox } from "./domain.ts";
import { exactField, formatFieldSelector, matchesFields, parseFieldSelector } from "./field-selector.ts";
import { formatLabelSelector, matchesLabels, parseLabelSelector } from "./label-selector.ts";
import type { LabelRequirement } from "./label-selector.ts";
import type { SelectOptions } from "./ports.ts";
import { labelOf, NODE_LABEL } from "./sandbox-object.ts";

/** What a list or a watch is about. */
export interface Selection {
  /** Equal for selections that are written alike. */
  readonly key: string;
  /** The only namespace that can match; empty for all of them. */
  readonly namespace: string;
  /** The only node that can match. */
  readonly node: string | undefined;
  /** The one name that is looked up rather than listed: only together with a namespace in the options. */
  readonly pinned: string | undefined;
  /** Whether it selects everything in its namespace. */
  readonly all: boolean;
  matches(sandbox: Sandbox): boolean;
}

/**
 * Reads the selectors of a list or a watch.
 * @throws ScaleError `bad_request` for a selector that cannot be read or names another field.
 */
export function parseSelection(options: Omit<SelectOptions, "signal">): Selection {
  const labels = parseLabelSelector(options.labelSelector ?? "");
  const fields = parseFieldSelector(options.fieldSelector ?? "");
  const namespace = options.namespace ?? "";
  const name = exactField(fields, "metadata.name") ?? "";
  return {
    key: JSON.stringify([namespace, formatLabelSelector(labels), formatFieldSelector(fields)]),
    namespace: namespace || exactField(fields, "metadata.namespace") || "",
    node: exactField(fields, "status.nodeName") ?? exactLabel(labels, NODE_LABEL),
    pinned: namespace !== "" && name !== "" ? name : undefined,
    all: labels.length === 0 && fields.length === 0,
    matches: (sandbox) =>
      (namespace === "" || sandbox.namespace === namespace) &&
      matchesFields(fields, sandbox) &&
      (labels.length === 0 || matchesLabels(labels, (key) => labelOf(sandbox, key))),
  };
}

function exactLabel(requirements: readonly LabelRequirement[], key: string): string | undefined {
  for (const requirement of requirements) {
    if (requirement.key === key && requirement.operator === "in" && requirement.values.length === 1) {
      return requirement.values[0];
    }
  }
  return undefined;
}
