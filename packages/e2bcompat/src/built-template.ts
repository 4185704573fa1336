import type { PromotedTemplate } from "@org/scale";

/** Prefix of a promoted template's name on nodes: `e2b/<namespace>/<name>`. */
export const BUILT_PREFIX = "e2b/";

/** The tag that always names the current build. No label bears it. */
export const DEFAULT_TAG = "default";

/** One node that holds a build. */
export interface Holder {
  readonly node: string;
  readonly row: PromotedTemplate;
}

/** A template that was built through this API, as all its holders together report it. */
export interface BuiltTemplate {
  readonly name: string;
  /** The build that most holders report. */
  readonly current: PromotedTemplate;
  /** One row for each build that a holder reports, the current one first. */
  readonly builds: readonly PromotedTemplate[];
  /** Tags with the digests that they name, in code-unit order. Only those whose digest somebody still holds. */
  readonly tags: ReadonlyMap<string, string>;
  readonly holders: readonly Holder[];
}

/** A built template and one of its builds. */
export interface NamedBuild {
  readonly template: BuiltTemplate;
  readonly build: PromotedTemplate;
}

/** Where a node keeps the templates of a namespace. */
export function builtPrefix(namespace: string): string {
  return `${BUILT_PREFIX}${namespace}/`;
}

function newest(a: PromotedTemplate, b: PromotedTemplate): number {
  const age = (b.createdAt?.getTime() ?? 0) - (a.createdAt?.getTime() ?? 0);
  return age !== 0 ? age : a.contentDigest < b.contentDigest ? -1 : 1;
}

/** What its holders report of one template. `undefined` when nobody holds it. */
export function summarise(name: string, holders: readonly Holder[]): BuiltTemplate | undefined {
  const byDigest = Map.groupBy(holders, ({ row }) => row.contentDigest);
  const groups = [...byDigest.values()]
    .map((group) => group.map(({ row }) => row))
    .sort((a, b) => {
      const [first, second] = [a[0], b[0]];
      return b.length - a.length || (first === undefined || second === undefined ? 0 : newest(first, second));
    });
  const builds = groups.flatMap((group) => group.slice(0, 1));
  const [current] = builds;
  if (current === undefined) {
    return undefined;
  }
  const tags = new Map<string, string>();
  // Where holders disagree, those of the current build are right.
  for (const { labels = {} } of groups.flat()) {
    for (const [tag, digest] of Object.entries(labels)) {
      if (!tags.has(tag) && tag !== DEFAULT_TAG && byDigest.has(digest)) {
        tags.set(tag, digest);
      }
    }
  }
  const sorted = new Map([...tags].sort(([a], [b]) => (a < b ? -1 : 1)));
  return { name, current, builds, tags: sorted, holders };
}

/** The build that `name` or `name:tag` means. */
export function findBuild(built: ReadonlyMap<string, BuiltTemplate>, asked: string): NamedBuild | undefined {
  const exact = built.get(asked);
  if (exact !== undefined) {
    return { template: exact, build: exact.current };
  }
  const colon = asked.lastIndexOf(":");
  const template = colon === -1 ? undefined : built.get(asked.slice(0, colon));
  if (template === undefined) {
    return undefined;
  }
  const tag = asked.slice(colon + 1);
  const digest = tag === DEFAULT_TAG ? template.current.contentDigest : template.tags.get(tag);
  const build = template.builds.find((row) => row.contentDigest === digest);
  return build === undefined ? undefined : { template, build };
}
