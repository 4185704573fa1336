/**
 * Splits replicas over nodes: every node the same, the first ones one more when they do not divide. No nodes, no parts.
 * The parts add up to `replicas`.
 */
export function spread(replicas: number, nodes: number): number[] {
  if (nodes === 0) {
    return [];
  }
  const more = replicas % nodes;
  const base = (replicas - more) / nodes;
  return Array.from({ length: nodes }, (_, at) => (at < more ? base + 1 : base));
}

/**
 * Splits what is there among those who want it, in proportion to what they want: first each one's whole part, then one
 * more for those with the largest rest, the earlier ones first where rests are alike. Nobody wanting anything is everybody
 * wanting the same. The parts add up to `amount`, so that they may be above what is wanted.
 */
export function shares(amount: number, wants: readonly number[]): number[] {
  const all = wants.reduce((sum, want) => sum + BigInt(want), 0n);
  const weights = all === 0n ? wants.map(() => 1n) : wants.map(BigInt);
  const total = all === 0n ? BigInt(wants.length) : all;
  const parts = weights.map((weight, at) => {
    const product = weight * BigInt(amount);
    return { at, part: Number(product / total), rest: product % total };
  });
  const left = amount - parts.reduce((sum, { part }) => sum + part, 0);
  // Sorting keeps the order of what is alike.
  const favoured = parts.toSorted((a, b) => (a.rest < b.rest ? 1 : a.rest > b.rest ? -1 : 0)).slice(0, left);
  const ones = new Set(favoured.map(({ at }) => at));
  return parts.map(({ at, part }) => (ones.has(at) ? part + 1 : part));
}
