import type { IndexFilter } from "../node/node.ts";
import { Refusal } from "../node/refusal.ts";
import type { Sandbox } from "../node/sandbox.ts";
import { readClaim, readPoolsBody, readRenew } from "./body.ts";
import { createCaptureRoutes } from "./capture-routes.ts";
import { replyJson, replyNothing, replyText } from "./replies.ts";
import { handOver, type Route, type RouteCall, type RouteOptions } from "./route.ts";
import { createTemplateRoutes } from "./template-routes.ts";

/** The routes of node API §4 that this node has, but for the relay, which is an upgrade. */
export function createRoutes(options: RouteOptions): readonly Route[] {
  const { node, access, address } = options;
  const known = (call: RouteCall): Sandbox => {
    const sandbox = node.find(call.values[0] ?? "");
    const caller = access.sandbox(call.request.headers.authorization, sandbox);
    if (sandbox === undefined || caller === undefined) {
      throw new Refusal(404, "unknown sandbox");
    }
    return sandbox;
  };
  const verb = (name: string, run: (sandbox: Sandbox) => Promise<void>): Route => ({
    method: "POST",
    path: `/v1/sandboxes/{}/${name}`,
    failure: `${name} failed`,
    handle: async (call) => {
      await run(known(call));
      replyNothing(call.response);
    },
  });
  return [
    {
      method: "GET",
      path: "/healthz",
      failure: "health failed",
      handle: ({ response }) => replyText(response, 200, "ok"),
    },
    {
      method: "POST",
      path: "/v1/claim",
      failure: "provisioning failed",
      handle: async ({ request, response }) => {
        const caller = access.token(request.headers.authorization);
        const claim = await readClaim(request);
        await handOver(
          node,
          response,
          (signal) => node.claim(claim, caller, signal),
          (reply) => ("id" in reply ? [reply.id] : []),
        );
      },
    },
    {
      method: "GET",
      path: "/v1/sandboxes",
      failure: "sandbox lookup failed",
      handle: ({ request, response, query }) => {
        const caller = access.token(request.headers.authorization);
        const filter = readFilter(query);
        const rows = node.list(caller.kind === "tenant" ? { ...filter, tenant: caller.tenant.name } : filter);
        replyJson(response, 200, { sandboxes: rows });
      },
    },
    {
      method: "GET",
      path: "/v1/sandboxes/{}",
      failure: "sandbox lookup failed",
      handle: ({ request, response, values }) => {
        access.root(request.headers.authorization);
        const sandbox = node.find(values[0] ?? "");
        if (sandbox === undefined) {
          throw new Refusal(404, "unknown sandbox");
        }
        const row = sandbox.row();
        replyJson(response, 200, access.guarded ? { ...row, token: sandbox.facts.token } : row);
      },
    },
    {
      method: "GET",
      path: "/v1/sandboxes/{}/stats",
      failure: "sandbox lookup failed",
      handle: ({ request, response, values }) => {
        access.root(request.headers.authorization);
        const sandbox = node.find(values[0] ?? "");
        if (sandbox === undefined) {
          throw new Refusal(404, "unknown sandbox");
        }
        replyJson(response, 200, sandbox.stats());
      },
    },
    {
      method: "GET",
      path: "/v1/sandboxes/{}/owner",
      failure: "sandbox lookup failed",
      handle: ({ request, response, values }) => {
        const sandbox = node.find(values[0] ?? "");
        if (sandbox === undefined || access.sandbox(request.headers.authorization, sandbox) !== "sandbox") {
          // A bearer is asked for first, as on every route of a sandbox.
          access.sandbox(request.headers.authorization, undefined);
          throw new Refusal(404, "not owned here");
        }
        replyJson(response, 200, { owner_addr: address() ?? "" });
      },
    },
    verb("release", (sandbox) => node.release(sandbox)),
    verb("hibernate", (sandbox) => node.hibernate(sandbox)),
    verb("wake", (sandbox) => node.wake(sandbox)),
    {
      method: "POST",
      path: "/v1/sandboxes/{}/renew",
      failure: "renew failed",
      handle: async (call) => {
        const sandbox = known(call);
        const deadline = node.renew(sandbox, await readRenew(call.request));
        replyJson(call.response, 200, { deadline: new Date(deadline).toISOString() });
      },
    },
    {
      method: "GET",
      path: "/v1/info",
      failure: "info failed",
      handle: ({ request, response }) => {
        access.root(request.headers.authorization);
        replyJson(response, 200, node.info());
      },
    },
    {
      method: "GET",
      path: "/v1/peers",
      failure: "peers failed",
      handle: ({ request, response }) => {
        access.token(request.headers.authorization);
        replyJson(response, 200, { peers: node.info().peers });
      },
    },
    {
      method: "PUT",
      path: "/v1/pools",
      failure: "set pools failed",
      handle: async ({ request, response }) => {
        access.root(request.headers.authorization);
        replyJson(response, 200, await node.configurePools(await readPoolsBody(request)));
      },
    },
    ...(["POST", "DELETE"] as const).map((method): Route => ({
      method,
      path: "/v1/drain",
      failure: "drain failed",
      handle: async ({ request, response }) => {
        access.root(request.headers.authorization);
        replyJson(response, 200, await node.drain(method === "POST"));
      },
    })),
    {
      method: "GET",
      path: "/metrics",
      failure: "metrics failed",
      handle: async ({ request, response }) => {
        access.root(request.headers.authorization);
        replyText(response, 200, await node.metrics.render(), { "Content-Type": "text/plain; version=0.0.4" });
      },
    },
    ...createCaptureRoutes(options),
    ...createTemplateRoutes(options),
  ];
}

/** @throws Refusal 400 */
function readFilter(query: URLSearchParams): IndexFilter {
  const metadata = new Map<string, string>();
  for (const pair of query.getAll("metadata")) {
    const at = pair.indexOf("=");
    if (at < 1) {
      throw new Refusal(400, "metadata filters have the form <key>=<value>");
    }
    const key = pair.slice(0, at);
    if (metadata.has(key)) {
      throw new Refusal(400, `metadata filter ${JSON.stringify(key)} is there twice`);
    }
    metadata.set(key, pair.slice(at + 1));
  }
  const tenant = query.get("tenant") ?? "";
  return { claimRef: query.get("claim_ref") ?? "", metadata, ...(tenant === "" ? {} : { tenant }) };
}
