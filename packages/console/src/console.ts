import { createHash } from "node:crypto";
import type { InventorySource, Logger } from "@org/scale";
import { Hono } from "hono";
import type { Context } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import type { Registry } from "prom-client";
import { type ConsoleStore, FleetReader } from "./fleet-view.ts";
import { consolePage, loginPage, type Page } from "./page/html.ts";
import { SCRIPT } from "./page/script.ts";
import { STYLE } from "./page/style.ts";
import { RequestHistory } from "./request-history.ts";
import { serveConsole } from "./serve.ts";
import { Sessions } from "./session.ts";

/** Options of {@link createConsole}. */
export interface ConsoleOptions {
  readonly inventory: InventorySource;
  readonly store: ConsoleStore;
  /** What people log in with, 16 characters or more. A secret, and none of the keys or tokens of the service. */
  readonly credential: string;
  /** Registry that the control plane counts its requests in. Without it the page has no latency and no errors. */
  readonly registry?: Registry | undefined;
  /** Shown in the page's head. */
  readonly version?: string | undefined;
  /** @default silent */
  readonly logger?: Logger | undefined;
  /** The wall clock, in milliseconds. @default Date.now */
  readonly now?: (() => number) | undefined;
}

/** A read-only page about a service. */
export interface Console extends Disposable {
  /** The page, its data and its login, for a server of your own. */
  readonly app: Hono;
  /**
   * Serves on `host:port` until the signal aborts. Resolves once it is closed, and rejects with `listen_failed`. The page
   * has no TLS: listen on loopback, or behind something that has.
   */
  readonly serve: (
    address: string,
    options: { readonly signal: AbortSignal; readonly onListening?: ((address: string) => void) | undefined },
  ) => Promise<void>;
}

const COOKIE = "sandbox_console";
/** A credential and its name. */
const MAX_FORM_BYTES = 4096;

const hashOf = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

/** Nothing from anywhere else, nothing inline but these two texts, and no frame around it. */
const POLICY = [
  "default-src 'none'",
  `style-src ${hashOf(STYLE)}`,
  `script-src ${hashOf(SCRIPT)}`,
  "connect-src 'self'",
  "img-src data:",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ");

/**
 * Builds the console. It reads inventory and store, calls no node, and holds no token but its own credential.
 * @throws ConsoleError `invalid_options` for a credential that is too short
 */
export function createConsole(options: ConsoleOptions): Console {
  const { inventory, store, registry, version = "", logger, now = Date.now } = options;
  const sessions = new Sessions(options.credential, now);
  const fleet = new FleetReader(inventory, store);
  const history = registry === undefined ? undefined : new RequestHistory(registry, now);
  const app = new Hono();

  const judge = (context: Context): "welcome" | "wrong" | "busy" => {
    const bearer = /^Bearer (.+)$/i.exec(context.req.header("authorization") ?? "")?.[1];
    if (bearer !== undefined) return sessions.try(bearer);
    return sessions.holds(getCookie(context, COOKIE) ?? "") ? "welcome" : "wrong";
  };
  const page = (context: Context, html: Page, status: 200 | 401 | 429 = 200): Response | Promise<Response> =>
    context.html(html, status);

  app.use(async (context, next) => {
    await next();
    context.header("Content-Security-Policy", POLICY);
    context.header("X-Content-Type-Options", "nosniff");
    context.header("Referrer-Policy", "no-referrer");
    context.header("Cache-Control", "no-store");
  });
  app.get("/", (context) =>
    judge(context) === "welcome" ? page(context, consolePage(version)) : page(context, loginPage(), 401),
  );
  app.get("/data", async (context) => {
    const outcome = judge(context);
    if (outcome === "busy") return context.json({ code: 429, message: "too many tries, wait a minute" }, 429);
    if (outcome === "wrong") return context.json({ code: 401, message: "log in first" }, 401);
    const view = await fleet.read();
    return context.json({ atMs: now(), ...view, history: history?.points });
  });
  app.post("/login", async (context) => {
    const length = Number(context.req.header("content-length") ?? Number.NaN);
    if (!(length <= MAX_FORM_BYTES)) return context.json({ code: 413, message: "the form is too large" }, 413);
    const form = new URLSearchParams(await context.req.text());
    const outcome = sessions.try(form.get("credential") ?? "");
    if (outcome === "busy") return page(context, loginPage("Too many tries. Wait a minute."), 429);
    if (outcome === "wrong") {
      logger?.warn({ func: "console.login" }, "a login to the console was refused");
      return page(context, loginPage("That is not the credential of this console."), 401);
    }
    const { value, maxAgeSeconds } = sessions.open();
    setCookie(context, COOKIE, value, { httpOnly: true, sameSite: "Strict", path: "/", maxAge: maxAgeSeconds });
    return context.redirect("/", 303);
  });
  app.post("/logout", (context) => {
    deleteCookie(context, COOKIE, { path: "/" });
    return context.redirect("/", 303);
  });
  app.notFound((context) => context.json({ code: 404, message: "not found" }, 404));
  app.onError((error, context) => {
    logger?.error({ func: "console.request", err: error }, "a request to the console failed");
    return context.json({ code: 500, message: "internal error" }, 500);
  });

  return {
    app,
    serve: (address, serveOptions) => serveConsole(app, address, serveOptions),
    [Symbol.dispose]: () => history?.[Symbol.dispose](),
  };
}
