import { stringify } from "yaml";
import { statusBody } from "./api-status.ts";
import type { ApiStatusError } from "./api-status.ts";
import type { Negotiated } from "./negotiation.ts";

/** Up to here YAML is laid out for people. It is written a hundred times slower than JSON. */
const YAML_CHARACTERS = 65_536;

/** What {@link objectAnswer} adds to an answer. */
export interface AnswerInit {
  /** @default 200 */
  readonly status?: number | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** An answer that holds one object, as JSON or YAML. */
export function objectAnswer(
  body: object,
  negotiated: Pick<Negotiated, "format" | "pretty">,
  { status = 200, headers }: AnswerInit = {},
): Response {
  const yaml = negotiated.format === "yaml";
  const text = yaml ? yamlOf(body) : `${JSON.stringify(body, null, negotiated.pretty ? 2 : undefined)}\n`;
  return new Response(text, {
    status,
    headers: { ...headers, "content-type": yaml ? "application/yaml" : "application/json" },
  });
}

/** The Status answer of an error, with `Retry-After` where there is one. */
export function statusAnswer(error: ApiStatusError, negotiated: Pick<Negotiated, "format" | "pretty">): Response {
  const retry = error.retryAfterSeconds;
  return objectAnswer(statusBody(error), negotiated, {
    status: error.code,
    headers: retry === undefined ? undefined : { "retry-after": String(retry) },
  });
}

/** YAML as JSON would have it: no anchors, absent members left out. What is long stays JSON, which is YAML as well. */
function yamlOf(body: object): string {
  const json = JSON.stringify(body);
  return json.length > YAML_CHARACTERS
    ? `${json}\n`
    : stringify(JSON.parse(json), { aliasDuplicateObjects: false, lineWidth: 0 });
}
