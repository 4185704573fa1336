import { errorText, KubeError, type KubeClient, type KubeObject, type Timing } from "@org/kubeinventory/client";
import { poolKeyOf } from "@org/kubeinventory/pod";
import type { FullKey } from "./pool-keys.ts";
import { pathOf, podTemplateOf, TEMPLATES, type WarmPool } from "./warm-pool.ts";
import { eachOf, within } from "./within.ts";

/** What a pool asks nodes for; without a key nothing. */
export interface PoolWish {
  readonly pool: WarmPool;
  readonly key: FullKey | undefined;
  /** Why it asks for nothing. */
  readonly problem: string | undefined;
}

/** What {@link poolWishes} works with. */
export interface WishParts {
  readonly client: Pick<KubeClient, "request">;
  /** The templates that the watch knows, by `<namespace>/<name>`. */
  readonly templates: ReadonlyMap<string, KubeObject>;
  readonly timing: Timing;
}

/** Template reads at once. */
const READS = 16;
const READ_TIMEOUT_MS = 10_000;

/** Lanes that nodes know: one pool with another would make every node refuse all pools. */
const LANES: ReadonlySet<string> = new Set(["none", "egress"]);

/** What the API server takes as a name. Others name nothing, and asking for them may be refused or answered by something else. */
const NAME = /^[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?$/;
const LONGEST_NAME = 253;

/**
 * What the pools ask for, in their order. A template that the watch does not know is read once more: only what is surely
 * missing may drain its pool.
 * @throws KubeError when a template cannot be read: then nothing is known of its pool, and nothing may be set.
 */
export async function poolWishes(
  pools: readonly WarmPool[],
  { client, templates, timing }: WishParts,
  signal: AbortSignal,
): Promise<PoolWish[]> {
  const found = new Map<string, KubeObject | undefined>();
  for (const { namespace, templateName, leaving } of pools) {
    if (templateName !== undefined && !leaving && isName(templateName)) {
      const key = `${namespace}/${templateName}`;
      found.set(key, templates.get(key));
    }
  }
  const unknown = [...found].filter(([, template]) => template === undefined).map(([key]) => key);
  await eachOf(unknown, READS, async (key) => {
    found.set(key, await readTemplate(client, key, timing, signal));
  });
  return pools.map((pool) => ({ pool, ...wishOf(pool, found) }));
}

function wishOf(pool: WarmPool, found: ReadonlyMap<string, KubeObject | undefined>): Omit<PoolWish, "pool"> {
  const nothing = (problem?: string): Omit<PoolWish, "pool"> => ({ key: undefined, problem });
  if (pool.leaving) {
    return nothing();
  }
  if (pool.replicas === undefined) {
    return nothing("spec.replicas is no count");
  }
  if (pool.templateName === undefined) {
    return nothing("spec.sandboxTemplateRef names no template");
  }
  if (!isName(pool.templateName)) {
    return nothing("spec.sandboxTemplateRef has a name that no template can have");
  }
  const template = found.get(`${pool.namespace}/${pool.templateName}`);
  if (template === undefined) {
    return nothing(`there is no template ${JSON.stringify(pool.templateName)}`);
  }
  try {
    const key = poolKeyOf(podTemplateOf(template));
    if (key.template === "") {
      return nothing("the template's first container has no image");
    }
    return LANES.has(key.net)
      ? { key, problem: undefined }
      : nothing(`nodes know no network lane ${JSON.stringify(key.net)}`);
  } catch (error) {
    return nothing(errorText(error));
  }
}

function isName(text: string): boolean {
  return text.length <= LONGEST_NAME && NAME.test(text);
}

/** `undefined` when there is none. */
async function readTemplate(
  client: Pick<KubeClient, "request">,
  key: string,
  timing: Timing,
  signal: AbortSignal,
): Promise<KubeObject | undefined> {
  const [namespace = "", name = ""] = key.split("/");
  const path = `${pathOf(TEMPLATES, namespace)}/${encodeURIComponent(name)}`;
  try {
    return await within(timing, READ_TIMEOUT_MS, signal, `GET ${path}`, async (life) => {
      return (await client.request({ path, signal: life })) as KubeObject;
    });
  } catch (error) {
    if (error instanceof KubeError && error.status === 404) {
      return undefined;
    }
    throw error;
  }
}
