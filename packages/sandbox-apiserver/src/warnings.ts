/** Characters of all warnings of one answer, and of one of them. Proxies and clients bound what headers hold. */
const ALL_CAP = 4096;
const EACH_CAP = 256;

/** Collects the warnings of one answer, each once. */
export class Warnings {
  readonly #values: string[] = [];
  #length = 0;

  /** Adds a text. What is too much is left out. */
  add(text: string): void {
    const value = warningValue(text);
    if (this.#length + value.length <= ALL_CAP && !this.#values.includes(value)) {
      this.#values.push(value);
      this.#length += value.length;
    }
  }

  /** Adds a header for each warning. */
  appendTo(headers: Headers): void {
    for (const value of this.#values) {
      headers.append("warning", value);
    }
  }
}

/** `299 - "<text>"`, in ASCII. */
function warningValue(text: string): string {
  const ascii = text.replace(/[^\x20-\x7e]+/g, "?").slice(0, EACH_CAP);
  return `299 - "${ascii.replace(/["\\]/g, String.raw`\$&`)}"`;
}
