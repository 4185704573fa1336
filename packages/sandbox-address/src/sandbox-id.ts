/** ASCII lower-case, digit or hyphen: the only characters that a published id may hold. */
function isSafe(code: number): boolean {
  return (code >= 97 && code <= 122) || (code >= 48 && code <= 57) || code === 45;
}

/** The published character for one code point of a claim id. */
function publicCode(code: number): number {
  if (isSafe(code)) {
    return code;
  }
  return code >= 65 && code <= 90 ? code + 32 : 45;
}

/**
 * The id that clients see, fit for a DNS label: lower-case, and `-` for each character outside `[a-z0-9-]`
 * (`sb_0123abcd` becomes `sb-0123abcd`). Safe ids and the empty string stay as they are.
 */
export function publicSandboxId(claimId: string): string {
  let out = "";
  for (const char of claimId) {
    out += String.fromCharCode(publicCode(char.codePointAt(0) ?? 45));
  }
  return out;
}

/**
 * The claim id to ask nodes with when no inventory lists the sandbox yet: a leading `sb-` becomes `sb_`, anything else
 * stays. Nodes know no published spellings.
 */
export function claimIdFromPublic(id: string): string {
  return id.startsWith("sb-") ? `sb_${id.slice(3)}` : id;
}

/**
 * Whether `asked` means the sandbox `claimId`: its raw id or its published spelling, compared character by character.
 * The empty string never matches. Allocates nothing, since a look-up may compare with every listed sandbox.
 */
export function matchesSandboxId(claimId: string, asked: string): boolean {
  if (asked === "" || claimId === "") {
    return false;
  }
  if (asked === claimId) {
    return true;
  }
  let at = 0;
  for (let index = 0; index < claimId.length; at += 1) {
    const code = claimId.codePointAt(index) ?? 45;
    if (at >= asked.length || asked.charCodeAt(at) !== publicCode(code)) {
      return false;
    }
    // A character outside the basic plane takes two code units and is published as one hyphen.
    index += code > 0xffff ? 2 : 1;
  }
  return at === asked.length;
}
