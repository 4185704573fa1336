import type { TemplateTarget } from "../node/node.ts";
import { readPoolKey } from "../node/pool-key.ts";
import { Refusal } from "../node/refusal.ts";
import { readInstanceMetadata, readLabels } from "./body.ts";
import { replyJson, replyNothing } from "./replies.ts";
import type { Route, RouteOptions } from "./route.ts";

/** Promoted templates and what a guest is told about itself: node API §8.6, §8.7 and §7.7. */
export function createTemplateRoutes({ node, access }: RouteOptions): readonly Route[] {
  return [
    {
      method: "DELETE",
      path: "/v1/templates",
      failure: "delete template failed",
      handle: async ({ request, response, query }) => {
        const caller = access.token(request.headers.authorization);
        const mayRedirect = (query.get("no_redirect") ?? "") === "";
        const redirect = await node.deleteTemplate(readTarget(query), caller, mayRedirect);
        if (redirect === undefined) {
          replyNothing(response);
        } else {
          replyJson(response, 200, redirect);
        }
      },
    },
    {
      method: "PUT",
      path: "/v1/templates/labels",
      failure: "set template labels failed",
      handle: async ({ request, response, query }) => {
        const caller = access.token(request.headers.authorization);
        const { labels } = await readLabels(request);
        await node.labelTemplate(readTarget(query), caller, labels);
        replyNothing(response);
      },
    },
    {
      method: "PUT",
      path: "/v1/sandboxes/{}/instance-metadata",
      failure: "instance metadata failed",
      handle: async ({ request, response, values: [id = ""] }) => {
        access.root(request.headers.authorization);
        const document = await readInstanceMetadata(request);
        const sandbox = node.find(id);
        if (sandbox === undefined) {
          throw new Refusal(404, "unknown sandbox");
        }
        await sandbox.describe(document);
        replyNothing(response);
      },
    },
  ];
}

/** @throws Refusal 400 */
function readTarget(query: URLSearchParams): TemplateTarget {
  const text = (name: string): string => query.get(name) ?? "";
  return {
    key: readPoolKey({ template: text("template"), net: text("net"), size: text("size") }),
    digest: text("digest"),
  };
}
