import { version as nodeVersion } from "node:process";
import { Hono } from "hono";
import type { Context } from "hono";
import type { ApiHandler, ApiRoute } from "./api-call.ts";
import { objectAnswer } from "./answer.ts";
import type { ApiEnv, ServerVersion } from "./api-server.ts";
import { methodNotAllowed, unknownResource } from "./api-status.ts";
import { createDiscovery } from "./discovery.ts";
import type { FilterChain } from "./filter-chain.ts";
import { GROUP, GROUP_VERSION, RESOURCE } from "./group.ts";
import { answerCheck, answerHealth } from "./health.ts";
import type { HealthEndpoint } from "./health.ts";
import { negotiatePlain } from "./negotiation.ts";
import { createOpenApi, OPENAPI_DOCUMENT, OPENAPI_ROOT } from "./openapi/handlers.ts";
import { isWatch } from "./request-info.ts";
import { RESOURCE_TABLE } from "./resource-table.ts";
import { createSandbox } from "./verbs/create-sandbox.ts";
import { deleteSandbox } from "./verbs/delete-sandbox.ts";
import { patchSandbox } from "./verbs/patch-sandbox.ts";
import { subresource } from "./verbs/subresources.ts";
import type { VerbParts } from "./verbs/verb-parts.ts";
import { versionDocument } from "./version-document.ts";

/** What the application is made of. */
export interface AppParts {
  readonly chain: FilterChain;
  readonly verbs: VerbParts;
  readonly health: readonly HealthEndpoint[];
  readonly version: ServerVersion;
  readonly serverAddress: string | undefined;
  readonly metrics: ApiHandler;
}

const GROUP_ROOT = `/apis/${GROUP}`;
const ROOT = `/apis/${GROUP_VERSION}`;

/** Every path of the API, each answered inside of the filter chain. */
export function createApp(parts: AppParts): Hono<ApiEnv> {
  const { chain } = parts;
  const app = new Hono<ApiEnv>({ strict: false });
  const through =
    (handler: ApiHandler) =>
    (context: Context<ApiEnv>): Promise<Response> =>
      chain.answer(context, handler);

  const routes = [...generalRoutes(parts), ...sandboxRoutes(parts.verbs)];
  const paths = shownPaths(routes);
  const missing: ApiHandler = ({ accept }) => objectAnswer({ paths }, negotiatePlain(accept), { status: 404 });
  const root: ApiHandler = ({ accept }) => objectAnswer({ paths }, negotiatePlain(accept));
  for (const { method, path, answer } of [...routes, { method: "GET", path: "/", answer: root }]) {
    app.on(method, path, through(answer));
  }
  const refused = through(() => {
    throw methodNotAllowed();
  });
  for (const path of new Set(["/", ...routes.map((route) => route.path)])) {
    app.all(path, refused);
  }
  app.all(
    `${GROUP_ROOT}/*`,
    through(() => {
      throw unknownResource();
    }),
  );
  // A route of its own, and not only Hono's handler for unknown paths, which an application around this one replaces.
  app.all("*", through(missing));
  return app;
}

function generalRoutes({ health, version, serverAddress, metrics }: AppParts): readonly ApiRoute[] {
  const discovery = createDiscovery(serverAddress);
  const openApi = createOpenApi(version.version);
  const build = versionDocument(version, nodeVersion);
  return [
    { method: "GET", path: "/apis", answer: discovery.groups },
    { method: "GET", path: GROUP_ROOT, answer: discovery.group },
    { method: "GET", path: ROOT, answer: discovery.resources },
    { method: "GET", path: "/metrics", answer: metrics },
    { method: "GET", path: OPENAPI_ROOT, answer: openApi.root },
    { method: "GET", path: OPENAPI_DOCUMENT, answer: openApi.document },
    { method: "GET", path: "/version", answer: (call) => objectAnswer(build, call.negotiated()) },
    ...health.flatMap((endpoint): readonly ApiRoute[] => [
      { method: "GET", path: `/${endpoint.name}`, answer: answerHealth(endpoint) },
      ...endpoint.checks.map((check): ApiRoute => {
        return { method: "GET", path: `/${endpoint.name}/${check.name}`, answer: answerCheck(check) };
      }),
    ]),
  ];
}

/** Routes of sandboxes. Each takes only what authorization was asked about: the resource and the subresource. */
function sandboxRoutes(verbs: VerbParts): readonly ApiRoute[] {
  return unguardedRoutes(verbs).map(({ subresource: expected, answer, ...route }) => ({
    ...route,
    answer: (call) => {
      const { attributes } = call.info;
      if (attributes.kind !== "resource" || attributes.resource !== RESOURCE || attributes.subresource !== expected) {
        throw unknownResource();
      }
      return answer(call);
    },
  }));
}

interface SandboxRoute extends ApiRoute {
  readonly subresource?: string;
}

function unguardedRoutes(verbs: VerbParts): readonly SandboxRoute[] {
  const { reads } = verbs;
  const read =
    (how: "get" | "list" | "watch"): ApiHandler =>
    (call) => {
      const { namespace, name, query } = call.info;
      return reads[how]({
        ...(namespace !== "" && { namespace }),
        ...(name !== "" && { name }),
        query,
        negotiated: call.negotiated(),
        signal: call.signal,
      });
    };
  const many: ApiHandler = (call) => read(isWatch(call.info) ? "watch" : "list")(call);
  const one = `${ROOT}/namespaces/:namespace/${RESOURCE}/:name`;
  return [
    { method: "GET", path: `${ROOT}/${RESOURCE}`, answer: many },
    { method: "GET", path: `${ROOT}/namespaces/:namespace/${RESOURCE}`, answer: many },
    {
      method: "POST",
      path: `${ROOT}/namespaces/:namespace/${RESOURCE}`,
      answer: (call) => createSandbox(verbs, call),
    },
    { method: "GET", path: one, answer: read("get") },
    { method: "DELETE", path: one, answer: (call) => deleteSandbox(verbs, call) },
    { method: "PATCH", path: one, answer: (call) => patchSandbox(verbs, call) },
    ...RESOURCE_TABLE.subresources.map((row): SandboxRoute => {
      return { method: "POST", path: `${one}/${row.name}`, subresource: row.name, answer: subresource(verbs, row) };
    }),
    { method: "GET", path: `${ROOT}/watch/${RESOURCE}`, answer: read("watch") },
    { method: "GET", path: `${ROOT}/watch/namespaces/:namespace/${RESOURCE}`, answer: read("watch") },
    { method: "GET", path: `${ROOT}/watch/namespaces/:namespace/${RESOURCE}/:name`, answer: read("watch") },
  ];
}

/** The paths that clients are told of: those without variables, in order. */
function shownPaths(routes: readonly ApiRoute[]): readonly string[] {
  const fixed = routes.map(({ path }) => path).filter((path) => !path.includes(":") && !path.endsWith(RESOURCE));
  return [...new Set(fixed)].sort();
}
