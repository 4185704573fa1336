import { isScaleError } from "@org/scale";
import { empty, json } from "../answer.ts";
import type { Answer } from "../answer.ts";
import { askNodes } from "../ask-nodes.ts";
import { buildIdOf } from "../build-id.ts";
import { builtPrefix, DEFAULT_TAG, findBuild, summarise } from "../built-template.ts";
import type { BuiltTemplate, Holder } from "../built-template.ts";
import type { Call } from "../call.ts";
import { E2bError } from "../errors.ts";
import { tagList } from "../present.ts";
import type { Service } from "../service.ts";
import { TAG } from "../wire/requests.ts";
import type { AssignTags, RemoveTags } from "../wire/requests.ts";
import { noBuiltTemplate, requireBuilt } from "./templates.ts";

/** Each once. Throws `bad_request`. */
export function checkTags(tags: readonly string[]): readonly string[] {
  if (tags.length === 0 || !tags.every((tag) => TAG.test(tag))) {
    throw new E2bError("bad_request", "tags: want at least one, each of 1 to 63 characters of a-z A-Z 0-9 . _ -");
  }
  return [...new Set(tags)];
}

/**
 * What its holders say of a template now. Tags are replaced as a whole, so that a write on an old view would undo what
 * another process wrote. Throws `not_found` when nobody holds it any more.
 */
async function readHolders(service: Service, call: Call, { name, holders }: BuiltTemplate): Promise<BuiltTemplate> {
  const { store, settings } = service;
  const stamped = `${builtPrefix(call.namespace)}${name}`;
  const nodes = [...new Set(holders.map(({ node }) => node))];
  const ask = (node: string, signal: AbortSignal | undefined) => store.nodeTemplates(node, { signal });
  const { answers, failures } = await askNodes(nodes, ask, { signal: call.signal });
  const [failure] = failures;
  if (failure !== undefined) {
    settings.logger.warn({ node: failure.node, err: failure.error }, "a holder of a template did not answer");
    throw new E2bError("internal", "not every node that holds this template answered: retry later", {
      cause: failure.error,
    });
  }
  const now = answers.flatMap(({ node, value }) =>
    value.filter((row) => row.tenant === "" && row.template === stamped).map((row): Holder => ({ node, row })),
  );
  const template = summarise(name, now);
  if (template === undefined) {
    throw noBuiltTemplate(service, call, name);
  }
  return template;
}

/**
 * Replaces the tags on every holder. A holder that lost the template meanwhile is passed over. Throws `not_found` when
 * all have.
 */
async function writeTags(
  service: Service,
  call: Call,
  { name, holders }: BuiltTemplate,
  tags: ReadonlyMap<string, string>,
): Promise<void> {
  const { store, templateWrites, settings } = service;
  const labels = Object.fromEntries(tags);
  const { answers, failures } = await askNodes(holders, async ({ node, row }) => {
    await store.setTemplateLabels(node, row, labels);
    templateWrites.wrote(node, row, { ...row, labels });
  });
  const failed = failures.filter(({ error }) => !isScaleError(error, "not_found"));
  for (const { node, error } of failed) {
    settings.logger.warn({ node: node.node, err: error }, "a holder of a template did not take its tags");
  }
  const refused = failed.find(({ error }) => isScaleError(error, "node_refused"));
  const first = refused ?? failed[0];
  if (first !== undefined) {
    throw refused === undefined
      ? new E2bError("internal", "not every node that holds this template took its tags: retry", { cause: first.error })
      : first.error;
  }
  if (answers.length === 0) {
    throw noBuiltTemplate(service, call, name);
  }
}

/** `POST /templates/tags` */
export async function assignTags(service: Service, call: Call, body: AssignTags): Promise<Answer> {
  const tags = checkTags(body.tags);
  const built = service.templates().built(call.namespace);
  // Whether the tag is known is for the holders to say: another process may have made it.
  const named = built.get(body.target) ?? built.get(body.target.replace(/:[^:]*$/, ""));
  if (named === undefined) {
    throw noBuiltTemplate(service, call, body.target);
  }
  const template = await readHolders(service, call, named);
  const found = findBuild(new Map([[template.name, template]]), body.target);
  if (found === undefined) {
    throw noBuiltTemplate(service, call, body.target);
  }
  const digest = found.build.contentDigest;
  if (tags.includes(DEFAULT_TAG) && digest !== template.current.contentDigest) {
    throw new E2bError("bad_request", `tags: ${DEFAULT_TAG} always names the current build`);
  }
  const labels = new Map(template.tags);
  for (const tag of tags) {
    if (tag !== DEFAULT_TAG) {
      labels.set(tag, digest);
    }
  }
  await writeTags(service, call, template, labels);
  return json(201, { tags, buildID: buildIdOf(digest) });
}

/** `DELETE /templates/tags`: all of them, or none when one is unknown. */
export async function removeTags(service: Service, call: Call, body: RemoveTags): Promise<Answer> {
  const tags = checkTags(body.tags);
  if (tags.includes(DEFAULT_TAG)) {
    throw new E2bError("bad_request", `tags: ${DEFAULT_TAG} always names the current build`);
  }
  const template = await readHolders(service, call, requireBuilt(service, call, body.name));
  const labels = new Map(template.tags);
  for (const tag of tags) {
    if (!labels.delete(tag)) {
      throw new E2bError("not_found", `template ${JSON.stringify(body.name)} has no tag ${JSON.stringify(tag)}`);
    }
  }
  await writeTags(service, call, template, labels);
  return empty(204);
}

/** `GET /templates/{templateID}/tags` */
export function listTags(service: Service, call: Call, asked: string): Answer {
  return json(200, tagList(requireBuilt(service, call, asked), service.since));
}
