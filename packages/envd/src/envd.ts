import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { tmpdir } from "node:os";

import { Filesystem, GUEST_BOOT_PATH, GUEST_LOGS_PATH, MAX_LOG_LINES, Process } from "@org/envd-client";

import { createBoot } from "./boot.ts";
import { asEnvdError, type EnvdError } from "./errors.ts";
import { createFileAttributes } from "./files/attributes.ts";
import { checkFileAccess, fileUser } from "./files/access.ts";
import { download } from "./files/download.ts";
import { upload } from "./files/upload.ts";
import { createFilesystemService } from "./filesystem/service.ts";
import type { Guest } from "./guest/guest.ts";
import { createIdentity } from "./guest/identity.ts";
import { createPathMap } from "./guest/paths.ts";
import { defaultVariables, sameSecret } from "./guest/state.ts";
import { createUserDatabase } from "./guest/users.ts";
import { basicUserName, createUserLookup } from "./http/basic-user.ts";
import { handleCors } from "./http/cors.ts";
import { type Exchange, sendError, sendJson, sendProblem } from "./http/reply.ts";
import { applyInit } from "./init.ts";
import { createLogRing } from "./logs/log-ring.ts";
import { sendLogs } from "./logs/route.ts";
import { createSystemMetrics, metricsBody } from "./metrics.ts";
import type { EnvdLogger, EnvdOptions } from "./options.ts";
import { createPipePool } from "./process/pipe-pool.ts";
import { createProcessService } from "./process/service.ts";
import { createPtyLoader } from "./process/pty-module.ts";
import { createDispatcher } from "./rpc/dispatcher.ts";
import { createLibcLoader } from "./system/libc.ts";
import { createWatching } from "./watch/service.ts";

/** The daemon of one guest. */
export interface Envd extends AsyncDisposable {
  /** Serves every request; never throws. See `createEnvdServer` for a server that fits. */
  readonly listener: RequestListener;
  /**
   * Carries out the boot document among the guest's files, if there is one (see `bootFile`): user, directory and
   * variables, then the start command. Resolves once that is of use, or after a few seconds; never rejects. To be called
   * once, when the guest starts.
   */
  boot(): Promise<void>;
  /** Kills all commands and cuts all open answers, without an end frame. Requests after it are answered 503. */
  close(): Promise<void>;
}

const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const DEFAULT_MESSAGE_BYTES = 64 * 1024 * 1024;
const DEFAULT_RETENTION_MS = 30_000;
const LOG_BYTES = 1024 * 1024;
const LOG_LINE_BYTES = 16 * 1024;
const UNAUTHORIZED = "unauthorized access, please provide a valid access token or method signing if supported";
/** Routes that check the caller themselves, or need no check. */
const OPEN_ROUTES = new Set(["GET /health", "GET /files", "POST /files", "POST /init"]);
const NO_STORE = { "cache-control": "no-store" };
const silent: EnvdLogger = { warn: () => undefined, error: () => undefined };

type Route = (exchange: Exchange) => Promise<void> | void;

/**
 * Creates a daemon; nothing is started, opened or read before the first request.
 *
 * @throws TypeError for a path mapping that is not absolute
 */
