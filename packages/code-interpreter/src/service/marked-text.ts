import { StringDecoder } from "node:string_decoder";

/** A piece of output, or the place where the mark stood. */
export type Piece = { readonly text: string } | { readonly marked: true };

/** Cuts marks out of a stream of bytes that come in pieces of any size. */
export interface MarkedText {
  /** Looks for this mark from now on; `undefined` for none. */
  expect(mark: string | undefined): void;
  /** What is certain after these bytes. The beginning of a possible mark is kept back. */
  push(chunk: Buffer): Piece[];
}

/** Makes one for UTF-8. Characters that are split over chunks come whole. */
export function createMarkedText(): MarkedText {
  const decoder = new StringDecoder("utf8");
  let mark: Buffer | undefined;
  let kept: Buffer = Buffer.alloc(0);
  const decode = (bytes: Buffer): Piece[] => {
    const text = decoder.write(bytes);
    return text === "" ? [] : [{ text }];
  };
  return {
    expect: (text) => {
      mark = text === undefined ? undefined : Buffer.from(text);
    },
    push: (chunk) => {
      const bytes = kept.length === 0 ? chunk : Buffer.concat([kept, chunk]);
      kept = Buffer.alloc(0);
      if (mark === undefined) return decode(bytes);
      const at = bytes.indexOf(mark);
      if (at !== -1) {
        const rest = bytes.subarray(at + mark.length);
        // One mark is expected at a time: what follows belongs to nobody yet.
        mark = undefined;
        const before = decoder.write(bytes.subarray(0, at)) + decoder.end();
        return [...(before === "" ? [] : [{ text: before }]), { marked: true }, ...decode(rest)];
      }
      const uncertain = possibleStart(bytes, mark);
      kept = bytes.subarray(bytes.length - uncertain);
      return decode(bytes.subarray(0, bytes.length - uncertain));
    },
  };
}

/** How many of the last bytes may be the beginning of the mark. */
function possibleStart(bytes: Buffer, mark: Buffer): number {
  for (let length = Math.min(mark.length - 1, bytes.length); length > 0; length -= 1) {
    if (bytes.subarray(bytes.length - length).equals(mark.subarray(0, length))) return length;
  }
  return 0;
}
