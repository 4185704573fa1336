import { createHmac, timingSafeEqual } from "node:crypto";
import { ConsoleError } from "./errors.ts";

/** Short ones could be tried out. */
export const SHORTEST_CREDENTIAL = 16;
const LIFETIME_MS = 12 * 3_600_000;
/** Wrong tries a minute, whoever makes them: enough for people, useless for guessing. */
const WRONG_PER_MINUTE = 20;

/** Who may look: whoever knows the credential, or has a cookie that was made for it. */
export class Sessions {
  readonly #credential: string;
  readonly #now: () => number;
  #minute = 0;
  #wrong = 0;

  /** @throws ConsoleError `invalid_options` for a credential below 16 characters */
  constructor(credential: string, now: () => number) {
    if (credential.length < SHORTEST_CREDENTIAL) {
      throw new ConsoleError(
        "invalid_options",
        `the console's credential has less than ${SHORTEST_CREDENTIAL} characters`,
      );
    }
    this.#credential = credential;
    this.#now = now;
  }

  /** Judges a credential that somebody typed. `busy`, for the right one as well, when too many wrong ones were tried. */
  try(typed: string): "welcome" | "wrong" | "busy" {
    const minute = Math.floor(this.#now() / 60_000);
    if (minute !== this.#minute) {
      this.#minute = minute;
      this.#wrong = 0;
    }
    if (this.#wrong >= WRONG_PER_MINUTE) return "busy";
    if (same(typed, this.#credential)) return "welcome";
    this.#wrong += 1;
    return "wrong";
  }

  /** A cookie's value for somebody who was welcome. It says when it ends, and nothing of the credential. */
  open(): { readonly value: string; readonly maxAgeSeconds: number } {
    const end = String(this.#now() + LIFETIME_MS);
    return { value: `${end}.${this.#sign(end)}`, maxAgeSeconds: LIFETIME_MS / 1000 };
  }

  /** Whether a cookie was made by {@link open}, for this credential, and has not ended. */
  holds(cookie: string): boolean {
    const [end = "", signature = ""] = cookie.split(".");
    return /^\d{1,16}$/.test(end) && Number(end) > this.#now() && same(signature, this.#sign(end));
  }

  #sign(end: string): string {
    return createHmac("sha256", this.#credential).update(`console session ${end}`).digest("hex");
  }
}

/** Compares in a time that depends on nothing but the lengths of digests. */
function same(a: string, b: string): boolean {
  const digest = (text: string): Buffer => createHmac("sha256", "compare").update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
