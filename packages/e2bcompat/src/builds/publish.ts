import type { PoolKey, PromotedTemplate, Promotion } from "@org/scale";
import { isScaleError } from "@org/scale";
import { askNodes } from "../ask-nodes.ts";
import { DEFAULT_TAG } from "../built-template.ts";
import { E2bError } from "../errors.ts";
import type { BuildService } from "./build-site.ts";
import { TemplateDeleted } from "./template-deleted.ts";

/** A build that is done, in the sandbox that it was done in. */
export interface Finished {
  readonly node: string;
  readonly sandboxId: string;
  /** Name on nodes. */
  readonly stamped: string;
  readonly tags: readonly string[];
}

/** What a build may change of the fleet. */
export type Publisher = Pick<BuildService, "store" | "templateWrites" | "settings">;

/** One node's copy of the template. */
interface Copy {
  readonly node: string;
  readonly row: PromotedTemplate;
}

function keyText({ template, net, size }: PoolKey): string {
  return JSON.stringify([template, net || "none", size || "small"]);
}

function madeMs({ createdAt }: PromotedTemplate): number {
  const ms = createdAt?.getTime() ?? Number.NaN;
  return Number.isNaN(ms) ? 0 : ms;
}

/**
 * Makes a sandbox the template, deletes older copies wherever they are and sets the tags. A node that does not answer
 * fails it, since it may hold an older copy: nothing is undone then, and building again converges. Resolves `false` when
 * a newer build has taken the place meanwhile, which is left alone.
 */
export async function publish(
  { store, templateWrites, settings }: Publisher,
  { node, sandboxId, stamped, tags }: Finished,
  signal: AbortSignal,
): Promise<boolean> {
  // A node that was asked is not stopped by the signal, and what it has promoted is there: it is published to the end.
  const promotion = store.promote(node, sandboxId, stamped);
  const { key, contentDigest } = await unlessLate(signal, promotion).catch((error: unknown) => {
    if (signal.reason instanceof TemplateDeleted) {
      void removeLate({ store, settings }, node, promotion);
    }
    throw error;
  });
  const copies = await findCopies({ store, settings }, stamped);
  const own = copies.find((copy) => copy.node === node && keyText(copy.row) === keyText(key));
  if (own?.row.contentDigest !== contentDigest) {
    return false;
  }
  templateWrites.wrote(node, key, own.row);
  const others = copies.filter((copy) => copy !== own);
  const older = others.filter(({ row }) => madeMs(row) <= madeMs(own.row));
  const { failures } = await askNodes(older, async (copy) => {
    await store.deleteTemplate(copy.node, copy.row, copy.row.contentDigest);
    templateWrites.wrote(copy.node, copy.row, undefined);
  });
  // With another digest it is not the copy that was seen, but a newer one.
  const failed = failures.find(({ error }) => !(isScaleError(error, "node_refused") && error.status === 412));
  if (failed !== undefined) {
    settings.logger.warn({ node: failed.node.node, err: failed.error }, "a node did not delete an older build");
    throw new E2bError("internal", "not every node that holds an older build deleted it: build again", {
      cause: failed.error,
    });
  }
  await setTags({ store, templateWrites }, own, others, tags);
  return older.length === others.length;
}

/** Time for a node to come to an end with a promotion once the build is to end. Others take minutes. */
const LATE_MS = 5000;

/** Waits a little longer than until the signal fires. Rejects with its reason then. */
async function unlessLate<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  let timer: NodeJS.Timeout | undefined;
  const onAbort = (): void => {
    timer = setTimeout(() => reject(signal.reason as Error), LATE_MS);
  };
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) {
    onAbort();
  }
  promise.catch(() => undefined);
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
  }
}

/** Deletes what a node promotes although its template was deleted meanwhile. Never rejects. */
async function removeLate(
  { store, settings }: Pick<Publisher, "store" | "settings">,
  node: string,
  promotion: Promise<Promotion>,
): Promise<void> {
  const made = await promotion.catch(() => undefined);
  if (made === undefined) {
    return;
  }
  try {
    await store.deleteTemplate(node, made.key, made.contentDigest);
  } catch (error) {
    settings.logger.warn({ node, err: error }, "a template that was deleted during its build stays");
  }
}

/** Asks all nodes: inventory may not show a copy that was just made. */
async function findCopies(
  { store, settings }: Pick<Publisher, "store" | "settings">,
  stamped: string,
): Promise<readonly Copy[]> {
  const nodes = settings.inventory.listNodes();
  const ask = (node: string, own: AbortSignal | undefined) => store.nodeTemplates(node, { signal: own });
  const { answers, failures } = await askNodes(nodes, ask);
  const [failure] = failures;
  if (failure !== undefined) {
    settings.logger.warn({ node: failure.node, err: failure.error }, "a node did not tell its templates");
    throw new E2bError("internal", "not every node answered, and one may hold an older build: build again", {
      cause: failure.error,
    });
  }
  return answers.flatMap(({ node, value }) =>
    value.filter((row) => row.tenant === "" && row.template === stamped).map((row): Copy => ({ node, row })),
  );
}

/** A promotion clears the labels of its node. Tags of the same content are kept, those of other builds go with them. */
async function setTags(
  { store, templateWrites }: Pick<Publisher, "store" | "templateWrites">,
  own: Copy,
  others: readonly Copy[],
  tags: readonly string[],
): Promise<void> {
  const { contentDigest } = own.row;
  const kept = others.flatMap(({ row }) =>
    Object.entries(row.labels ?? {}).flatMap(([tag, digest]) => (digest === contentDigest ? [tag] : [])),
  );
  const wanted = [...new Set([...kept, ...tags])].filter((tag) => tag !== DEFAULT_TAG);
  if (wanted.length === 0) {
    return;
  }
  const labels = Object.fromEntries(wanted.map((tag) => [tag, contentDigest]));
  await store.setTemplateLabels(own.node, own.row, labels, contentDigest);
  templateWrites.wrote(own.node, own.row, { ...own.row, labels });
}
