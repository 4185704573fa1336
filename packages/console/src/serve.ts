import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import { formatAddress, parseBindAddress } from "@org/sandbox-address";
import type { Hono } from "hono";
import { ConsoleError } from "./errors.ts";

/** More people do not look at once, and a flood of connections is nobody looking. */
const MAX_CONNECTIONS = 256;

/** Serves an app until the signal aborts; connections are cut then, since nothing on them is worth waiting for. */
export async function serveConsole(
  app: Hono,
  address: string,
  options: { readonly signal: AbortSignal; readonly onListening?: ((address: string) => void) | undefined },
): Promise<void> {
  const where = parseBindAddress(address);
  const failed = (reason: string, cause?: unknown): ConsoleError =>
    new ConsoleError("listen_failed", `listen on console address ${JSON.stringify(address)}: ${reason}`, { cause });
  if (where === undefined) throw failed("not host:port");
  // The globals are those of the program that this runs in.
  const listener = getRequestListener(app.fetch, { overrideGlobalObjects: false });
  const server = createServer({ headersTimeout: 10_000, requestTimeout: 30_000 }, (request, response) => {
    listener(request, response).catch(() => response.destroy());
  });
  server.maxConnections = MAX_CONNECTIONS;
  const closed = new Promise<void>((resolve) => server.once("close", resolve));
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error) => reject(failed(error.message, error)));
    server.listen(where, () => resolve());
  });
  server.removeAllListeners("error");
  server.on("error", () => undefined);
  const stop = (): void => {
    server.close();
    server.closeAllConnections();
  };
  options.signal.addEventListener("abort", stop, { once: true });
  if (options.signal.aborted) stop();
  else options.onListening?.(formatAddress(where.host, (server.address() as AddressInfo).port));
  await closed;
  options.signal.removeEventListener("abort", stop);
}
