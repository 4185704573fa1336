import type { Selection } from "@org/scale";
import type { EventType, Form } from "./form.ts";
import type { Item } from "./item.ts";
import type { Change, EncodedStep, Step } from "./step.ts";

/** An event of a watch, before it is written. */
export interface ItemEvent {
  readonly type: EventType;
  readonly item: Item;
}

/** How many events are written at a time. */
const EVENTS_PER_CHUNK = 512;

/**
 * The events that a selection sees of a step. Those of sandboxes that left stand before the others, so that clients
 * that know sandboxes by name end with one that is there; for their sake also a namesake that stayed is added again.
 */
function eventsOf(changes: readonly Change[], selection: Selection): readonly ItemEvent[] {
  const left: ItemEvent[] = [];
  const there: ItemEvent[] = [];
  for (const { before, after } of changes) {
    const was = before !== undefined && selection.matches(before.sandbox);
    const is = after !== undefined && (before === after ? was : selection.matches(after.sandbox));
    if (is) {
      there.push({ type: was && before !== after ? "MODIFIED" : "ADDED", item: after });
    } else if (was) {
      left.push({ type: "DELETED", item: before });
    }
  }
  return left.length === 0 ? there.filter(({ item }) => !isNamesakeOnly(item, changes)) : left.concat(there);
}

/** Without anything that left, an unchanged namesake is no news. */
function isNamesakeOnly(item: Item, changes: readonly Change[]): boolean {
  const last = changes.at(-1);
  // They stand at the end of a step, which nearly never has any.
  return (
    last !== undefined && last.before === last.after && changes.some((one) => one.before === item && one.after === item)
  );
}

/** A line of a watch. */
export function eventLine(type: EventType | "BOOKMARK", object: string): string {
  return `{"type":"${type}","object":${object}}\n`;
}

/** Written once for all watches with its selection and form. */
class SharedStep implements EncodedStep {
  readonly #events: readonly ItemEvent[];
  readonly #form: Form;
  readonly #version: string;
  readonly #firsts: boolean;
  #chunks: Buffer<ArrayBuffer>[] | undefined = [];

  constructor(step: Step, selection: Selection, form: Form, firsts: boolean) {
    this.#events = eventsOf(step.changes, selection);
    this.#form = form;
    this.#version = step.version;
    this.#firsts = firsts;
  }

  get size(): number {
    return Math.ceil(this.#events.length / EVENTS_PER_CHUNK);
  }

  chunk(index: number): Buffer<ArrayBuffer> {
    const known = this.#chunks?.[index];
    if (known !== undefined) {
      return known;
    }
    const from = index * EVENTS_PER_CHUNK;
    let text = "";
    for (const [at, { type, item }] of this.#events.slice(from, from + EVENTS_PER_CHUNK).entries()) {
      const first = this.#firsts && from + at === 0;
      // A sandbox that left has the version at which it did, so that a client can resume from there.
      text += eventLine(type, this.#form.single(item, first, type === "DELETED" ? this.#version : undefined));
    }
    const chunk = Buffer.from(text);
    if (this.#chunks !== undefined) {
      this.#chunks[index] = chunk;
    }
    return chunk;
  }

  release(): void {
    this.#chunks = undefined;
  }
}

/** What a step is for watches with this selection and form. `firsts`: nothing was sent before it. */
export function encodedStep(step: Step, selection: Selection, form: Form, firsts: boolean, last: boolean): EncodedStep {
  const key = `${form.key}\n${firsts}\n${selection.key}`;
  const known = step.encoded.get(key);
  if (known !== undefined) {
    return known;
  }
  const encoded = new SharedStep(step, selection, form, firsts);
  if (last) {
    step.encoded.set(key, encoded);
  } else {
    encoded.release();
  }
  return encoded;
}
