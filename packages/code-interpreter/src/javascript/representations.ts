import { inspect } from "node:util";

/** Method by which values of JavaScript notebooks say how they look: it returns data by media types. */
const DISPLAY = Symbol.for("Jupyter.display");

const MEDIA_TYPES: ReadonlyMap<string, string> = new Map([
  ["text/plain", "text"],
  ["text/html", "html"],
  ["text/markdown", "markdown"],
  ["image/svg+xml", "svg"],
  ["image/png", "png"],
  ["image/jpeg", "jpeg"],
  ["application/pdf", "pdf"],
  ["text/latex", "latex"],
  ["application/json", "json"],
  ["application/javascript", "javascript"],
]);
const RESERVED: ReadonlySet<string> = new Set(["type", "is_main_result"]);

/** Every form of a value. A string stands for itself; other values show how Node writes them. */
export function formsOf(value: unknown): Readonly<Record<string, unknown>> {
  const forms: Record<string, unknown> = { text: textOf(value) };
  const media = mediaOf(value);
  if (media !== undefined) {
    for (const [type, data] of Object.entries(media)) {
      const name = MEDIA_TYPES.get(type) ?? type;
      if (data !== undefined && data !== null && !RESERVED.has(name)) forms[name] = encoded(data);
    }
  }
  return forms;
}

/** A string as it is, and other values as Node writes them. */
export function textOf(value: unknown): string {
  try {
    return typeof value === "string" ? value : inspect(value);
  } catch {
    return "[a value that cannot be shown]";
  }
}

function mediaOf(value: unknown): object | undefined {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return undefined;
  const show = (value as Record<symbol, unknown>)[DISPLAY];
  if (typeof show !== "function") return undefined;
  const media: unknown = show.call(value);
  return typeof media === "object" && media !== null ? media : undefined;
}

function encoded(data: unknown): unknown {
  return data instanceof Uint8Array ? Buffer.from(data).toString("base64") : data;
}
