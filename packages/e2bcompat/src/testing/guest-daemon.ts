import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { text } from "node:stream/consumers";
import type { ScriptedNode } from "@org/scale/testing";

/** One request as a guest's daemon saw it. */
export interface DaemonCall {
  readonly path: string;
  readonly token: string | undefined;
  // Tests know what they asked for, and assert on every field they use.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any;
}

type DaemonAnswer = number | object;

/** What the daemon answers, by path: a status or a document, perhaps by the token that is presented. */
export type DaemonAnswers = Readonly<Record<string, DaemonAnswer | ((token: string | undefined) => DaemonAnswer)>>;

const USUAL: DaemonAnswers = { "/init": 204, "/envs": {} };

/** Puts a daemon into every guest of a node, and remembers what it was asked. */
export function guestDaemon(node: ScriptedNode, answers: DaemonAnswers = {}): { readonly calls: DaemonCall[] } {
  const calls: DaemonCall[] = [];
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = request.url ?? "";
    const said = await text(request);
    const header = request.headers["x-access-token"];
    const token = typeof header === "string" ? header : undefined;
    const body: unknown = said === "" ? undefined : JSON.parse(said);
    calls.push({ path, token, body });
    const chosen = { ...USUAL, ...answers }[path] ?? 404;
    const answer: unknown = typeof chosen === "function" ? chosen(token) : chosen;
    if (typeof answer === "number") {
      response.writeHead(answer).end();
      return;
    }
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
  };
  const daemon = createServer((request, response) => void serve(request, response));
  node.guest(49_983, (socket: Duplex) => daemon.emit("connection", socket));
  return { calls };
}
