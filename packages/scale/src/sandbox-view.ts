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

/** Whether two sandboxes of one name are one claim. A node that tells no ids leaves only the name to compare. */
export function isSameClaim(a: Sandbox, b: Sandbox): boolean {
  return a.id === b.id || a.id === "" || b.id === "";
}

/**
 * The one sandbox that a watch shows of several claims of a name: the oldest that is selected, so that a new claim
 * takes nothing away from one that is shown.
 */
export function pickShown(
  claims: readonly Sandbox[],
  selection: { matches(sandbox: Sandbox): boolean },
): Sandbox | undefined {
  let shown: Sandbox | undefined;
  for (const claim of claims) {
    if (selection.matches(claim) && (shown === undefined || isOlder(claim, shown))) {
      shown = claim;
    }
  }
  return shown;
}

function isOlder(a: Sandbox, b: Sandbox): boolean {
  const age = (a.claimedAt?.getTime() ?? 0) - (b.claimedAt?.getTime() ?? 0);
  return (age || compareSandboxes(a, b)) < 0;
}

/** What the order of lists goes by. */
export type SandboxPlace = Pick<Sandbox, "namespace" | "name" | "id" | "node">;

/** Order of lists: namespace, then name, then claim id, by code unit; the node makes it total. */
export function compareSandboxes(a: SandboxPlace, b: SandboxPlace): number {
  return (
    compareText(a.namespace, b.namespace) ||
    compareText(a.name, b.name) ||
    compareText(a.id, b.id) ||
    compareText(a.node, b.node)
  );
}

function compareText(a: string, b: string): number {
  if (a === b) {
    return 0;
  }
  return a < b ? -1 : 1;
}
