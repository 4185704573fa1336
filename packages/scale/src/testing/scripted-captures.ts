import { createHash } from "node:crypto";
import type { InventoryEntry, PoolKey, PromotedTemplate, Promotion } from "../domain.ts";
import { canonicalPool } from "../pool-key.ts";
import type { NodeCheckpoint, NodeSandbox } from "../ports.ts";
import { refusal } from "./scripted-calls.ts";

/** A checkpoint with what its claims start from. */
interface Capture {
  readonly record: NodeCheckpoint;
  readonly source: InventoryEntry;
}

const MAX_FORKS = 16;
const MAX_DOCUMENT_BYTES = 4096;
const NAME = /^[a-zA-Z0-9][a-zA-Z0-9._:/-]{0,62}$/;

/** What a scripted node keeps of captured sandboxes: checkpoints, templates, the guests' documents. */
export class ScriptedCaptures {
  readonly #checkpoints = new Map<string, Capture>();
  readonly #templates = new Map<string, PromotedTemplate>();
  readonly #documents = new Map<string, Uint8Array>();

  checkForkCount(count: number): void {
    if (!Number.isSafeInteger(count) || count < 1 || count > MAX_FORKS) {
      throw refusal(400, `invalid fork count: ${count}`);
    }
  }

  checkpoint(id: string, source: NodeSandbox, name: string): NodeCheckpoint {
    checkCapture(source);
    checkName(name);
    const { template = "", net, size } = source.entry;
    const record = { id, name, sandboxId: source.entry.id, pool: { template, net, size }, createdAt: new Date() };
    this.#checkpoints.set(id, { record, source: source.entry });
    return record;
  }

  /** Newest first. */
  get checkpoints(): readonly NodeCheckpoint[] {
    return [...this.#checkpoints.values()].map(({ record }) => record).toReversed();
  }

  /** What a claim of this checkpoint starts from. */
  sourceOf(checkpointId: string): InventoryEntry | undefined {
    return this.#checkpoints.get(checkpointId)?.source;
  }

  deleteCheckpoint(checkpointId: string): void {
    this.#checkpoints.delete(checkpointId);
  }

  /** The digest is that of the sandbox's id. Promoting again replaces, and clears labels. */
  promote(source: NodeSandbox, template: string): Promotion {
    checkCapture(source);
    checkName(template);
    const { id, net = "none", size = "small" } = source.entry;
    const key = { template, net, size };
    const contentDigest = `sha256:${createHash("sha256").update(id).digest("hex")}`;
    this.#templates.set(canonicalPool(key), { ...key, contentDigest, tenant: "", createdAt: new Date() });
    return { key, contentDigest };
  }

  get templates(): readonly PromotedTemplate[] {
    return [...this.#templates.values()];
  }

  deleteTemplate(key: PoolKey, digest: string | undefined): void {
    if (this.#template(key, digest) !== undefined) {
      this.#templates.delete(canonicalPool(key));
    }
  }

  setTemplateLabels(key: PoolKey, labels: Readonly<Record<string, string>>, digest: string | undefined): void {
    const held = this.#template(key, digest);
    if (held === undefined) {
      throw refusal(404, "unknown template");
    }
    this.#templates.set(canonicalPool(key), { ...held, labels: { ...labels } });
  }

  setDocument(source: NodeSandbox, document: Uint8Array): void {
    if (document.byteLength > MAX_DOCUMENT_BYTES || !isJsonObject(document)) {
      throw refusal(400, "instance metadata must be one JSON object of at most 4096 bytes");
    }
    if (source.entry.phase !== "Running") {
      throw refusal(409, "sandbox is paused");
    }
    this.#documents.set(source.entry.id, new Uint8Array(document));
  }

  documentOf(id: string): Uint8Array | undefined {
    return this.#documents.get(id);
  }

  #template(key: PoolKey, digest: string | undefined): PromotedTemplate | undefined {
    const held = this.#templates.get(canonicalPool(key));
    if (held !== undefined && digest !== undefined && digest !== held.contentDigest) {
      throw refusal(412, "the template was replaced");
    }
    return held;
  }
}

/** Refuses what nodes do not copy. */
export function checkCapture(source: NodeSandbox): void {
  if (source.archived) {
    throw refusal(409, "sandbox is archived");
  }
  if (source.entry.net === "egress") {
    throw refusal(409, "egress-lane sandboxes cannot fork, checkpoint, or promote");
  }
}

function checkName(name: string): void {
  if (!NAME.test(name)) {
    throw refusal(400, "invalid name");
  }
}

function isJsonObject(document: Uint8Array): boolean {
  try {
    const value: unknown = JSON.parse(Buffer.from(document).toString("utf8"));
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
