import type { IncomingMessage } from "node:http";

import { Refusal } from "./errors.ts";

/** Longest body, in bytes: code with data in it. */
const LIMIT = 32 * 1024 * 1024;

/** A body's members; `null` counts as absent, as the SDKs send it. */
export interface Body {
  /** @throws Refusal when it is there and no text */
  text(name: string): string | undefined;
  /** @throws Refusal when it is there and no record of texts */
  texts(name: string): Readonly<Record<string, string>>;
}

/** Reads a JSON object. An empty body is an empty one. @throws Refusal */
export async function readBody(req: IncomingMessage): Promise<Body> {
  const chunks: Buffer[] = [];
  let size = 0;
  // Whoever sends too much still reads the answer.
  for await (const chunk of req.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > LIMIT) throw new Refusal("too_large", `the body is longer than ${LIMIT} bytes`);
    chunks.push(chunk);
  }
  return bodyOf(Buffer.concat(chunks).toString());
}

/** The body in a text. @throws Refusal */
export function bodyOf(json: string): Body {
  let parsed: unknown = {};
  try {
    if (json.trim() !== "") parsed = JSON.parse(json);
  } catch {
    throw new Refusal("bad_request", "the body is not JSON");
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) {
    throw new Refusal("bad_request", "the body must be a JSON object");
  }
  const members = new Map<string, unknown>(Object.entries(parsed));
  return {
    text: (name) => {
      const member = members.get(name) ?? undefined;
      if (member !== undefined && typeof member !== "string") {
        throw new Refusal("bad_request", `${name} must be a text`);
      }
      return member;
    },
    texts: (name) => {
      const member = members.get(name) ?? {};
      const entries = typeof member === "object" && !Array.isArray(member) ? Object.entries(member) : undefined;
      if (
        entries === undefined ||
        entries.some(([key, value]) => typeof value !== "string" || !isVariable(key, value))
      ) {
        throw new Refusal("bad_request", `${name} must be an object of texts, by names that variables can have`);
      }
      return Object.fromEntries(entries) as Record<string, string>;
    },
  };
}

function isVariable(name: string, value: string): boolean {
  return name !== "" && !/[=\0]/.test(name) && !value.includes("\0");
}
