import { Refusal } from "../node/refusal.ts";

/**
 * The first key that an object repeats, found by a walk over text that `JSON.parse` has accepted. Case counts below
 * `foldedDepth` levels only.
 */
export function repeatedKey(text: string, foldedDepth: number = Number.POSITIVE_INFINITY): string | undefined {
  const scopes: (Set<string> | undefined)[] = [];
  let expectKey = false;
  for (let at = 0; at < text.length; at += 1) {
    switch (text.charAt(at)) {
      case "{":
        scopes.push(new Set());
        expectKey = true;
        break;
      case "[":
        scopes.push(undefined);
        expectKey = false;
        break;
      case "}":
      case "]":
        scopes.pop();
        expectKey = false;
        break;
      case ",":
        expectKey = scopes.at(-1) !== undefined;
        break;
      case '"': {
        const end = endOfString(text, at);
        const scope = scopes.at(-1);
        if (expectKey && scope !== undefined) {
          const name = JSON.parse(text.slice(at, end)) as string;
          const key = scopes.length > foldedDepth ? name : name.toLowerCase();
          if (scope.has(key)) {
            return key;
          }
          scope.add(key);
          expectKey = false;
        }
        at = end - 1;
        break;
      }
      default:
    }
  }
  return undefined;
}

function endOfString(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length && text[at] !== '"') {
    at += text[at] === "\\" ? 2 : 1;
  }
  return at + 1;
}

/**
 * Lower-cases the member names of one object, since nodes match them without regard to case. Deeper objects are left
 * alone: in metadata the case of a key counts.
 *
 * @throws Refusal 400 when it is no object
 */
export function foldKeys(value: unknown): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new Refusal(400, "invalid request body");
  }
  const folded: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
  for (const [name, member] of Object.entries(value)) {
    folded[name.toLowerCase()] = member;
  }
  return folded;
}
