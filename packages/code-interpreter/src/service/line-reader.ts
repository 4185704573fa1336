/** Splits bytes that come in pieces of any size into lines. */
export interface LineReader {
  /**
   * The lines that these bytes complete, without their line ends.
   * @throws RangeError when a line gets longer than the limit
   */
  push(chunk: Buffer): string[];
}

/** Makes one for UTF-8 lines of at most `limit` bytes. */
export function createLineReader(limit: number): LineReader {
  const parts: Buffer[] = [];
  let held = 0;
  return {
    push: (chunk) => {
      const lines: string[] = [];
      let from = 0;
      for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, from)) {
        lines.push(Buffer.concat([...parts.splice(0), chunk.subarray(from, end)]).toString());
        held = 0;
        from = end + 1;
      }
      if (from < chunk.length) {
        parts.push(chunk.subarray(from));
        held += chunk.length - from;
      }
      if (held > limit) throw new RangeError(`a line is longer than ${limit} bytes`);
      return lines;
    },
  };
}
