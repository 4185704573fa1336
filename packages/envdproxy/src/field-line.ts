import type { RawHeaders } from "./raw-headers.ts";

const FIELD_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
// eslint-disable-next-line no-control-regex -- control characters are what must not be in a field
const NO_TEXT = /[^\t\x20-\x7e\x80-\xff]/;

/** Strips spaces and tabs by hand: a pattern would take quadratic time on a value made of them. */
function withoutBlanks(text: string, from: number): string {
  let start = from;
  let end = text.length;
  while (start < end && (text[start] === " " || text[start] === "\t")) {
    start += 1;
  }
  while (end > start && (text[end - 1] === " " || text[end - 1] === "\t")) {
    end -= 1;
  }
  return text.slice(start, end);
}

/** Adds the field that a line of a head is, without its end. False when it is none. */
export function pushField(fields: string[], line: string): boolean {
  const colon = line.indexOf(":");
  const name = line.slice(0, Math.max(0, colon));
  if (!FIELD_NAME.test(name) || NO_TEXT.test(line)) {
    return false;
  }
  fields.push(name, withoutBlanks(line, colon + 1));
  return true;
}

/** Fields as lines of a head. */
export function fieldLines(fields: RawHeaders): string {
  let lines = "";
  for (let i = 0; i + 1 < fields.length; i += 2) {
    lines += `${fields[i]}: ${fields[i + 1]}\r\n`;
  }
  return lines;
}

/** Whether text stays within its line of a head. */
export function isSayable(text: string): boolean {
  return !NO_TEXT.test(text);
}

/** Whether fields can be said in HTTP/1.1: each name and value within its line. */
export function areSayable(fields: RawHeaders): boolean {
  return fields.every(isSayable);
}
