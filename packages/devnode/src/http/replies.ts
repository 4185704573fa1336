import type { ServerResponse } from "node:http";
import { Refusal } from "../node/refusal.ts";

/** Answers JSON. */
export function replyJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  const bytes = Buffer.from(`${JSON.stringify(body)}\n`);
  response.writeHead(status, { ...headers, "Content-Type": "application/json", "Content-Length": bytes.length });
  response.end(bytes);
}

/** Answers without a body. */
export function replyNothing(response: ServerResponse): void {
  response.writeHead(204);
  response.end();
}

/** Answers text. */
export function replyText(
  response: ServerResponse,
  status: number,
  text: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  const bytes = Buffer.from(text);
  response.writeHead(status, {
    "Content-Type": "text/plain; charset=utf-8",
    ...headers,
    "Content-Length": bytes.length,
  });
  response.end(bytes);
}

/** The answer of an error; `fallback` is the text of one that is not the client's doing. */
export function asRefusal(error: unknown, fallback: string): Refusal {
  return error instanceof Refusal ? error : new Refusal(500, fallback, { cause: error });
}
