import { json } from "../answer.ts";
import type { Answer } from "../answer.ts";
import { builtPrefix } from "../built-template.ts";
import type { Call } from "../call.ts";
import { pageOptions } from "../list-page.ts";
import { secondsLeft } from "../granted-lease.ts";
import { encodeCursor, parseListQuery } from "../list-query.ts";
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

async function list(service: Service, call: Call, paged: boolean): Promise<Answer> {
  const { settings, store } = service;
  const { namespace, signal } = call;
  const query = parseListQuery(new URL(call.context.req.url).searchParams, paged);
  const options = pageOptions(query, nodeTemplates(service, namespace, query.template));
  const { sandboxes, next } = await store.page({ ...options, namespace, signal });
  const now = settings.now();
  const items = sandboxes.map((sandbox) => sandboxDetail(settings, sandbox, sandbox, now));
  // Clients ask for another page whenever they see a token.
  return json(200, items, next === undefined ? undefined : { "x-next-token": encodeCursor(next, query.newestFirst) });
}

/** `GET /sandboxes`: everything at once. */
export function listAll(service: Service, call: Call): Promise<Answer> {
  return list(service, call, false);
}

/** `GET /v2/sandboxes`: page by page. */
export function listPage(service: Service, call: Call): Promise<Answer> {
  return list(service, call, true);
}
