import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { Socket } from "node:net";
import type { Access } from "../node/access.ts";
import type { Node } from "../node/node.ts";
import { Refusal } from "../node/refusal.ts";
import { joinStreams } from "../shared/join-streams.ts";

/** The only bytes between the request and the guest's own. */
const SWITCHING = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\n";
const KEEP_ALIVE_MS = 60_000;

/** A relay that passed its checks and may be taken over. */
export interface RelayTarget {
  connect(signal: AbortSignal): Promise<Duplex>;
}

/**
 * The checks of node API §10.1 that need no waiting, in their order; all of them come before anything wakes.
 *
 * @throws Refusal 401, 426, 400, 404
 */
export function checkRelay(
  { node, access }: { readonly node: Node; readonly access: Access },
  request: IncomingMessage,
  id: string,
  portText: string,
): RelayTarget {
  const sandbox = node.find(id);
  const caller = access.sandbox(request.headers.authorization, sandbox);
  if (request.headers.upgrade?.toLowerCase() !== "tcp") {
    throw new Refusal(426, "upgrade to tcp required", { headers: { Upgrade: "tcp" } });
  }
  const port = /^[0-9]{1,5}$/.test(portText) ? Number(portText) : 0;
  if (port < 1 || port > 65_535) {
    throw new Refusal(400, "port must be 1-65535");
  }
  if (sandbox === undefined || caller === undefined) {
    throw new Refusal(404, "unknown sandbox");
  }
  return { connect: (signal) => node.dial(sandbox, port, caller === "sandbox", signal) };
}

/**
 * Connects the guest first and says 101 only then. Rejects when that fails; the client's socket is untouched then.
 * A client that leaves meanwhile drops the guest's connection.
 */
export async function openRelay(target: RelayTarget, client: Socket, head: Buffer): Promise<void> {
  const left = new AbortController();
  const onClose = (): void => left.abort();
  client.once("close", onClose);
  let guest: Duplex;
  try {
    guest = await target.connect(left.signal);
  } finally {
    client.off("close", onClose);
  }
  if (client.destroyed) {
    guest.destroy();
    return;
  }
  client.setKeepAlive(true, KEEP_ALIVE_MS);
  client.setNoDelay(true);
  client.setTimeout(0);
  client.write(SWITCHING);
  if (head.length > 0) {
    client.unshift(head);
  }
  joinStreams(client, guest);
}
