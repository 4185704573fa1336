import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import {
  checkpointClaimRequestSchema,
  checkpointRequestSchema,
  claimRequestSchema,
  forkRequestSchema,
  instanceMetadataSchema,
  labelsRequestSchema,
  poolsRequestSchema,
  promoteRequestSchema,
  renewRequestSchema,
  type CheckpointClaimRequest,
  type CheckpointRequest,
  type ClaimRequest,
  type ForkRequest,
  type LabelsRequest,
  type PoolsRequest,
  type PromoteRequest,
  type RenewRequest,
} from "@org/sandboxd-client/wire";
import { Refusal } from "../node/refusal.ts";
import { foldKeys, repeatedKey } from "./strict-json.ts";

/** Largest request body. */
const MAX_BODY = 1024 * 1024;
/** Largest document about a guest. */
const MAX_INSTANCE_METADATA = 4096;

/** The part of a zod schema that reading needs. */
interface Schema<T> {
  safeParse(value: unknown): { success: true; data: T } | { success: false; error: { issues: readonly Issue[] } };
}

interface Issue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** The whole body, unless it is too large or cut off. The rest of a large one is left to whoever answers. */
function readBytes(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  return new Promise((resolve) => {
    const settle = (bytes?: Buffer): void => {
      request.off("data", onData);
      request.off("end", onEnd);
      request.off("error", onCut);
      request.off("close", onCut);
      resolve(bytes);
    };
    const onData = (chunk: Buffer): void => {
      size += chunk.length;
      chunks.push(chunk);
      if (size > MAX_BODY) {
        settle();
      }
    };
    const onEnd = (): void => settle(Buffer.concat(chunks));
    const onCut = (): void => settle();
    request.on("data", onData);
    request.on("end", onEnd);
    request.on("error", onCut);
    request.on("close", onCut);
  });
}

/** Reads a body as text. Too large, cut off and not UTF-8 are all the same 400. @throws Refusal */
async function readText(request: IncomingMessage): Promise<string> {
  const bytes = await readBytes(request);
  if (bytes === undefined) {
    throw new Refusal(400, "invalid request body");
  }
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

/** Reads a body whose unknown members are ignored. @throws Refusal 400 */
async function readLenient<T>(request: IncomingMessage, schema: Schema<T>): Promise<T> {
  return check(schema, foldKeys(parse(await readText(request))), false);
}

/** Body of a claim. @throws Refusal 400 */
export async function readClaim(request: IncomingMessage): Promise<ClaimRequest> {
  return await readLenient(request, claimRequestSchema);
}

/** Body of a checkpoint claim; there must be one. @throws Refusal 400 */
export async function readCheckpointClaim(request: IncomingMessage): Promise<CheckpointClaimRequest> {
  return await readLenient(request, checkpointClaimRequestSchema);
}

/** Body of a fork. @throws Refusal 400 */
export async function readFork(request: IncomingMessage): Promise<ForkRequest> {
  return await readLenient(request, forkRequestSchema);
}

/** Body of a checkpoint. @throws Refusal 400 */
export async function readCheckpointBody(request: IncomingMessage): Promise<CheckpointRequest> {
  return await readLenient(request, checkpointRequestSchema);
}

/** Body of a promotion. @throws Refusal 400 */
export async function readPromote(request: IncomingMessage): Promise<PromoteRequest> {
  return await readLenient(request, promoteRequestSchema);
}

/** The bytes of a document about a guest: one JSON object. @throws Refusal 400 */
export async function readInstanceMetadata(request: IncomingMessage): Promise<Uint8Array> {
  const text = await readText(request);
  const bytes = Buffer.from(text);
  if (bytes.length > MAX_INSTANCE_METADATA) {
    throw new Refusal(400, `instance metadata has at most ${MAX_INSTANCE_METADATA} bytes`);
  }
  const value = parse(text);
  if (Array.isArray(value) || !instanceMetadataSchema.safeParse(value).success) {
    throw new Refusal(400, "instance metadata must be one JSON object");
  }
  return bytes;
}

/** Body of a renewal; none at all means `{}`. @throws Refusal 400 */
export async function readRenew(request: IncomingMessage): Promise<RenewRequest> {
  const text = await readText(request);
  return check(renewRequestSchema, foldKeys(text === "" ? {} : parse(text)), false);
}

/**
 * Body of a route that refuses repeated members; the names of the outermost object come in lower case. Case counts for
 * names below `foldedDepth` levels.
 *
 * @throws Refusal 400
 */
export async function readStrictObject(
  request: IncomingMessage,
  foldedDepth?: number,
): Promise<Record<string, unknown>> {
  const text = await readText(request);
  const folded = foldKeys(parse(text));
  const repeated = repeatedKey(text, foldedDepth);
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

/** Body of a label change; unknown and repeated members are refused. @throws Refusal 400 */
export async function readLabels(request: IncomingMessage): Promise<LabelsRequest> {
  return check(labelsRequestSchema, await readStrictObject(request, 1), true);
}
