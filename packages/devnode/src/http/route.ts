import type { IncomingMessage, ServerResponse } from "node:http";
import type { Access } from "../node/access.ts";
import type { Node } from "../node/node.ts";
import { replyJson } from "./replies.ts";

/** One request, taken apart. */
export interface RouteCall {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Values of the pattern's `{}` parts, decoded. */
  readonly values: readonly string[];
  readonly query: URLSearchParams;
}

/** One route. */
export interface Route {
  readonly method: string;
  /** Path parts; `{}` stands for any one part. */
  readonly path: string;
  /** Message of a 500. */
  readonly failure: string;
  readonly handle: (call: RouteCall) => Promise<void> | void;
}

/** What the routes need. */
export interface RouteOptions {
  readonly node: Node;
  readonly access: Access;
  readonly address: () => string | undefined;
}

/**
 * Answers with new sandboxes. Nobody else learns of a sandbox whose reply is not received: it would hold its place until
 * its lease ends, so those of a client that left are released.
 */
export async function handOver<T extends object>(
  node: Node,
  response: ServerResponse,
  make: (signal: AbortSignal) => Promise<T>,
  idsOf: (reply: T) => readonly string[],
): Promise<void> {
  const left = new AbortController();
  let made: readonly string[] = [];
  const abandon = (): void => {
    for (const id of made) {
      const sandbox = node.find(id);
      if (sandbox !== undefined) {
        void node.release(sandbox).catch(() => undefined);
      }
    }
  };
  response.once("close", () => {
    if (!response.writableFinished) {
      left.abort();
      abandon();
    }
  });
  if (response.destroyed) {
    return;
  }
  const reply = await make(left.signal);
  made = idsOf(reply);
  if (left.signal.aborted) {
    abandon();
    return;
  }
  replyJson(response, 200, reply);
}
