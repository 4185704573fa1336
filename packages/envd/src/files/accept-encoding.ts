/** Encodings of a download. */
export type FileEncoding = "gzip" | "identity";

/**
 * Chooses among `allowed` by an `Accept-Encoding` header: the highest weight wins, `*` is identity unless that is
 * refused, encodings we do not have are passed over. Undefined when nothing is acceptable.
 */
export function negotiateEncoding(
  header: string | undefined,
  allowed: readonly FileEncoding[] = ["gzip", "identity"],
): FileEncoding | undefined {
  if (header === undefined || header.trim() === "") return "identity";
  const wishes = header
    .split(",")
    .map(parseWish)
    .filter((wish) => wish !== undefined);
  const refused = new Set(wishes.filter(({ weight }) => weight === 0).map(({ name }) => name));
  const named = new Set(wishes.map(({ name }) => name));
  const identityRefused = refused.has("identity") || (refused.has("*") && !named.has("identity"));
  const gzipAllowed = allowed.includes("gzip") && !refused.has("gzip");
  for (const { name, weight } of wishes.toSorted((a, b) => b.weight - a.weight)) {
    if (weight === 0) break;
    if (name === "gzip" && gzipAllowed) return "gzip";
    if (name === "identity") return "identity";
    if (name === "*" && !identityRefused) return "identity";
    if (name === "*" && gzipAllowed) return "gzip";
  }
  return identityRefused ? undefined : "identity";
}

function parseWish(text: string): { name: string; weight: number } | undefined {
  const [name = "", ...parameters] = text.split(";").map((part) => part.trim().toLowerCase());
  if (name === "") return undefined;
  const quality = parameters.find((parameter) => parameter.startsWith("q="))?.slice(2);
  const weight = quality === undefined ? 1 : Number(quality);
  // A weight that cannot be read counts as a wish that was not made.
  return Number.isFinite(weight) && quality !== "" ? { name, weight: Math.min(Math.max(weight, 0), 1) } : undefined;
}
