import { resourceVersionOf } from "@org/scale";
import type { Sandbox } from "@org/scale";
import { SandboxWriter } from "./sandbox-writer.ts";

/** A sandbox on its way into answers, with the JSON that is made of it once and sent many times. */
export interface Item {
  readonly sandbox: Sandbox;
  /** The JSON of its body, while it is kept. */
  text: string | undefined;
  version: string | undefined;
  /** Whether its text may be kept: it is listed. */
  listed: boolean;
}

/** An item for one answer. */
export function itemOf(sandbox: Sandbox): Item {
  return { sandbox, text: undefined, version: undefined, listed: false };
}

/** The version of an item's content. */
export function versionOf(item: Item): string {
  return (item.version ??= resourceVersionOf(item.sandbox));
}

/** Characters beyond Latin-1 make a string take two bytes each. */
// oxlint-disable-next-line no-control-regex -- Latin-1 begins with control characters
const WIDE = /[^\0-\xff]/;

/**
 * Keeps the JSON of listed sandboxes within a budget of bytes. The first to be asked for are kept until they leave the
 * list; what does not fit is made anew for each answer.
 */
export class TextCache {
  readonly #writer = new SandboxWriter();
  #leftBytes: number;

  constructor(maxBytes: number) {
    this.#leftBytes = maxBytes;
  }

  /** How many bytes the budget has left. */
  get leftBytes(): number {
    return this.#leftBytes;
  }

  /** The JSON of an item's body: metadata first. */
  textOf(item: Item): string {
    if (item.text !== undefined) {
      return item.text;
    }
    const text = this.#writer.text(item.sandbox, versionOf(item));
    const bytes = bytesOf(text);
    if (item.listed && bytes <= this.#leftBytes) {
      this.#leftBytes -= bytes;
      item.text = text;
    }
    return text;
  }

  /** An item came into the list: its text is kept from now on. */
  enter(item: Item): void {
    item.listed = true;
  }

  /** An item left the list. */
  leave(item: Item): void {
    item.listed = false;
    if (item.text !== undefined) {
      this.#leftBytes += bytesOf(item.text);
      item.text = undefined;
    }
  }
}

function bytesOf(text: string): number {
  return WIDE.test(text) ? text.length * 2 : text.length;
}
