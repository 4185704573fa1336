import { extname } from "node:path";

/** Type of content that says nothing about itself. */
export const OCTET_STREAM = "application/octet-stream";

const TEXT_UTF8 = "text/plain; charset=utf-8";

/** Content type by the extension of a name; undefined for an unknown one. */
export async function typeByName(name: string): Promise<string | undefined> {
  if (extname(name) === "") return undefined;
  // A table of a thousand types is not needed before the first file is read.
  const { default: mime } = await import("mime");
  const type = mime.getType(name);
  if (type === null) return undefined;
  return type.startsWith("text/") ? `${type}; charset=utf-8` : type;
}

const SIGNATURES: readonly (readonly [bytes: string, type: string, offset?: number])[] = [
  ["%PDF-", "application/pdf"],
  ["%!PS-Adobe-", "application/postscript"],
  ["\xfe\xff", "text/plain; charset=utf-16be"],
  ["\xff\xfe", "text/plain; charset=utf-16le"],
  ["\xef\xbb\xbf", TEXT_UTF8],
  ["\x89PNG\r\n\x1a\n", "image/png"],
  ["\xff\xd8\xff", "image/jpeg"],
  ["GIF87a", "image/gif"],
  ["GIF89a", "image/gif"],
  ["BM", "image/bmp"],
  ["\0\0\x01\0", "image/x-icon"],
  ["WEBPVP", "image/webp", 8],
  ["WAVE", "audio/wave", 8],
  ["AVI ", "video/avi", 8],
  ["ID3", "audio/mpeg"],
  ["OggS\0", "application/ogg"],
  ["\x1aE\xdf\xa3", "video/webm"],
  ["ftyp", "video/mp4", 4],
  ["\0asm", "application/wasm"],
  ["wOFF", "font/woff"],
  ["wOF2", "font/woff2"],
  ["PK\x03\x04", "application/zip"],
  ["\x1f\x8b\x08", "application/x-gzip"],
  ["Rar!\x1a\x07", "application/x-rar-compressed"],
];

const MARKUP =
  /^[\t\n\f\r ]*<(?:!doctype html|html|head|body|script|iframe|h1|div|font|table|a|style|title|b|br|p|!--)[ >]/i;

/** Content type by the first bytes, up to 512, as browsers guess it. */
export function sniffType(start: Buffer): string {
  const text = start.toString("latin1");
  const known = SIGNATURES.find(([bytes, , offset = 0]) => text.startsWith(bytes, offset));
  if (known !== undefined) return known[1];
  if (MARKUP.test(text)) return "text/html; charset=utf-8";
  if (/^[\t\n\f\r ]*<\?xml/.test(text)) return "text/xml; charset=utf-8";
  const isBinary = start.some(
    (byte) => byte <= 0x08 || byte === 0x0b || (byte >= 0x0e && byte <= 0x1a) || (byte >= 0x1c && byte <= 0x1f),
  );
  return isBinary ? OCTET_STREAM : TEXT_UTF8;
}
