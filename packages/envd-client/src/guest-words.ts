import type { IncomingMessage } from "node:http";

const MAX_ANSWER_BYTES = 16 * 1024;
const MAX_MESSAGE_CHARS = 300;

/** Text of an answer; a longer one is cut, since only its message matters. */
export async function shortAnswer(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    length += chunk.length;
    if (length >= MAX_ANSWER_BYTES) break;
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** What the daemon says in an error of its own, as a whole answer or as the end of a stream. */
export function guestMessageIn(text: string): string | undefined {
  try {
    const document: unknown = JSON.parse(text);
    const error = isRecord(document) && isRecord(document["error"]) ? document["error"] : document;
    const message = isRecord(error) ? error["message"] : undefined;
    return typeof message === "string" ? message.slice(0, MAX_MESSAGE_CHARS) : undefined;
  } catch {
    // Not the daemon's own JSON: the status says enough.
    return undefined;
  }
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}
