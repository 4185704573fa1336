import { UsageError } from "@org/command-line";

/** Guests a node keeps ready. */
export interface WarmPool {
  readonly template: string;
  readonly net: "none" | "egress";
  readonly size: string;
  readonly warm: number;
}

const POOL = /^([^\s,=]+)(?:,(none|egress))?(?:,(small|medium|large|xlarge|2xlarge))?=(\d{1,4})$/;

/**
 * Reads pools such as `e2b-rt:24.04=2` or `e2b-rt:24.04,egress,medium=1`.
 * @throws UsageError for a malformed one, and for one that is named twice
 */
export function parsePools(texts: readonly string[]): WarmPool[] {
  const pools = new Map<string, WarmPool>();
  for (const text of texts) {
    const [, template, net = "none", size = "small", warm] = POOL.exec(text) ?? [];
    if (template === undefined) {
      throw new UsageError(
        `invalid value ${JSON.stringify(text)} for --pool: want template[,none|egress[,size]]=count`,
      );
    }
    const key = `${template},${net},${size}`;
    if (pools.has(key)) throw new UsageError(`--pool names ${key} twice`);
    pools.set(key, { template, net: net === "egress" ? "egress" : "none", size, warm: Number(warm) });
  }
  return [...pools.values()];
}

/** Pools for every image and size that has an alias: the counts hold for small guests, one is kept of the others. */
export function poolsForAliases(
  aliases: readonly { readonly image: string; readonly size: string }[],
  warm: number,
  warmEgress: number,
): WarmPool[] {
  const pools = new Map<string, WarmPool>();
  const add = (template: string, net: WarmPool["net"], size: string, count: number): void => {
    if (count > 0) pools.set(`${template},${net},${size}`, { template, net, size, warm: count });
  };
  for (const { image, size } of aliases) {
    add(image, "none", size, size === "small" ? warm : Math.min(warm, 1));
    if (size === "small") add(image, "egress", size, warmEgress);
  }
  return [...pools.values()];
}
