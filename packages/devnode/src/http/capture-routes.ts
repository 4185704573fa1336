import type { Sandbox } from "../node/sandbox.ts";
import type { Caller } from "../node/access.ts";
import { Refusal } from "../node/refusal.ts";
import { readCheckpointBody, readCheckpointClaim, readFork, readPromote } from "./body.ts";
import { replyJson, replyNothing } from "./replies.ts";
import { handOver, type Route, type RouteOptions } from "./route.ts";

/** Forks, checkpoints and promotions: node API §7.5 and §8.1 to §8.5, and the probe of §8.8. */
export function createCaptureRoutes({ node, access }: RouteOptions): readonly Route[] {
  /** The sandbox of a request that proves its right in the body. */
  const owned = (caller: Caller, id: string | undefined, bodyToken: string | undefined): Sandbox => {
    const sandbox = node.find(id ?? "");
    if (sandbox === undefined || !access.owns(caller, sandbox, bodyToken)) {
      throw new Refusal(404, "unknown sandbox");
    }
    return sandbox;
  };
  return [
    {
      method: "POST",
      path: "/v1/sandboxes/{}/fork",
      failure: "fork failed",
      handle: async ({ request, response, values: [id] }) => {
        const caller = access.token(request.headers.authorization);
        const fork = await readFork(request);
        const sandbox = owned(caller, id, fork.token);
        await handOver(
          node,
          response,
          (signal) => node.fork(sandbox, fork, signal),
          (reply) => reply.children.map((child) => child.id),
        );
      },
    },
    {
      method: "POST",
      path: "/v1/sandboxes/{}/checkpoint",
      failure: "checkpoint failed",
      handle: async ({ request, response, values: [id] }) => {
        const caller = access.token(request.headers.authorization);
        const body = await readCheckpointBody(request);
        replyJson(response, 200, { checkpoint: await node.checkpoint(owned(caller, id, body.token), body) });
      },
    },
    {
      method: "POST",
      path: "/v1/sandboxes/{}/promote",
      failure: "promote failed",
      handle: async ({ request, response, values: [id] }) => {
        const caller = access.token(request.headers.authorization);
        const body = await readPromote(request);
        replyJson(response, 200, await node.promote(owned(caller, id, body.token), body));
      },
    },
    {
      method: "GET",
      path: "/v1/checkpoints",
      failure: "list checkpoints failed",
      handle: ({ request, response }) => {
        const caller = access.token(request.headers.authorization);
        replyJson(response, 200, { checkpoints: node.checkpoints(caller) });
      },
    },
    {
      method: "POST",
      path: "/v1/checkpoints/{}/claim",
      failure: "provisioning failed",
      handle: async ({ request, response, values: [id = ""] }) => {
        const caller = access.token(request.headers.authorization);
        const claim = await readCheckpointClaim(request);
        await handOver(
          node,
          response,
          (signal) => node.claimCheckpoint(id, claim, caller, signal),
          (reply) => ("id" in reply ? [reply.id] : []),
        );
      },
    },
    {
      method: "DELETE",
      path: "/v1/checkpoints/{}",
      failure: "delete checkpoint failed",
      handle: async ({ request, response, query, values: [id = ""] }) => {
        const caller = access.token(request.headers.authorization);
        const forward = (query.get("no_forward") ?? "") === "";
        await node.deleteCheckpoint(id, caller, forward);
        replyNothing(response);
      },
    },
    {
      // Without a key of the mesh to prove themselves with, nodes ask each other openly; ids cannot be guessed.
      method: "HEAD",
      path: "/v1/checkpoints/{}/blob",
      failure: "sandbox lookup failed",
      handle: ({ response, values: [id = ""] }) => {
        response.writeHead(node.holdsCheckpoint(id) ? 200 : 404, { "Content-Length": 0 });
        response.end();
      },
    },
  ];
}
