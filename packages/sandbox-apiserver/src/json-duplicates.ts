/** What is open at a place of a JSON text: an object with the keys it has had, or a list with a count. */
type Open =
  | { readonly kind: "object"; readonly keys: Map<string, "once" | "again">; key: string; expectsKey: boolean }
  | { readonly kind: "list"; index: number };

/** As many as anybody reads. Each costs its path, which a client may make as long as it likes. */
const MOST_FOUND = 100;
const LONGEST_PATH = 1024;

const [QUOTE, COMMA, LIST, LIST_END, OBJECT, OBJECT_END] = [0x22, 0x2c, 0x5b, 0x5d, 0x7b, 0x7d];
const BACKSLASH = 0x5c;

/**
 * Paths of members that an object of a JSON text has twice, each once, up to a number: `JSON.parse` keeps the last of
 * them and says nothing.
 * @param text has been parsed
 */
export function duplicateFields(text: string): readonly string[] {
  const found = new Set<string>();
  const open: Open[] = [];
  let here: Open | undefined;
  let left = MOST_FOUND;
  for (let at = 0; at < text.length && left > 0; at += 1) {
    switch (text.charCodeAt(at)) {
      case QUOTE: {
        const end = endOfString(text, at);
        if (here?.kind === "object" && here.expectsKey) {
          here.expectsKey = false;
          here.key = keyOf(text, at, end);
          const before = here.keys.get(here.key);
          if (before === "once") {
            found.add(pathOf(open));
            left -= 1;
          }
          here.keys.set(here.key, before === undefined ? "once" : "again");
        }
        at = end;
        break;
      }
      case OBJECT:
        here = { kind: "object", keys: new Map(), key: "", expectsKey: true };
        open.push(here);
        break;
      case LIST:
        here = { kind: "list", index: 0 };
        open.push(here);
        break;
      case OBJECT_END:
      case LIST_END:
        open.pop();
        here = open.at(-1);
        break;
      case COMMA:
        if (here?.kind === "list") {
          here.index += 1;
        } else if (here !== undefined) {
          here.expectsKey = true;
        }
        break;
      default:
    }
  }
  return [...found];
}

/** The path of a member. What is beyond a length that anybody reads is left out. */
export function fieldPath(parent: string, key: string): string {
  if (parent.length > LONGEST_PATH) {
    return parent;
  }
  const path = parent === "" ? key : `${parent}.${key}`;
  return path.length > LONGEST_PATH ? `${path.slice(0, LONGEST_PATH)}…` : path;
}

/** Where a string that begins at a quote has its other quote. */
function endOfString(text: string, at: number): number {
  for (let end = text.indexOf('"', at + 1); ; end = text.indexOf('"', end + 1)) {
    let escapes = 0;
    while (text.charCodeAt(end - 1 - escapes) === BACKSLASH) {
      escapes += 1;
    }
    if (escapes % 2 === 0) {
      return end;
    }
  }
}

function keyOf(text: string, at: number, end: number): string {
  const plain = text.slice(at + 1, end);
  return plain.includes("\\") ? String(JSON.parse(text.slice(at, end + 1))) : plain;
}

function pathOf(open: readonly Open[]): string {
  let path = "";
  for (const place of open) {
    path = place.kind === "list" ? `${path}[${place.index}]` : fieldPath(path, place.key);
  }
  return path;
}
