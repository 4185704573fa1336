/** What is open at a place of a JSON text: an object with the keys it has had, or a list with a count. */
type Open =
  | { readonly kind: "object"; readonly path: string; readonly keys: Set<string>; key: string; expectsKey: boolean }
  | { readonly kind: "list"; readonly path: string; index: number };

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]/gs;

/**
 * Paths of members that an object of a JSON text has twice, each once: `JSON.parse` keeps the last of them and says
 * nothing.
 * @param text has been parsed
 */
export function duplicateFields(text: string): readonly string[] {
  const found = new Set<string>();
  const open: Open[] = [];
  for (const [token] of text.matchAll(TOKEN)) {
    const here = open.at(-1);
    switch (token) {
      case "{":
        open.push({ kind: "object", path: placeIn(here), keys: new Set(), key: "", expectsKey: true });
        break;
      case "[":
        open.push({ kind: "list", path: placeIn(here), index: 0 });
        break;
      case "}":
      case "]":
        open.pop();
        break;
      case ",":
        if (here?.kind === "list") {
          here.index += 1;
        } else if (here !== undefined) {
          here.expectsKey = true;
        }
        break;
      case ":":
        break;
      default:
        if (here?.kind === "object" && here.expectsKey) {
          here.expectsKey = false;
          here.key = String(JSON.parse(token));
          if (here.keys.has(here.key)) {
            found.add(fieldPath(here.path, here.key));
          }
          here.keys.add(here.key);
        }
    }
  }
  return [...found];
}

/** The path of a member. */
export function fieldPath(parent: string, key: string): string {
  return parent === "" ? key : `${parent}.${key}`;
}

function placeIn(here: Open | undefined): string {
  if (here === undefined) {
    return "";
  }
  return here.kind === "list" ? `${here.path}[${here.index}]` : fieldPath(here.path, here.key);
}
