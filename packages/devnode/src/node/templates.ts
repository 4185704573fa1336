import { templateInfoSchema, type FullPoolKey, type StringMap, type TemplateInfo } from "@org/sandboxd-client/wire";
import type { KeptCapture } from "../host/capture-store.ts";
import type { DevNodeLogger } from "../logger.ts";
import type { Caller } from "./access.ts";
import { keyText, tierOf } from "./pool-key.ts";
import type { Pools } from "./pools.ts";
import { Refusal } from "./refusal.ts";
import { mayChange, maySee } from "./roster.ts";

/** One promoted template of this node. */
export interface Template {
  readonly info: TemplateInfo;
  readonly capture: KeptCapture;
}

/** The promoted templates of a node: at most one by key. */
export interface Templates {
  /** The one that this caller's claims clone. */
  find(key: FullPoolKey, caller: Caller): Template | undefined;
  /** The one that a pool, which serves everybody, is filled from. */
  common(key: FullPoolKey): Template | undefined;
  /** Those that no pool's key hides. */
  list(): readonly TemplateInfo[];
  /** @throws Refusal 409 when the name is a pool's or the template another owner's */
  mustBePromotable(key: FullPoolKey, tenant: string | undefined): void;
  /** Replaces the one of the same key; its files go once no claim copies them any more. */
  put(template: Template): void;
  /** Resolves `false` when there is none that the caller may delete. @throws Refusal 409, 412 */
  remove(key: FullPoolKey, caller: Caller, digest: string): Promise<boolean>;
  /** Replaces all labels. @throws Refusal 404, 409, 412 */
  label(key: FullPoolKey, caller: Caller, digest: string, labels: StringMap): Promise<void>;
}

/** What is noted with a capture, so that a later node knows it again. */
export function templateNote(info: TemplateInfo): unknown {
  return { template: info };
}

/** The template that a capture of an earlier run is, if it is one. */
export function readTemplate(capture: KeptCapture): Template | undefined {
  const { note } = capture;
  if (typeof note !== "object" || note === null || !("template" in note)) {
    return undefined;
  }
  const parsed = templateInfoSchema.safeParse(note.template);
  return parsed.success && parsed.data.content_digest !== "" ? { info: parsed.data, capture } : undefined;
}

/** What the node tells of a template. */
export function describeTemplate(
  key: FullPoolKey,
  facts: { readonly digest: string; readonly tenant: string | undefined; readonly createdAt: Date },
): TemplateInfo {
  const tier = tierOf(key);
  return {
    key,
    content_digest: facts.digest,
    ...(facts.tenant === undefined ? {} : { tenant: facts.tenant }),
    created_at: facts.createdAt.toISOString(),
    cpu_count: tier.cpuCount,
    mem_total_bytes: tier.memoryBytes,
  };
}

/** Makes the table. Of two templates of one key the newer one counts. */
export function createTemplates(found: Iterable<Template>, pools: Pools, logger: DevNodeLogger): Templates {
  const byKey = new Map<string, Template>();
  const createdAt = ({ info }: Template): number => Date.parse(info.created_at ?? "") || 0;
  const discard = (template: Template): void => {
    template.capture.remove().catch((error: unknown) => {
      logger.warn({ key: template.info.key, err: error }, "files of a replaced template stay");
    });
  };
  const replace = (template: Template): void => {
    const text = keyText(template.info.key);
    const before = byKey.get(text);
    byKey.set(text, template);
    if (before !== undefined) {
      discard(before);
    }
  };
  for (const template of [...found].sort((a, b) => createdAt(a) - createdAt(b))) {
    // A node that was killed while it replaced one has left both; the old one must not come back.
    replace(template);
  }
  const owned = (key: FullPoolKey, caller: Caller, digest: string): Template | undefined => {
    if (pools.has(key)) {
      throw new Refusal(409, "template belongs to a configured pool");
    }
    const template = byKey.get(keyText(key));
    if (template === undefined || !mayChange(caller, template.info.tenant)) {
      return undefined;
    }
    if (digest !== "" && digest !== template.info.content_digest) {
      throw new Refusal(412, "template was replaced: its content has another digest");
    }
    return template;
  };
  return {
    find: (key, caller) => {
      const template = byKey.get(keyText(key));
      return template !== undefined && maySee(caller, template.info.tenant) ? template : undefined;
    },
    common: (key) => {
      const template = byKey.get(keyText(key));
      return template?.info.tenant === undefined ? template : undefined;
    },
    list: () => [...byKey.values()].map(({ info }) => info).filter(({ key }) => !pools.has(key)),
    mustBePromotable: (key, tenant) => {
      if (pools.names(key.template)) {
        throw new Refusal(409, "template belongs to a configured pool");
      }
      const before = byKey.get(keyText(key));
      if (before !== undefined && before.info.tenant !== tenant) {
        throw new Refusal(409, "template owned by another tenant");
      }
    },
    put: replace,
    remove: async (key, caller, digest) => {
      const template = owned(key, caller, digest);
      if (template === undefined) {
        return false;
      }
      byKey.delete(keyText(key));
      await template.capture.remove();
      return true;
    },
    label: async (key, caller, digest, labels) => {
      const template = owned(key, caller, digest);
      if (template === undefined) {
        throw new Refusal(404, "unknown template");
      }
      const { labels: _, ...rest } = template.info;
      const info = Object.keys(labels).length === 0 ? rest : { ...rest, labels };
      await template.capture.annotate(templateNote(info));
      // Replaced or deleted meanwhile: the new one has labels of its own.
      if (byKey.get(keyText(key))?.capture === template.capture) {
        byKey.set(keyText(key), { info, capture: template.capture });
      }
    },
  };
}
