import { json } from "../answer.ts";
import type { Answer } from "../answer.ts";
import { builtPrefix } from "../built-template.ts";
import type { Call } from "../call.ts";
import { pageOptions } from "../list-page.ts";
import { secondsLeft } from "../granted-lease.ts";
import { encodeCursor } from "../list-query.ts";
import type { ListQuery } from "../list-query.ts";
import { sandboxDetail } from "../present.ts";
import { findSandbox } from "../service.ts";
import type { Service } from "../service.ts";

/** `GET /sandboxes/{sandboxID}`: what the owning node says now. */
export async function get(service: Service, call: Call, asked: string): Promise<Answer> {
  const { settings, store } = service;
  const listed = await findSandbox(service, call, asked);
  const record = await store.read(listed.node, listed.id, { signal: call.signal });
  const { sandbox } = record;
  const known = {
    ...sandbox,
    namespace: listed.namespace,
    node: listed.node,
    template: sandbox.template ?? listed.template,
    metadata: sandbox.metadata ?? listed.metadata,
    claimedAt: sandbox.claimedAt ?? listed.claimedAt,
  };
  const left = secondsLeft(record, settings.now());
  if (left !== undefined) {
    service.ends.leased(listed, left);
  }
  const live = { paused: record.paused || record.archived, deadline: record.deadline };
  return json(200, sandboxDetail(settings, known, live, settings.now()));
}

/** The names that nodes may have for a template filter: a pool image, or a built template of the namespace. */
function nodeTemplates(service: Service, namespace: string, asked: string | undefined): readonly string[] {
  if (asked === undefined) {
    return [];
  }
  const shown = service.settings.aliases.byAlias.get(asked)?.image ?? asked;
  return [shown, `${builtPrefix(namespace)}${shown}`];
}

/** `GET /sandboxes`, which has everything at once, and `GET /v2/sandboxes`, which comes page by page. */
export async function list(service: Service, call: Call, query: ListQuery): Promise<Answer> {
  const { settings, store } = service;
  const { namespace, signal } = call;
  const options = pageOptions(query, nodeTemplates(service, namespace, query.template));
  const { sandboxes, next } = await store.page({ ...options, namespace, signal });
  const now = settings.now();
  const items = sandboxes.map((sandbox) => sandboxDetail(settings, sandbox, sandbox, now));
  // Clients ask for another page whenever they see a token.
  return json(200, items, next === undefined ? undefined : { "x-next-token": encodeCursor(next, query.newestFirst) });
}
