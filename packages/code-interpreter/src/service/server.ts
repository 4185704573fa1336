import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";

import { type Body, readBody } from "./body.ts";
import type { Context } from "./context.ts";
import { type Contexts, createContexts } from "./contexts.ts";
import { Refusal } from "./errors.ts";
import { createGuestVariables } from "./guest-variables.ts";
import { type KernelCommands, languageOf, unsupported } from "./languages.ts";
import { type Emit, errorMessage, lineOf } from "./messages.ts";

export { kernelCommands, kernelFilesIn } from "./languages.ts";

/** Silence after which a line is sent that means nothing: clients and proxies give up on silent answers. */
const KEEPALIVE_MS = 15_000;

/** Options of {@link createInterpreter}. */
export interface InterpreterOptions {
  readonly commands: KernelCommands;
  /** Directory of contexts that name none. */
  readonly cwd: string;
  /** Port of the guest's daemon, which knows the sandbox's variables and its token. */
  readonly daemonPort: number;
  /** @default 15000 */
  readonly keepaliveMs?: number | undefined;
  /**
   * How long an interrupted cell may go on before its kernel is ended.
   * @default 5000
   */
  readonly interruptWaitMs?: number | undefined;
}

/** The code interpreter's HTTP surface. */
export interface Interpreter {
  /** Not listening yet. */
  readonly server: Server;
  /** Ends every kernel and every answer. */
  close(): void;
}

type Route = (req: IncomingMessage, res: ServerResponse, id: string) => Promise<void> | void;

/** Makes it. */
export function createInterpreter(options: InterpreterOptions): Interpreter {
  const contexts = createContexts(options);
  const guest = createGuestVariables(options.daemonPort);

  const execute: Route = async (req, res) => {
    const body = await readBody(req);
    const code = body.text("code");
    if (code === undefined) throw new Refusal("bad_request", "code is required");
    const asked = target(contexts, body);
    const variables = body.texts("env_vars");
    const globals = await guest.read(headerOf(req, "x-access-token"));
    await answer(res, options.keepaliveMs ?? KEEPALIVE_MS, async (emit, signal) => {
      if ("refused" in asked) await emit(errorMessage("UnsupportedLanguage", asked.refused));
      else await asked.context.execute({ code, globals, variables }, emit, { signal });
    });
  };
  const restart: Route = (_req, res, id) => {
    contexts.find(id).restart();
    sendJson(res, 200, null);
  };
  const routes: readonly { readonly path: RegExp; readonly methods: Readonly<Record<string, Route>> }[] = [
    { path: /^\/health$/, methods: { GET: (_req, res) => sendJson(res, 200, "OK") } },
    { path: /^\/execute$/, methods: { POST: execute } },
    {
      path: /^\/contexts$/,
      methods: {
        GET: (_req, res) => sendJson(res, 200, contexts.list().map(contextBody)),
        POST: async (req, res) => {
          const body = await readBody(req);
          const context = await contexts.create(body.text("language"), body.text("cwd"));
          sendJson(res, 200, contextBody(context));
        },
      },
    },
    {
      path: /^\/contexts\/([^/]+)$/,
      methods: {
        DELETE: (_req, res, id) => {
          contexts.remove(id);
          sendJson(res, 200, null);
        },
      },
    },
    { path: /^\/contexts\/([^/]+)\/restart$/, methods: { POST: restart } },
  ];

  const serve = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const path = (req.url ?? "/").replace(/\?.*$/s, "");
    for (const route of routes) {
      const match = route.path.exec(path);
      if (match === null) continue;
      const method = route.methods[req.method ?? ""];
      if (method !== undefined) return method(req, res, match[1] ?? "");
      res.setHeader("allow", Object.keys(route.methods).join(", "));
      return sendError(res, 405, "method not allowed");
    }
    throw new Refusal("not_found", "not found");
  };
  const server = createServer((req, res) => {
    res.on("error", () => undefined);
    serve(req, res).catch((error: unknown) => {
      if (res.headersSent) {
        res.destroy();
        return;
      }
      if (!req.complete) {
        req.resume();
        res.setHeader("connection", "close");
      }
      if (error instanceof Refusal) sendError(res, error.status, error.message);
      else sendError(res, 500, "internal error");
    });
  });
  // A cell may take as long as it likes.
  server.requestTimeout = 0;
  return {
    server,
    close: () => {
      contexts.close();
      guest.close();
      server.close();
      server.closeAllConnections();
    },
  };
}

/** The context that a request means, or why there is none. @throws Refusal */
function target(contexts: Contexts, body: Body): { readonly context: Context } | { readonly refused: string } {
  const id = body.text("context_id");
  const name = body.text("language");
  if (id !== undefined && name !== undefined) {
    throw new Refusal("bad_request", "give context_id or language, not both");
  }
  if (id !== undefined) return { context: contexts.find(id) };
  const language = languageOf(name);
  return language === undefined ? { refused: unsupported(name ?? "") } : { context: contexts.defaultOf(language) };
}

/** Answers with one line per message. The caller's going away aborts the work; a slow caller slows it down. */
async function answer(
  res: ServerResponse,
  keepaliveMs: number,
  work: (emit: Emit, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const gone = new AbortController();
  res.once("close", () => gone.abort());
  if (res.closed) gone.abort();
  res.writeHead(200, { "content-type": "application/x-ndjson; charset=utf-8", "cache-control": "no-store" });
  res.flushHeaders();
  const emit: Emit = async (message) => {
    keepalive.refresh();
    if (gone.signal.aborted || res.write(lineOf(message))) return;
    await new Promise<void>((resolve) => {
      const settle = (): void => {
        res.off("drain", settle);
        res.off("close", settle);
        resolve();
      };
      res.on("drain", settle);
      res.on("close", settle);
    });
  };
  const keepalive = setInterval(() => {
    if (!res.writableNeedDrain) res.write(lineOf({ type: "keepalive" }));
  }, keepaliveMs);
  try {
    await work(emit, gone.signal);
    await emit({ type: "end_of_execution" });
    res.end();
  } finally {
    clearInterval(keepalive);
  }
}

function contextBody({ id, language, cwd }: Context): { id: string; language: string; cwd: string } {
  return { id, language, cwd };
}

function headerOf(req: IncomingMessage, name: string): string | undefined {
  const value = req.headers[name];
  return typeof value === "string" ? value : undefined;
}

function sendJson(res: ServerResponse, status: number, value: unknown): void {
  const text = JSON.stringify(value);
  res.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(text) });
  res.end(text);
}

function sendError(res: ServerResponse, status: number, message: string): void {
  sendJson(res, status, { code: status, message });
}
