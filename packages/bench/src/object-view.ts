import type { InventoryEntry } from "@org/scale";

/** What any store has to build for an answer: an object with the members that a sandbox has. */
export interface ObjectView {
  readonly namespace: string;
  readonly name: string;
  readonly node: string;
  readonly id: string;
  readonly phase: string;
  readonly paused: boolean;
  readonly template: string | undefined;
  readonly net: string | undefined;
  readonly size: string | undefined;
  readonly deadline: Date | undefined;
  readonly claimedAt: Date | undefined;
  readonly metadata: Readonly<Record<string, string>> | undefined;
  readonly cpuCount: number | undefined;
  readonly memoryBytes: number | undefined;
}

/** The straightforward way from an entry to its view: part of the baselines. */
export function viewOf(node: string, entry: InventoryEntry): ObjectView {
  const cut = entry.name.indexOf("/");
  return {
    namespace: entry.name.slice(0, cut),
    name: entry.name.slice(cut + 1),
    node,
    id: entry.id,
    phase: entry.phase,
    paused: entry.phase !== "Running",
    template: entry.template,
    net: entry.net,
    size: entry.size,
    deadline: entry.deadline,
    claimedAt: entry.claimedAt,
    metadata: entry.metadata,
    cpuCount: entry.cpuCount,
    memoryBytes: entry.memoryBytes,
  };
}

/** The order of lists. */
export function compareViews(a: ObjectView, b: ObjectView): number {
  if (a.namespace !== b.namespace) {
    return a.namespace < b.namespace ? -1 : 1;
  }
  if (a.name !== b.name) {
    return a.name < b.name ? -1 : 1;
  }
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0;
}

/** A view as a list of the API shows it. */
export function renderView(view: ObjectView): object {
  return {
    templateID: view.template,
    sandboxID: view.id.replace("_", "-"),
    clientID: view.node,
    startedAt: view.claimedAt?.toISOString(),
    endAt: view.deadline?.toISOString(),
    state: view.paused ? "paused" : "running",
    envdVersion: "0.8.0",
    cpuCount: view.cpuCount,
    memoryMB: (view.memoryBytes ?? 0) / 1_048_576,
    diskSizeMB: 0,
    metadata: view.metadata,
    domain: "sandbox.example.com",
  };
}
