import { empty, json } from "../answer.ts";
import type { Answer } from "../answer.ts";
import { builtPrefix, BUILT_PREFIX } from "../built-template.ts";
import { buildLine, buildRequestReply, buildStatusReply } from "../builds/build-reply.ts";
import type { BuildLogQuery, BuildLogTimeQuery } from "../builds/build-log.ts";
import type { BuildRecord, Builds } from "../builds/build-registry.ts";
import type { BuildStart, TemplateRequest } from "../builds/build-requests.ts";
import { sizeFor } from "../builds/build-size.ts";
import { parseSteps } from "../builds/build-steps.ts";
import { templateName } from "../builds/template-name.ts";
import type { Call } from "../call.ts";
import { E2bError } from "../errors.ts";
import type { Service } from "../service.ts";
import { buildsOff } from "./refused.ts";
import { checkTags } from "./tags.ts";

/** Nodes keep tags as labels, and so many of them. */
const MAX_TAGS = 16;

/** The builds of this deployment. Throws `not_found` when they are off. */
export function buildsOf({ builds }: Service): Builds {
  if (builds === undefined) {
    throw buildsOff();
  }
  return builds;
}

/** `POST /v3/templates`: a build that waits to be started. */
export function requestBuild(service: Service, call: Call, body: TemplateRequest): Answer {
  const builds = buildsOf(service);
  const { name, tag } = templateName(call.namespace, body.name ?? body.alias ?? "");
  if (service.settings.aliases.byAlias.has(name) || service.templates().images.has(name)) {
    // A sandbox created by this name would never start from the build.
    throw new E2bError("bad_request", `name: ${JSON.stringify(name)} is taken by a pool image or its alias`);
  }
  const asked = [...(tag === undefined ? [] : [tag]), ...(body.tags ?? [])];
  const tags = asked.length === 0 ? [] : checkTags(asked);
  if (tags.length > MAX_TAGS) {
    throw new E2bError("bad_request", `tags: at most ${MAX_TAGS} fit on a template`);
  }
  const { cpuCount, memoryMB } = body;
  const { namespace } = call;
  const record = builds.request({ namespace, template: name, tags, asked: { cpuCount, memoryMB } });
  if ((body.minFreeDiskMb ?? 0) > 0) {
    record.log.add("warn", "base", "minFreeDiskMb has no effect: the nodes decide how much disk there is");
  }
  return json(202, buildRequestReply(record));
}

function imageOf({ fromImage }: BuildStart): string {
  const image = fromImage.trim();
  if (image.startsWith(BUILT_PREFIX)) {
    throw new E2bError("bad_request", "fromImage: a built template is no image");
  }
  return image;
}

/** `POST /v2/templates/{templateID}/builds/{buildID}`: answers while the build goes on. */
export function startBuild(service: Service, call: Call, asked: string, buildId: string, body: BuildStart): Answer {
  const builds = buildsOf(service);
  const image = imageOf(body);
  const steps = parseSteps(body.steps ?? []);
  if (service.uploads === undefined && steps.some(({ kind }) => kind === "COPY")) {
    throw new E2bError("bad_request", "steps: COPY needs an upload store: set --e2b-build-dir");
  }
  const record = builds.find(call.namespace, asked, buildId);
  const alias = service.settings.aliases.byAlias.get(image);
  const { namespace, template, tags } = record;
  builds.start(record, {
    namespace,
    template,
    tags,
    stamped: `${builtPrefix(namespace)}${template}`,
    pool: { template: alias?.image ?? image, net: "none", size: sizeFor(record.asked) ?? alias?.size ?? "small" },
    steps,
    startCommand: body.startCmd || undefined,
    readyCommand: body.readyCmd || undefined,
  });
  return empty(202);
}

function findBuild(service: Service, call: Call, asked: string, buildId: string): BuildRecord {
  return buildsOf(service).find(call.namespace, asked, buildId);
}

/** `GET /templates/{templateID}/builds/{buildID}/status` */
export function buildStatus(
  service: Service,
  call: Call,
  asked: string,
  buildId: string,
  query: BuildLogQuery,
): Answer {
  const record = findBuild(service, call, asked, buildId);
  return json(200, buildStatusReply(record, record.log.page(query)));
}

/** `GET /templates/{templateID}/builds/{buildID}/logs` */
export function buildLogs(
  service: Service,
  call: Call,
  asked: string,
  buildId: string,
  query: BuildLogTimeQuery,
): Answer {
  return json(200, { logs: findBuild(service, call, asked, buildId).log.pageByTime(query).map(buildLine) });
}
