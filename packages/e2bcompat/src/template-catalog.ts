import type { InventorySource, PromotedTemplate } from "@org/scale";

/** Prefix of a promoted template's name on nodes: `e2b/<namespace>/<name>`. */
export const BUILT_PREFIX = "e2b/";

/** A template that was built through this API, as all its holders together report it. */
export interface BuiltTemplate {
  readonly name: string;
  /** The holder's row with the digest that most holders report. */
  readonly current: PromotedTemplate;
  /** Every digest that a holder reports, the current one first. */
  readonly digests: readonly string[];
  /** Tags whose digest somebody still holds, in code-unit order. */
  readonly tags: readonly string[];
}

/** A pool image, with the size of the first pool that serves it. */
export interface PoolImage {
  readonly image: string;
  readonly size: string | undefined;
}

/** The templates of one inventory generation. */
export interface Templates {
  /** Pool images by name, in node order. */
  readonly images: ReadonlyMap<string, PoolImage>;
  /** Built templates of a namespace by name, in code-unit order. */
  readonly built: (namespace: string) => ReadonlyMap<string, BuiltTemplate>;
}

const NONE: ReadonlyMap<string, BuiltTemplate> = new Map();

function newest(a: PromotedTemplate, b: PromotedTemplate): number {
  const age = (b.createdAt?.getTime() ?? 0) - (a.createdAt?.getTime() ?? 0);
  return age !== 0 ? age : a.contentDigest < b.contentDigest ? -1 : 1;
}

function summarise(name: string, rows: readonly PromotedTemplate[]): BuiltTemplate | undefined {
  const holders = new Map<string, PromotedTemplate[]>();
  for (const row of rows) {
    const same = holders.get(row.contentDigest);
    if (same === undefined) {
      holders.set(row.contentDigest, [row]);
    } else {
      same.push(row);
    }
  }
  const groups = [...holders.values()].sort((a, b) => {
    const [first, second] = [a[0], b[0]];
    return b.length - a.length || (first === undefined || second === undefined ? 0 : newest(first, second));
  });
  const current = groups[0]?.[0];
  if (current === undefined) {
    return undefined;
  }
  const tags = new Set<string>();
  for (const row of rows) {
    for (const [tag, digest] of Object.entries(row.labels ?? {})) {
      if (holders.has(digest)) {
        tags.add(tag);
      }
    }
  }
  const digests = groups.flatMap((group) => group.slice(0, 1).map((row) => row.contentDigest));
  return { name, current, digests, tags: [...tags].sort() };
}

function collect(source: InventorySource): Templates {
  const images = new Map<string, PoolImage>();
  const rows = new Map<string, Map<string, PromotedTemplate[]>>();
  for (const { pools, templates } of source.nodeCapacities()) {
    for (const { template, size } of pools) {
      if (!images.has(template) && !template.startsWith(BUILT_PREFIX)) {
        images.set(template, { image: template, size });
      }
    }
    for (const row of templates) {
      const slash = row.template.indexOf("/", BUILT_PREFIX.length);
      if (row.tenant !== "" || !row.template.startsWith(BUILT_PREFIX) || slash === -1) {
        continue;
      }
      const namespace = row.template.slice(BUILT_PREFIX.length, slash);
      const name = row.template.slice(slash + 1);
      const names = rows.get(namespace) ?? new Map<string, PromotedTemplate[]>();
      rows.set(namespace, names);
      names.set(name, [...(names.get(name) ?? []), row]);
    }
  }
  const built = new Map<string, ReadonlyMap<string, BuiltTemplate>>();
  return {
    images,
    built(namespace) {
      const known = built.get(namespace);
      const names = rows.get(namespace);
      if (known !== undefined || names === undefined) {
        return known ?? NONE;
      }
      const made = new Map<string, BuiltTemplate>();
      for (const name of [...names.keys()].sort()) {
        const template = summarise(name, names.get(name) ?? []);
        if (template !== undefined) {
          made.set(name, template);
        }
      }
      built.set(namespace, made);
      return made;
    },
  };
}

/** The fleet's templates, read at most once per inventory generation. A failing inventory throws through. */
export function createTemplateCatalog(source: InventorySource): () => Templates {
  let seen: { readonly generation: number; readonly templates: Templates } | undefined;
  return () => {
    const { generation } = source;
    if (seen?.generation !== generation) {
      seen = { generation, templates: collect(source) };
    }
    return seen.templates;
  };
}
