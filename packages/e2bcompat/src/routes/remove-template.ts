import { empty } from "../answer.ts";
import type { Answer } from "../answer.ts";
import { askNodes } from "../ask-nodes.ts";
import type { Asked } from "../ask-nodes.ts";
import type { BuiltTemplate } from "../built-template.ts";
import type { Call } from "../call.ts";
import { E2bError } from "../errors.ts";
import type { Service } from "../service.ts";

// Deletes are finished even when the client hangs up: they get no signal.

/** Throws unless every node did it. Whoever tries again reaches those that did not. */
function mustAll(service: Service, what: string, { failures }: Asked<{ readonly node: string }, void>): void {
  for (const { node, error } of failures) {
    service.settings.logger.warn({ node: node.node, err: error }, `a node did not delete a ${what}`);
  }
  if (failures.length > 0) {
    throw new E2bError("internal", `not every node that holds this ${what} deleted it: retry`, {
      cause: failures[0]?.error,
    });
  }
}

async function removeBuilt(service: Service, { holders }: BuiltTemplate): Promise<void> {
  const { store, templateWrites } = service;
  const asked = await askNodes(holders, async ({ node, row }) => {
    await store.deleteTemplate(node, row);
    templateWrites.wrote(node, row, undefined);
  });
  mustAll(service, "template", asked);
}

async function removeSnapshot(service: Service, call: Call, id: string): Promise<void> {
  const { store, snapshots } = service;
  const { rows, unsure } = await snapshots.holders(call.namespace, id, call.signal);
  if (rows.length === 0) {
    throw unsure
      ? new E2bError("internal", `${JSON.stringify(id)} was not found, but not every node answered: retry later`)
      : new E2bError("not_found", `${JSON.stringify(id)} is neither a built template nor a snapshot`);
  }
  mustAll(service, "snapshot", await askNodes(rows, ({ node }) => store.deleteSnapshot(node, id)));
  snapshots.forget(call.namespace, id);
}

/**
 * `DELETE /templates/{templateID}`: the built template of this name with the builds of it that this process runs, else
 * the snapshot with this id.
 */
export async function removeTemplate(service: Service, call: Call, asked: string): Promise<Answer> {
  // First, since one that is about to be published would bring the template back.
  const ended = (await service.builds?.cancel(call.namespace, asked)) ?? 0;
  const template = service.templates().built(call.namespace).get(asked);
  if (template !== undefined) {
    await removeBuilt(service, template);
  } else if (ended === 0) {
    await removeSnapshot(service, call, asked);
  }
  return empty(204);
}
