import type { Sandbox } from "./domain.ts";
import { rfc3339 } from "./rfc3339.ts";

/** FNV-1a's start value for 64 bits, in two halves. Its prime is 2^40 + {@link PRIME_LOW}. */
const OFFSET_HIGH = 0xcbf29ce4;
const OFFSET_LOW = 0x84222325;
const PRIME_LOW = 0x1b3;

const TWO_POW_32 = 0x1_0000_0000;
const DECIMAL_CUT = 1_000_000;

const encoder = new TextEncoder();
const NOT_ASCII = /[^\0-\x7f]/;

/**
 * The version of a sandbox's content: a decimal number that may exceed 2^53. Equal content has an equal version, in
 * every process and at any time. Node, metadata and sizes are no part of it. Store §10.3.
 */
export function resourceVersionOf(sandbox: Sandbox): string {
  return fnv1a64(versionedContent(sandbox));
}

/** Whether two sandboxes have the same version, without working it out. */
export function hasSameContent(a: Sandbox, b: Sandbox): boolean {
  return (
    a.id === b.id &&
    a.phase === b.phase &&
    Object.is(secondsOf(a.deadline), secondsOf(b.deadline)) &&
    Object.is(secondsOf(a.claimedAt), secondsOf(b.claimedAt)) &&
    a.name === b.name &&
    a.namespace === b.namespace &&
    (a.claimRef ?? "") === (b.claimRef ?? "") &&
    (a.addr ?? "") === (b.addr ?? "") &&
    (a.template ?? "") === (b.template ?? "")
  );
}

function secondsOf(time: Date | undefined): number {
  return Math.floor((time?.getTime() ?? Number.NaN) / 1000);
}

/** What a version speaks for, as one text. */
export function versionedContent(sandbox: Sandbox): string {
  const { namespace, name, id, phase, claimRef = "", addr = "", template = "", deadline, claimedAt } = sandbox;
  const claimed = secondsOf(claimedAt);
  return `${namespace}/${name}|${id}|${phase}|${claimRef}|${addr}|${template}|${rfc3339(deadline) ?? ""}|${Number.isNaN(claimed) ? "" : claimed}`;
}

/** FNV-1a of 64 bits over the UTF-8 of a text, in decimal. Works on 32-bit halves: `BigInt` would allocate per byte. */
export function fnv1a64(text: string): string {
  let high = OFFSET_HIGH;
  let low = OFFSET_LOW;
  const bytes = NOT_ASCII.test(text) ? encoder.encode(text) : undefined;
  const length = bytes === undefined ? text.length : bytes.length;
  for (let at = 0; at < length; at += 1) {
    low = (low ^ (bytes === undefined ? text.charCodeAt(at) : (bytes[at] ?? 0))) >>> 0;
    // At most 41 bits: exact.
    const product = low * PRIME_LOW;
    high = (Math.imul(high, PRIME_LOW) + Math.floor(product / TWO_POW_32) + (low << 8)) >>> 0;
    low = product >>> 0;
  }
  return decimal(high, low);
}

/** Two steps of long division keep every number below 2^53. */
function decimal(high: number, low: number): string {
  const rest = (high % DECIMAL_CUT) * TWO_POW_32 + low;
  const head = Math.floor(high / DECIMAL_CUT) * TWO_POW_32 + Math.floor(rest / DECIMAL_CUT);
  const tail = String(rest % DECIMAL_CUT);
  return head === 0 ? tail : `${head}${tail.padStart(6, "0")}`;
}
