import { json } from "../answer.ts";
import type { Answer } from "../answer.ts";
import { buildIdOf } from "../build-id.ts";
import type { Call } from "../call.ts";
import { E2bError } from "../errors.ts";
import { builtTemplate, poolTemplate, rfc3339 } from "../present.ts";
import type { Service } from "../service.ts";

/** `GET /templates` and `GET /v2/templates`: pool images in node order, then the namespace's built templates by name. */
export function listTemplates(service: Service, call: Call, startedMs: number): Answer {
  const { settings } = service;
  const { images, built } = service.templates();
  const since = rfc3339(startedMs);
  return json(200, [
    ...[...images.values()].map((image) => poolTemplate(settings, image, since)),
    ...[...built(call.namespace).values()].map((template) =>
      builtTemplate(settings, template, buildIdOf(template.current.contentDigest), since),
    ),
  ]);
}

/** `GET /templates/aliases/{alias}`: the alias table, then built templates, then pool images. */
export function findAlias(service: Service, call: Call, asked: string): Answer {
  const image = service.settings.aliases.byAlias.get(asked)?.image;
  if (image !== undefined) {
    return json(200, { templateID: image, public: true });
  }
  const { images, built } = service.templates();
  if (built(call.namespace).has(asked) || images.has(asked)) {
    return json(200, { templateID: asked, public: true });
  }
  throw new E2bError("not_found", `template ${JSON.stringify(asked)} not found`);
}
