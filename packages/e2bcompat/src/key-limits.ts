import { E2bError } from "./errors.ts";

/** What a key may make. What is absent has no limit. */
export interface KeyLimits {
  /** Sandboxes that its namespace may have at a time, paused ones included, whichever key made them. */
  readonly maxSandboxes?: number | undefined;
  /** Sandboxes that may be made with it in any 60 seconds. */
  readonly createPerMinute?: number | undefined;
}

/** The largest limit that makes sense: more is none. */
const MAX_LIMIT = 100_000;

const FIELDS: Readonly<Record<string, keyof KeyLimits>> = {
  max_sandboxes: "maxSandboxes",
  create_per_minute: "createPerMinute",
};

/** How a limit is written in a key file. */
export const LIMIT_NAMES: Readonly<Record<keyof KeyLimits, string>> = {
  maxSandboxes: "max_sandboxes",
  createPerMinute: "create_per_minute",
};

function isLimit(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 1 && value <= MAX_LIMIT;
}

/**
 * Reads the `name=value` fields of a line. Throws `invalid_file` naming the place and the limit. A field that is none is
 * named by its number alone: it may be a key that stands in the wrong place.
 */
export function parseLimits(fields: readonly string[], firstField: number, where: string): KeyLimits | undefined {
  const limits = new Map<keyof KeyLimits, number>();
  for (const [index, field] of fields.entries()) {
    const cut = field.indexOf("=");
    const name = cut === -1 ? "" : field.slice(0, cut);
    const key = Object.hasOwn(FIELDS, name) ? FIELDS[name] : undefined;
    if (key === undefined) {
      const known = Object.keys(FIELDS).join(" and ");
      throw new E2bError("invalid_file", `${where}: field ${firstField + index} is no limit: known are ${known}`);
    }
    if (limits.has(key)) {
      throw new E2bError("invalid_file", `${where}: ${name} is given twice`);
    }
    const text = field.slice(cut + 1);
    if (!/^[0-9]{1,6}$/.test(text) || !isLimit(Number(text))) {
      throw new E2bError("invalid_file", `${where}: ${name}: want a whole number from 1 to ${MAX_LIMIT}`);
    }
    limits.set(key, Number(text));
  }
  return limits.size === 0 ? undefined : Object.fromEntries(limits);
}

/** Throws `invalid_options` for a limit that is none. */
export function checkLimits(limits: KeyLimits): void {
  for (const [key, name] of Object.entries(LIMIT_NAMES) as [keyof KeyLimits, string][]) {
    const value = limits[key];
    if (value !== undefined && !isLimit(value)) {
      throw new E2bError("invalid_options", `API key: ${name}: want a whole number from 1 to ${MAX_LIMIT}`);
    }
  }
}