export function createEnvd(options: EnvdOptions): Envd {
  const logger = options.logger ?? silent;
  const now = options.now ?? Date.now;
  const version = options.version ?? "0.8.0";
  const metrics = options.metrics ?? createSystemMetrics();
  const libc = createLibcLoader(options.loadFfi);
  const guest: Guest = {
    state: {
      accessToken: options.accessToken,
      defaultUser: options.defaultUser ?? "root",
      defaultWorkdir: options.defaultWorkdir,
      bootVariables: {},
      userVariables: {},
      initializedAt: undefined,
      nodeVariables: options.environment ?? {},
      ownVariables: {
        E2B_SANDBOX: "true",
        E2B_SANDBOX_ID: options.sandboxId,
        E2B_TEMPLATE_ID: options.templateId,
      },
    },
    users: createUserDatabase({
      passwdFile: options.passwdFile ?? "/etc/passwd",
      groupFile: options.groupFile ?? "/etc/group",
    }),
    identity: createIdentity(options.switchUser ?? "auto"),
    paths: createPathMap(options.pathMappings ?? []),
    attributes: createFileAttributes(libc),
  };
  const path = options.path ?? DEFAULT_PATH;
  const pipes = createPipePool({ tempDir: options.tempDir ?? tmpdir(), path, logger });
  const logs = createLogRing({ maxBytes: LOG_BYTES, maxLines: MAX_LOG_LINES, maxLineBytes: LOG_LINE_BYTES, now });
  const processes = createProcessService({
    guest,
    logs,
    launch: { path, shell: options.shell ?? "/bin/sh", setpriv: options.setpriv ?? "/usr/bin/setpriv" },
    pipes,
    loadPty: createPtyLoader(options.loadPty ?? (() => import("@lydell/node-pty"))),
    exitRetentionMs: options.exitRetentionMs ?? DEFAULT_RETENTION_MS,
  });
  const { bootFile } = options;
  const boot = bootFile === undefined ? undefined : createBoot({ file: bootFile, guest, processes, logger });
  const ending = new AbortController();
  const userOf = createUserLookup(guest);
  const rpc = createDispatcher({
    userOf,
    maxMessageBytes: options.maxMessageBytes ?? DEFAULT_MESSAGE_BYTES,
    logger,
  });
  rpc.add(Process, processes.impl, { event: { event: { case: "keepalive", value: {} } } });
  const watching = createWatching(guest, libc);
  rpc.add(Filesystem, { ...createFilesystemService(guest), ...watching }, { event: { case: "keepalive", value: {} } });
  /** Answers in progress. */
  const open = new Set<ServerResponse>();
  let closed = false;

  const routes: Readonly<Record<string, Readonly<Record<string, Route>>>> = {
    "/health": {
      GET({ res }) {
        res.writeHead(204, NO_STORE);
        res.end();
      },
    },
    "/metrics": {
      async GET({ res }) {
        sendJson(res, 200, metricsBody(await metrics(), now()), NO_STORE);
      },
    },
    "/envs": {
      GET({ res }) {
        sendJson(res, 200, defaultVariables(guest.state), NO_STORE);
      },
    },
    [GUEST_LOGS_PATH]: {
      GET: (exchange) => sendLogs(exchange, logs),
    },
    ...(boot !== undefined && {
      [GUEST_BOOT_PATH]: {
        async PUT({ req, res }: Exchange) {
          await boot.save(req);
          res.writeHead(204, NO_STORE);
          res.end();
        },
      },
    }),
    "/init": {
      async POST({ req, res }) {
        await applyInit(req, guest.state);
        res.writeHead(204, { ...NO_STORE, "x-envd-version": version });
        res.end();
      },
    },
    "/files": {
      async GET(exchange) {
        const query = new URLSearchParams(exchange.query);
        checkFileAccess(exchange.req, query, "read", guest.state.accessToken, now());
        await download(guest, exchange, query.get("path") ?? "", fileUser(guest, query));
      },
      async POST(exchange) {
        const query = new URLSearchParams(exchange.query);
        checkFileAccess(exchange.req, query, "write", guest.state.accessToken, now());
        await upload(guest, exchange, query.get("path") || undefined, fileUser(guest, query), logger);
      },
    },
    "/files/compose": {
      POST({ res }) {
        sendProblem(res, 501, "/files/compose is not supported");
      },
    },
  };

  async function serve(exchange: Exchange): Promise<void> {
    const { req, res, method, path: route } = exchange;
    if (handleCors(exchange)) return undefined;
    const { accessToken } = guest.state;
    if (accessToken !== undefined && !OPEN_ROUTES.has(`${method} ${route}`)) {
      const presented = req.headers["x-access-token"];
      if (typeof presented !== "string" || !sameSecret(presented, accessToken)) {
        return sendProblem(res, 401, UNAUTHORIZED);
      }
    }
    const refused = unknownUser(req);
    if (rpc.has(route)) return rpc.serve(exchange, refused);
    if (refused !== undefined) {
      return sendJson(res, refused.status, { code: refused.code, message: refused.message });
    }
    const methods = Object.hasOwn(routes, route) ? routes[route] : undefined;
    if (methods === undefined) return sendProblem(res, 404, `no such path: ${route}`);
    const handler = Object.hasOwn(methods, method) ? methods[method] : undefined;
    if (handler === undefined) {
      const allow = Object.keys(methods).join(", ");
      return sendProblem(res, 405, `${method} is not allowed on ${route}`, { allow });
    }
    return handler(exchange);
  }

  /** A user that a call names and the guest does not have is refused on every route. */
  function unknownUser(req: IncomingMessage): EnvdError | undefined {
    if (basicUserName(req) === undefined) return undefined;
    try {
      userOf(req);
      return undefined;
    } catch (error) {
      return asEnvdError(error, "cannot look up the user");
    }
  }

  async function close(): Promise<void> {
    closed = true;
    ending.abort();
    for (const res of open) res.destroy();
    processes[Symbol.dispose]();
    watching[Symbol.dispose]();
    pipes[Symbol.dispose]();
  }

  return {
    listener(req, res) {
      // Clients leave at any moment; whoever waits for these streams hears it from them.
      req.on("error", () => undefined);
      res.on("error", () => undefined);
      if (closed) return sendProblem(res, 503, "the sandbox is shutting down", { connection: "close" });
      open.add(res);
      res.on("close", () => open.delete(res));
      pipes.warm();
      const [route, query] = splitTarget(req.url ?? "");
      serve({ req, res, method: req.method ?? "", path: route, query }).catch((error: unknown) => {
        const known = asEnvdError(error, "request failed");
        if (known.status >= 500 && !res.destroyed) {
          logger.error({ route, status: known.status, error: known.cause }, "request failed");
        }
        if (!res.destroyed) sendError(res, known);
      });
    },
    boot: async () => boot?.run(ending.signal),
    close,
    [Symbol.asyncDispose]: close,
  };
}

function splitTarget(target: string): [string, string] {
  const at = target.indexOf("?");
  return at === -1 ? [target, ""] : [target.slice(0, at), target.slice(at + 1)];
}
