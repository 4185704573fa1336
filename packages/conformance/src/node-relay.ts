import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

import type { NodeClient } from "./node-client.ts";

/** A relay's answer. */
export interface RelayReply {
  /** Status line and headers, as they came, with the blank line. */
  readonly head: string;
  readonly status: number;
  /** Header names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  /** Of an error; empty for 101. */
  readonly body: string;
  /** The relay itself; destroyed unless the status is 101. Half-open: its ends are the caller's. */
  readonly socket: Socket;
}

/** Choices of {@link openRelay}. */
export interface RelayChoices {
  /** `null` sends no bearer. */
  readonly bearer: string | null;
  /** `null` sends neither `Upgrade` nor `Connection`. @default "tcp" */
  readonly upgrade?: string | null;
  /** Bytes sent right behind the head, in the same write. */
  readonly pipelined?: string;
}

const ANSWER_TIMEOUT_MS = 60_000;

/** Asks a node for a relay over a connection of its own and reads the answer's head. */
export async function openRelay(
  node: NodeClient,
  id: string,
  port: number | string,
  choices: RelayChoices,
): Promise<RelayReply> {
  const { hostname, port: portText, protocol } = node.origin;
  const secure = protocol === "https:";
  const target = {
    host: hostname.replace(/^\[|\]$/g, ""),
    port: Number(portText === "" ? (secure ? 443 : 80) : portText),
    allowHalfOpen: true,
  };
  const socket: Socket = secure
    ? connectTls({ ...target, servername: target.host, ALPNProtocols: ["http/1.1"] })
    : connectTcp(target);
  const { bearer, upgrade = "tcp", pipelined = "" } = choices;
  const lines = [
    `GET /v1/sandboxes/${id}/ports/${port} HTTP/1.1`,
    `Host: ${node.origin.host}`,
    ...(bearer === null ? [] : [`Authorization: Bearer ${bearer}`]),
    ...(upgrade === null ? [] : [`Upgrade: ${upgrade}`, "Connection: Upgrade"]),
  ];
  socket.write(`${lines.join("\r\n")}\r\n\r\n${pipelined}`);
  const timer = setTimeout(() => socket.destroy(new Error("the node did not answer")), ANSWER_TIMEOUT_MS);
  try {
    const bytes = await readUntil(socket, (seen) => {
      const end = seen.indexOf("\r\n\r\n");
      return end === -1 ? undefined : end + 4;
    });
    const head = bytes.toString("latin1");
    const headers = new Map<string, string>();
    for (const line of head.split("\r\n").slice(1)) {
      const colon = line.indexOf(":");
      if (colon > 0) {
        headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
      }
    }
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1] ?? 0);
    let body = "";
    if (status !== 101) {
      const length = Number(headers.get("content-length") ?? 0);
      body = (await readUntil(socket, (seen) => (seen.length >= length ? length : undefined))).toString();
      socket.destroy();
    }
    return { head, status, headers, body, socket };
  } finally {
    clearTimeout(timer);
  }
}

/** Everything that comes until the other side ends. Rejects when it does not within `limitMs`, or on a reset. */
export async function readToEnd(socket: Socket, limitMs = 20_000): Promise<Buffer> {
  const timer = setTimeout(() => socket.destroy(new Error(`no end within ${limitMs} ms`)), limitMs);
  try {
    return await readUntil(socket, () => undefined, true);
  } finally {
    clearTimeout(timer);
  }
}

/** Reads until `enough` tells how many bytes to take; what came beyond stays in the socket. */
function readUntil(socket: Socket, enough: (seen: Buffer) => number | undefined, endIsFine = false): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let seen: Buffer = Buffer.alloc(0);
    const stop = (): void => {
      socket.off("readable", look);
      socket.off("end", ended);
      socket.off("error", failed);
      socket.off("close", ended);
      // Errors after this are the next reader's, or nobody's.
      socket.on("error", ignore);
    };
    const ended = (): void => {
      stop();
      if (endIsFine && !socket.errored) {
        resolve(seen);
      } else {
        reject(socket.errored ?? new Error(`the connection ended after ${JSON.stringify(seen.toString("latin1"))}`));
      }
    };
    const failed = (error: Error): void => {
      stop();
      reject(error);
    };
    const look = (): void => {
      for (let chunk = socket.read() as Buffer | null; chunk !== null; chunk = socket.read() as Buffer | null) {
        seen = Buffer.concat([seen, chunk]);
      }
      const length = enough(seen);
      if (length === undefined) {
        return;
      }
      stop();
      if (seen.length > length) {
        socket.unshift(seen.subarray(length));
      }
      resolve(seen.subarray(0, length));
    };
    socket.off("error", ignore);
    socket.on("readable", look);
    socket.on("end", ended);
    socket.on("error", failed);
    socket.on("close", ended);
    look();
    if (socket.readableEnded || socket.destroyed) {
      ended();
    }
  });
}

function ignore(): void {
  // Whoever reads next sees that the socket is gone.
}
