import { ServerResponse, STATUS_CODES, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { Writable } from "node:stream";
import type { Fault, Faults } from "./faults.ts";
import type { FaultSpec } from "./faults-body.ts";

/** What a `status` fault says when it was given no body. */
const BODY = `${JSON.stringify({ error: "fault on demand" })}\n`;
const WITHOUT_BODY = [204, 205, 304];

/** A request that meets a fault. */
export interface FaultyRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** What the node would do with it; the reply goes to the response it is given. */
  readonly carryOut: (response: ServerResponse) => Promise<void>;
}

/** Lets a request meet a fault. Rejects with what the node would have refused it with, when the fault lets it through. */
export async function playOnRequest(faults: Faults, { spec }: Fault, call: FaultyRequest): Promise<void> {
  const { request, response, carryOut } = call;
  const { socket } = request;
  const release = faults.hold(socket);
  if (spec.kind === "drop-reply") {
    // Refusals are not told either.
    await carryOut(unheardResponse(request)).catch(() => undefined);
  }
  await pause(socket, spec.delayMs);
  if (spec.kind !== "hang") {
    release();
  }
  switch (spec.kind) {
    case "delay":
      return await carryOut(response);
    case "status": {
      const { status, headers, body } = answerOf(spec);
      response.writeHead(status, headers);
      response.end(body);
      request.resume();
      return undefined;
    }
    case "hang":
      request.resume();
      return undefined;
    case "refuse":
      socket.resetAndDestroy();
      return undefined;
    case "drop-reply":
    case "stop-accepting":
      socket.resetAndDestroy();
      return undefined;
  }
}

/** A request for a relay that meets a fault. */
export interface FaultyRelay {
  readonly client: Socket;
  /** Opens the relay, as the node would. */
  readonly open: () => Promise<void>;
  /** Wakes and connects the guest, and says nothing. */
  readonly carryOut: () => Promise<void>;
}

/** Lets a relay's request meet a fault. Rejects as {@link playOnRequest}. */
export async function playOnRelay(faults: Faults, { spec }: Fault, call: FaultyRelay): Promise<void> {
  const { client, open, carryOut } = call;
  const release = faults.hold(client);
  if (spec.kind === "drop-reply") {
    await carryOut().catch(() => undefined);
  }
  await pause(client, spec.delayMs);
  if (spec.kind !== "hang") {
    release();
  }
  switch (spec.kind) {
    case "delay":
      return await open();
    case "status": {
      const { status, headers, body } = answerOf(spec);
      const lines = [
        `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`,
        ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
        "Connection: close",
      ];
      client.resume();
      client.end(`${lines.join("\r\n")}\r\n\r\n${body}`, () => client.destroySoon());
      return undefined;
    }
    case "hang":
      // Read, so that the client's end is seen.
      client.once("end", () => client.destroy());
      client.resume();
      return undefined;
    case "refuse":
      client.resetAndDestroy();
      return undefined;
    case "drop-reply":
    case "stop-accepting":
      client.resetAndDestroy();
      return undefined;
  }
}

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

function answerOf(spec: FaultSpec): Answer {
  const status = spec.status ?? 500;
  if (WITHOUT_BODY.includes(status)) {
    return { status, headers: {}, body: "" };
  }
  const body = spec.body ?? BODY;
  return {
    status,
    headers: { "Content-Type": "application/json", "Content-Length": String(Buffer.byteLength(body)) },
    body,
  };
}

/** A response that takes everything and tells nobody: whoever writes it finds it received. */
function unheardResponse(request: IncomingMessage): ServerResponse {
  const response = new ServerResponse(request);
  const sink = new Writable({ write: (_chunk, _encoding, done) => done() });
  // A response writes to nothing of a socket but its stream side.
  response.assignSocket(sink as unknown as Socket);
  return response;
}

/** Waits, or until the connection is gone. */
function pause(connection: Socket, ms: number): Promise<void> {
  if (ms === 0 || connection.destroyed) {
    return Promise.resolve();
  }
  return new Promise((resolve) => {
    const over = (): void => {
      clearTimeout(timer);
      connection.off("close", over);
      resolve();
    };
    const timer = setTimeout(over, ms);
    connection.once("close", over);
  });
}
