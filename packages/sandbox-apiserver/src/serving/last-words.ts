import type { Duplex } from "node:stream";
import { ApiStatusError, statusBody } from "../api-status.ts";
import { LINGER_MS } from "./limits.ts";

/** What is wrong with a request that never becomes one. */
export type RequestFault = "malformed" | "timeout" | "head_too_large" | "no_expectation" | "no_tunnel" | "coding";

const FAULTS: Readonly<Record<RequestFault, readonly [code: number, text: string, reason: string, message: string]>> = {
  malformed: [400, "Bad Request", "BadRequest", "malformed HTTP request"],
  timeout: [408, "Request Timeout", "Timeout", "the request took too long to arrive"],
  head_too_large: [431, "Request Header Fields Too Large", "RequestHeaderFieldsTooLarge", "the head is too large"],
  no_expectation: [417, "Expectation Failed", "ExpectationFailed", "only the expectation 100-continue is supported"],
  no_tunnel: [
    405,
    "Method Not Allowed",
    "MethodNotAllowed",
    "the server does not allow this method on the requested resource",
  ],
  coding: [501, "Not Implemented", "NotImplemented", "only the chunked transfer coding is supported"],
};

/** Status and body of an answer to a fault. */
export function faultAnswer(fault: RequestFault): { readonly status: number; readonly body: string } {
  const [code, , reason, message] = FAULTS[fault];
  return { status: code, body: `${JSON.stringify(statusBody(new ApiStatusError({ code, reason, message })))}\n` };
}

/** Answers on a connection whose request the parser did not hand out, and closes it. */
export function answerRaw(socket: Duplex, fault: RequestFault): void {
  const { status, body } = faultAnswer(fault);
  endConnection(
    socket,
    `HTTP/1.1 ${status} ${FAULTS[fault][1]}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}

/** Sends the last bytes of a connection, and closes it whether or not the client does. */
export function endConnection(socket: Duplex, bytes: string): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  socket.end(bytes);
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once("close", () => clearTimeout(timer));
}
