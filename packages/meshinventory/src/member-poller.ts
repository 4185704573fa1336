import { ReplyBuffer } from "@org/sandboxd-client";
import { errorText } from "./errors.ts";
import type { Answer } from "./membership.ts";
import { NodeDecoder } from "./node-decoder.ts";
import type { NodeReader } from "./options.ts";
import type { Turns } from "./turns.ts";

/** Memory of one route's replies: the decoder keeps the last body in one, the next goes into the other. */
class Replies {
  #kept = new ReplyBuffer();
  next: ReplyBuffer = new ReplyBuffer();

  /** The decoder has taken what is in `next`. */
  keep(): void {
    [this.#kept, this.next] = [this.next, this.#kept];
  }
}

/** What all members share. */
export interface PollerParts {
  /** No I/O; throws for an address that cannot be dialed. */
  readonly dial: (address: string) => NodeReader;
  readonly turns: Turns;
}

/** Asks one member what it is and what it holds, over and over, and keeps what its last replies said. */
export class MemberPoller {
  readonly #address: string;
  readonly #parts: PollerParts;
  readonly #reader: NodeReader;
  readonly #decoder = new NodeDecoder();
  readonly #infos = new Replies();
  readonly #indexes = new Replies();

  /** Throws for an address that cannot be dialed. */
  constructor(address: string, parts: PollerParts) {
    this.#address = address;
    this.#parts = parts;
    this.#reader = parts.dial(address);
  }

  /** Never rejects: what goes wrong is no answer. */
  async poll(signal: AbortSignal): Promise<Answer> {
    try {
      return await this.#poll(signal);
    } catch (error) {
      return { ok: false, error };
    }
  }

  async #poll(signal: AbortSignal): Promise<Answer> {
    const { turns } = this.#parts;
    const [decoder, infos, indexes] = [this.#decoder, this.#infos, this.#indexes];
    const asOfMs = performance.now();
    const infoBody = await unlessAborted(this.#reader.info({ into: infos.next, signal }), signal);
    const info = await turns.take(signal, () => decoder.info(infoBody));
    infos.keep();
    this.#checkKey(info.node);
    const indexBody = await unlessAborted(this.#reader.sandboxes({ into: indexes.next, signal }), signal);
    const inventory = await turns.take(signal, () => decoder.inventory(info, indexBody, asOfMs));
    indexes.keep();
    return { ok: true, inventory, peers: info.peers };
  }

  /** Claims are sent to the key, so a node whose key is no address is of no use. */
  #checkKey(key: string): void {
    if (key === this.#address) {
      return;
    }
    try {
      this.#parts.dial(key);
    } catch (error) {
      throw new Error(`advertises an address that cannot be dialed: ${errorText(error)}`, { cause: error });
    }
  }
}

/** Settles with the call, or rejects at the abort: a reader that ignores its signal must not hold the tick. */
function unlessAborted<T>(call: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason as Error);
    if (signal.aborted) {
      onAbort();
    }
    signal.addEventListener("abort", onAbort, { once: true });
    call.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
