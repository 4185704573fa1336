import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

/** Gathers what a terminal prints. */
export class Screen {
  #text = "";
  readonly #decoder = new TextDecoder();

  readonly onData = (data: Uint8Array): void => {
    this.#text += this.#decoder.decode(data, { stream: true });
  };

  get text(): string {
    return this.#text;
  }

  async shows(pattern: RegExp): Promise<void> {
    for (let tries = 0; tries < 100; tries += 1) {
      if (pattern.test(this.#text)) {
        return;
      }
      await delay(100);
    }
    assert.fail(`no ${pattern} on the screen: ${JSON.stringify(this.#text.slice(-300))}`);
  }
}
