import type { InventorySource } from "@org/scale";
import { BUILT_PREFIX, summarise } from "./built-template.ts";
import type { BuiltTemplate, Holder } from "./built-template.ts";
import type { TemplateWrites } from "./template-writes.ts";

/** A pool image, with the size of the first pool that serves it. */
export interface PoolImage {
  readonly image: string;
  readonly size: string | undefined;
}

/** The templates of one inventory generation. */
export interface Templates {
  /** Whether any node is known. Without one, nothing can be said of any template. */
  readonly informed: boolean;
  /** Pool images by name, in node order. */
  readonly images: ReadonlyMap<string, PoolImage>;
  /** Built templates of a namespace by name, in code-unit order. */
  readonly built: (namespace: string) => ReadonlyMap<string, BuiltTemplate>;
}

const NONE: ReadonlyMap<string, BuiltTemplate> = new Map();

function collect(source: InventorySource, writes: TemplateWrites): Templates {
  const images = new Map<string, PoolImage>();
  const holders = new Map<string, Map<string, Holder[]>>();
  const nodes = source.nodeCapacities();
  for (const pools of nodes) {
    for (const { template, size } of pools.pools) {
      if (!images.has(template) && !template.startsWith(BUILT_PREFIX)) {
        images.set(template, { image: template, size });
      }
    }
    for (const row of writes.rowsOf(pools)) {
      const slash = row.template.indexOf("/", BUILT_PREFIX.length);
      if (row.tenant !== "" || !row.template.startsWith(BUILT_PREFIX) || slash === -1) {
        continue;
      }
      const namespace = row.template.slice(BUILT_PREFIX.length, slash);
      const name = row.template.slice(slash + 1);
      const names = holders.get(namespace) ?? new Map<string, Holder[]>();
      holders.set(namespace, names);
      const rows = names.get(name) ?? [];
      names.set(name, rows);
      rows.push({ node: pools.node, row });
    }
  }
  const built = new Map<string, ReadonlyMap<string, BuiltTemplate>>();
  return {
    informed: nodes.length > 0,
    images,
    built(namespace) {
      const known = built.get(namespace);
      const names = holders.get(namespace);
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

/**
 * The fleet's templates, read at most once per inventory generation and change of ours. A failing inventory throws
 * through.
 */
export function createTemplateCatalog(source: InventorySource, writes: TemplateWrites): () => Templates {
  let seen: { readonly generation: number; readonly writes: number; readonly templates: Templates } | undefined;
  return () => {
    const { generation } = source;
    if (seen?.generation !== generation || seen.writes !== writes.generation) {
      seen = { generation, writes: writes.generation, templates: collect(source, writes) };
    }
    return seen.templates;
  };
}
