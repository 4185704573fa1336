import { empty, json } from "../answer.ts";
import type { Answer } from "../answer.ts";
import { builtPrefix, findBuild } from "../built-template.ts";
import type { BuiltTemplate } from "../built-template.ts";
import type { Call } from "../call.ts";
import { E2bError } from "../errors.ts";
import { nodeName } from "../node-name.ts";
import { builtTemplate, namesOf, poolTemplate, templateDetail } from "../present.ts";
import type { Service } from "../service.ts";

/**
 * The error for a name that is no built template of the namespace: what it is instead, that it cannot be one, or that
 * nobody knows it.
 */
export function noBuiltTemplate(service: Service, call: Call, asked: string): E2bError {
  const quoted = JSON.stringify(asked);
  if (service.settings.aliases.byAlias.has(asked) || service.templates().images.has(asked)) {
    return new E2bError("not_found", `template ${quoted} is a pool image, not a built template`);
  }
  nodeName("template", builtPrefix(call.namespace), asked);
  return new E2bError("not_found", `template ${quoted} not found`);
}

/** The built template that a request is about. Throws `not_found`, and `bad_request` for a name that none can have. */
export function requireBuilt(service: Service, call: Call, asked: string): BuiltTemplate {
  const template = service.templates().built(call.namespace).get(asked);
  if (template === undefined) {
    throw noBuiltTemplate(service, call, asked);
  }
  return template;
}

/** `GET /templates` and `GET /v2/templates`: pool images in node order, then the namespace's built templates by name. */
export function listTemplates(service: Service, call: Call): Answer {
  const { settings, since } = service;
  const { images, built } = service.templates();
  return json(200, [
    ...[...images.values()].map((image) => poolTemplate(settings, image, since)),
    ...[...built(call.namespace).values()].map((template) => builtTemplate(settings, template, since)),
  ]);
}

/** `GET /templates/{templateID}` */
export function getTemplate(service: Service, call: Call, asked: string): Answer {
  return json(200, templateDetail(service.settings, requireBuilt(service, call, asked), service.since));
}

/** `PATCH /templates/{templateID}`: who may see a template is decided by its namespace, `public` changes nothing. */
export function patchTemplate(service: Service, call: Call, asked: string): Answer {
  requireBuilt(service, call, asked);
  return empty(200);
}

/** `PATCH /v2/templates/{templateID}` */
export function patchTemplateV2(service: Service, call: Call, asked: string): Answer {
  return json(200, { names: namesOf(requireBuilt(service, call, asked)) });
}

/** `GET /templates/aliases/{alias}`: the alias table, then built templates, then pool images. */
export function findAlias(service: Service, call: Call, asked: string): Answer {
  const image = service.settings.aliases.byAlias.get(asked)?.image;
  if (image !== undefined) {
    return json(200, { templateID: image, public: true });
  }
  const { images, built } = service.templates();
  const exact = built(call.namespace).has(asked) || images.has(asked);
  const templateID = exact ? asked : findBuild(built(call.namespace), asked)?.template.name;
  if (templateID === undefined) {
    throw new E2bError("not_found", `template ${JSON.stringify(asked)} not found`);
  }
  return json(200, { templateID, public: true });
}
