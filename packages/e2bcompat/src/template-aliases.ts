import { E2bError } from "./errors.ts";

/** Size tiers that an alias may name. */
export type AliasSize = "small" | "medium" | "large";

/** A template name that clients use, and the pool image and size it stands for. */
export interface TemplateAlias {
  readonly alias: string;
  readonly image: string;
  readonly size: AliasSize;
}

/** The alias table in both directions. */
export interface AliasTable {
  readonly byAlias: ReadonlyMap<string, TemplateAlias>;
  /** Aliases of an image in code-unit order. The first one is what replies show. */
  of(image: string): readonly string[];
}

const SIZES: ReadonlySet<string> = new Set(["small", "medium", "large"] satisfies AliasSize[]);
const NO_ALIASES: readonly string[] = [];

function isAliasSize(size: string): size is AliasSize {
  return SIZES.has(size);
}

/**
 * Reads an alias file: one `alias image [small|medium|large]` per line, blank lines and lines that begin with `#`
 * aside. Throws `invalid_file` with the line number for anything else, and for an alias that is listed twice.
 */
export function parseAliasFile(text: string, file: string): readonly TemplateAlias[] {
  const aliases = new Map<string, TemplateAlias>();
  for (const [index, raw] of text.split("\n").entries()) {
    const line = raw.trim();
    if (line === "" || line.startsWith("#")) {
      continue;
    }
    const where = `template alias file ${JSON.stringify(file)}, line ${index + 1}`;
    const [alias, image, size = "small", ...rest] = line.split(/\s+/);
    if (alias === undefined || image === undefined || rest.length > 0) {
      // The line is not shown: it may be of the key file, given by mistake.
      throw new E2bError("invalid_file", `${where}: want "alias image [small|medium|large]"`);
    }
    if (!isAliasSize(size)) {
      throw new E2bError("invalid_file", `${where}: unknown size ${JSON.stringify(size)}, want small, medium or large`);
    }
    if (aliases.has(alias)) {
      throw new E2bError("invalid_file", `${where}: alias ${JSON.stringify(alias)} is listed twice`);
    }
    aliases.set(alias, { alias, image, size });
  }
  return [...aliases.values()];
}

/** Indexes an alias list. Throws `invalid_options` for an alias that is listed twice. */
export function createAliasTable(aliases: readonly TemplateAlias[]): AliasTable {
  const byAlias = new Map<string, TemplateAlias>();
  const byImage = new Map<string, string[]>();
  for (const entry of aliases) {
    if (byAlias.has(entry.alias)) {
      throw new E2bError("invalid_options", `template alias ${JSON.stringify(entry.alias)} is listed twice`);
    }
    byAlias.set(entry.alias, entry);
    const names = byImage.get(entry.image);
    if (names === undefined) {
      byImage.set(entry.image, [entry.alias]);
    } else {
      names.push(entry.alias);
    }
  }
  for (const names of byImage.values()) {
    names.sort();
  }
  return { byAlias, of: (image) => byImage.get(image) ?? NO_ALIASES };
}
