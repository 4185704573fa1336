import { createHash } from "node:crypto";
import type { Answer } from "../answer.ts";
import type { Call } from "../call.ts";
import { DOCUMENT_PATH } from "./document.ts";

interface Rendered {
  readonly base: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Where the API is mounted: what the client wrote in front of the document's own path. */
function baseOf({ context }: Call): string {
  const { pathname } = new URL(context.req.url);
  return pathname.endsWith(DOCUMENT_PATH) ? pathname.slice(0, -DOCUMENT_PATH.length) : "";
}

/** Whether an `If-None-Match` has this tag. It is a weak comparison, and the tag may stand in a list. */
function has(header: string | undefined, tag: string): boolean {
  return (
    header !== undefined &&
    header.split(",").some((item) => {
      const one = item.trim();
      return one === "*" || one.replace(/^W\//, "") === tag;
    })
  );
}

/** Answers with the document of a base path. It is made at the first request, and kept for the base asked for last. */
export function serveDocument(create: (base: string) => string): (call: Call) => Answer {
  let last: Rendered | undefined;
  return (call) => {
    const base = baseOf(call);
    if (last?.base !== base) {
      const body = create(base);
      const etag = `"${createHash("sha256").update(body).digest("base64url").slice(0, 22)}"`;
      // Kept by whoever likes, asked about each time: it changes with a release.
      last = { base, body, headers: { etag, "cache-control": "public, no-cache" } };
    }
    const { body, headers } = last;
    const known = has(call.context.req.header("if-none-match"), headers["etag"] ?? "");
    return known ? { status: 304, headers } : { status: 200, body, headers };
  };
}
