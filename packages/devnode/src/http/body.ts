import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import {
  claimRequestSchema,
  poolsRequestSchema,
  renewRequestSchema,
  type ClaimRequest,
  type PoolsRequest,
  type RenewRequest,
} from "@org/sandboxd-client/wire";
import { Refusal } from "../node/refusal.ts";
import { foldKeys, repeatedKey } from "./strict-json.ts";

/** Largest request body. */
const MAX_BODY = 1024 * 1024;

/** The part of a zod schema that reading needs. */
interface Schema<T> {
  safeParse(value: unknown): { success: true; data: T } | { success: false; error: { issues: readonly Issue[] } };
}

interface Issue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** Reads a body as text. Too large, cut off and not UTF-8 are all the same 400. @throws Refusal */
async function readText(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      size += chunk.length;
      // The rest is read and dropped, so that the answer reaches a client that is still sending.
      if (size <= MAX_BODY) {
        chunks.push(chunk);
      }
    }
  } catch (cause) {
    throw new Refusal(400, "invalid request body", { cause });
  }
  if (size > MAX_BODY) {
    throw new Refusal(400, "invalid request body");
  }
  const bytes = Buffer.concat(chunks);
  if (!isUtf8(bytes)) {
    throw new Refusal(400, "invalid request body");
  }
  return bytes.toString("utf8");
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Refusal(400, "invalid request body", { cause });
  }
}

function check<T>(schema: Schema<T>, value: unknown, strict: boolean): T {
  const result = schema.safeParse(value);
  if (result.success) {
    return result.data;
  }
  const [issue] = result.error.issues;
  const where = issue === undefined || issue.path.length === 0 ? "" : `${issue.path.map(String).join(".")}: `;
  throw new Refusal(400, strict ? `invalid request body: ${where}${issue?.message ?? ""}` : "invalid request body");
}

/** Body of a claim; unknown members are ignored. @throws Refusal 400 */
export async function readClaim(request: IncomingMessage): Promise<ClaimRequest> {
  return check(claimRequestSchema, foldKeys(parse(await readText(request))), false);
}

/** Body of a renewal; none at all means `{}`. @throws Refusal 400 */
export async function readRenew(request: IncomingMessage): Promise<RenewRequest> {
  const text = await readText(request);
  return check(renewRequestSchema, foldKeys(text === "" ? {} : parse(text)), false);
}

/**
 * Body of a route that refuses repeated members; the names of the outermost object come in lower case.
 *
 * @throws Refusal 400
 */
export async function readStrictObject(request: IncomingMessage): Promise<Record<string, unknown>> {
  const text = await readText(request);
  const folded = foldKeys(parse(text));
  const repeated = repeatedKey(text);
  if (repeated !== undefined) {
    throw new Refusal(400, `invalid request body: repeated member ${JSON.stringify(repeated)}`);
  }
  return folded;
}

/** Body of a pool change; unknown and repeated members are refused. @throws Refusal 400 */
export async function readPoolsBody(request: IncomingMessage): Promise<PoolsRequest> {
  const folded = await readStrictObject(request);
  const { pools } = folded;
  if (Array.isArray(pools)) {
    folded["pools"] = pools.map((pool: unknown) => foldKeys(pool));
  }
  return check(poolsRequestSchema, folded, true);
}
