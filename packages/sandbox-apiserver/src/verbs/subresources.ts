import type { Sandbox } from "@org/scale";
import type { ApiCall, ApiHandler } from "../api-call.ts";
import { GROUP_VERSION } from "../group.ts";
import { bodyType } from "../media-type.ts";
import type { SubresourceRow } from "../resource-table.ts";
import { typedBody } from "../typed-body.ts";
import { writeOptions } from "../write-options.ts";
import { countOf, textOf } from "./members.ts";
import type { Members } from "./members.ts";
import { ownedSandbox } from "./verb-parts.ts";
import type { VerbParts } from "./verb-parts.ts";

/** What a verb does with a sandbox; resolves with the members of the answer. */
type Act = (parts: VerbParts, sandbox: Sandbox, options: Members, signal: AbortSignal) => Promise<Members>;

const ACTS: Readonly<Record<SubresourceRow["name"], Act>> = {
  pause: async ({ store }, { node, id }, _options, signal) => {
    await store.pause(node, id, { signal });
    return {};
  },
  resume: async ({ store }, { node, id }, _options, signal) => {
    await store.resume(node, id, { signal });
    return {};
  },
  fork: async ({ store }, { namespace, node, id }, options, signal) => {
    const count = countOf(options["count"], "count") || 1;
    const ttlSeconds = countOf(options["ttlSeconds"], "ttlSeconds");
    const fork = { count, ...(ttlSeconds > 0 && { ttlSeconds }) };
    const children = await store.fork(namespace, node, id, fork, { signal });
    return {
      children: children.map((child) => ({
        sandboxID: child.id,
        nodeName: child.node,
        ...(child.address !== "" && { address: child.address }),
        ...(child.token !== "" && { token: child.token }),
      })),
    };
  },
  snapshot: async ({ store }, { namespace, node, id }, options, signal) => {
    const snapshot = await store.snapshot(namespace, node, id, textOf(options["name"]), { signal });
    return {
      snapshotID: snapshot.id,
      ...(snapshot.name !== "" && { name: snapshot.name }),
      nodeName: snapshot.node,
      creationTimestamp: snapshot.createdAt?.toISOString().replace(/\.\d+Z$/, "Z") ?? null,
    };
  },
};

/** What an option is refused for before any node is asked. */
const CHECKS: Readonly<Partial<Record<SubresourceRow["name"], (options: Members) => void>>> = {
  fork: (options) => {
    countOf(options["count"], "count");
    countOf(options["ttlSeconds"], "ttlSeconds");
  },
};

/** Answers the post of one subresource. Kube specification §2.8. */
export function subresource(parts: VerbParts, row: SubresourceRow): ApiHandler {
  return async (call: ApiCall) => {
    const { info, signal } = call;
    const { fieldValidation } = writeOptions(info.query, "CreateOptions");
    const negotiated = call.negotiated();
    const type = bodyType(call.contentType);
    const bytes = await call.body();
    const options = typedBody({ bytes, type, kind: row.kind, fieldValidation, warn: call.warn });
    CHECKS[row.name]?.(options);
    const sandbox = await ownedSandbox(parts, { namespace: info.namespace, name: info.name, signal });
    const members = await ACTS[row.name](parts, sandbox, options, signal);
    return parts.reads.present({ kind: row.result, apiVersion: GROUP_VERSION, ...members }, negotiated, 201);
  };
}
