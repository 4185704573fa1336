import type { Sandbox } from "./domain.ts";
import { resourceVersionOf } from "./resource-version.ts";
import { rfc3339 } from "./rfc3339.ts";

const PREFIX = "sandbox.cocoonstack.io/";

/** Label of a sandbox that holds its node. */
export const NODE_LABEL: string = `${PREFIX}node`;

/** How each label of a sandbox is read. An empty value is no label. */
const LABELS: ReadonlyMap<string, (sandbox: Sandbox) => string> = new Map([
  [NODE_LABEL, (sandbox) => sandbox.node],
  [`${PREFIX}phase`, (sandbox) => sandbox.phase],
  [`${PREFIX}template`, (sandbox) => sandbox.template ?? ""],
  [`${PREFIX}claim`, ({ claimRef = "" }) => claimRef.slice(claimRef.indexOf("/") + 1)],
]);

/** A sandbox as Kubernetes clients know objects. Parts that do not apply are absent. Store §2.9. */
export interface SandboxObject {
  readonly metadata: {
    readonly namespace: string;
    readonly name: string;
    readonly resourceVersion: string;
    /** When it was claimed: RFC 3339, UTC, to the second. */
    readonly creationTimestamp?: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly status: {
    readonly nodeName: string;
    readonly podIPs?: readonly string[];
    readonly conditions: readonly SandboxCondition[];
  };
}

/** A condition of a {@link SandboxObject}. */
export interface SandboxCondition {
  readonly type: "Ready";
  readonly status: "True" | "False";
  /** The phase, or `Unknown`. */
  readonly reason: string;
  readonly message: string;
}

/** One label of a sandbox, without making the others. */
export function labelOf(sandbox: Sandbox, key: string): string | undefined {
  return LABELS.get(key)?.(sandbox) || undefined;
}

/** The labels that selectors see. */
export function labelsOf(sandbox: Sandbox): Readonly<Record<string, string>> {
  return present([...LABELS].map(([key, read]) => [key, read(sandbox)]));
}

/** What a Kubernetes edge shows of a sandbox. It never holds a token. Store §2.9. */
export function sandboxObject(sandbox: Sandbox): SandboxObject {
  const { namespace, name, node, phase, claimedAt, addr = "" } = sandbox;
  const created = rfc3339(claimedAt);
  const annotations = annotationsOf(sandbox);
  const host = addressHost(addr);
  return {
    metadata: {
      namespace,
      name,
      resourceVersion: resourceVersionOf(sandbox),
      ...(created !== undefined && { creationTimestamp: created }),
      labels: labelsOf(sandbox),
      ...(Object.keys(annotations).length > 0 && { annotations }),
    },
    status: {
      nodeName: node,
      ...(host !== "" && { podIPs: [host] }),
      conditions: [
        {
          type: "Ready",
          status: /^(?:running|ready)$/i.test(phase) ? "True" : "False",
          reason: phase || "Unknown",
          message: `phase ${JSON.stringify(phase)} reported by node ${JSON.stringify(node)} inventory`,
        },
      ],
    },
  };
}

function annotationsOf(sandbox: Sandbox): Readonly<Record<string, string>> {
  return present([
    [`${PREFIX}claim-id`, sandbox.id],
    [`${PREFIX}deadline`, rfc3339(sandbox.deadline)],
    [`${PREFIX}metadata`, metadataText(sandbox.metadata)],
    [`${PREFIX}cpu-count`, positive(sandbox.cpuCount)],
    [`${PREFIX}memory-bytes`, positive(sandbox.memoryBytes)],
  ]);
}

function present(pairs: readonly (readonly [string, string | undefined])[]): Readonly<Record<string, string>> {
  return Object.fromEntries(pairs.filter((pair): pair is readonly [string, string] => Boolean(pair[1])));
}

function positive(amount: number | undefined): string | undefined {
  return amount !== undefined && amount > 0 ? String(amount) : undefined;
}

/** The JSON of a sandbox's metadata as an annotation has it: keys in code-unit order. `undefined` for none. */
export function metadataText(record: Sandbox["metadata"]): string | undefined {
  // Object keys that look like array indexes come first, whatever their order: so it is put together by hand.
  const keys = Object.keys(record ?? {}).sort();
  return keys.length === 0
    ? undefined
    : `{${keys.map((key) => `${JSON.stringify(key)}:${JSON.stringify(record?.[key])}`).join(",")}}`;
}

/** The host of a sandbox's address: without scheme, port and the brackets of IPv6. Empty without one. */
export function addressHost(addr: string): string {
  const authority = addr.replace(/^[^/]*:\/\//, "").replace(/\/.*$/s, "");
  const bracketed = /^\[(.*)\](?::\d*)?$/s.exec(authority)?.[1];
  return bracketed ?? authority.replace(/^([^:]*):\d*$/s, "$1");
}
