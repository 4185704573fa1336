import type { InventoryEntry, Phase, Sandbox } from "./domain.ts";

const DEFAULT_NAMESPACE = "default";

/** Namespace of an entry name: what stands before the first `/`, or `default` without one. */
export function namespaceOf(name: string): string {
  const cut = name.indexOf("/");
  return cut === -1 ? DEFAULT_NAMESPACE : name.slice(0, cut);
}

/** An entry name with its namespace written out, so that equal sandboxes have equal names. */
export function qualifiedName(name: string): string {
  return name.includes("/") ? name : `${DEFAULT_NAMESPACE}/${name}`;
}

/** Whether a phase means that no virtual machine runs. */
export function isPaused(phase: Phase): boolean {
  return phase === "Hibernated" || phase === "Archived" || phase === "Paused";
}

/** The sandbox that an entry of a node describes. */
export function sandboxOf(node: string, entry: InventoryEntry): Sandbox {
  const cut = entry.name.indexOf("/");
  return {
    namespace: cut === -1 ? DEFAULT_NAMESPACE : entry.name.slice(0, cut),
    name: entry.name.slice(cut + 1),
    node,
    id: entry.id,
    phase: entry.phase,
    paused: isPaused(entry.phase),
    template: entry.template,
    net: entry.net,
    size: entry.size,
    claimRef: entry.claimRef,
    addr: entry.addr,
    deadline: entry.deadline,
    claimedAt: entry.claimedAt,
    metadata: entry.metadata,
    cpuCount: entry.cpuCount,
    memoryBytes: entry.memoryBytes,
  };
}

/** Order of lists: namespace, then name, by code unit; node and id make it total. */
export function compareSandboxes(a: Sandbox, b: Sandbox): number {
  return (
    compareText(a.namespace, b.namespace) ||
    compareText(a.name, b.name) ||
    compareText(a.node, b.node) ||
    compareText(a.id, b.id)
  );
}

function compareText(a: string, b: string): number {
  if (a === b) {
    return 0;
  }
  return a < b ? -1 : 1;
}
