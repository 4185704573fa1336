import { StringDecoder } from "node:string_decoder";

const MAX_LINE_CHARS = 8192;

/** Makes lines out of bytes that come in any pieces. */
export interface OutputLines {
  write(bytes: Uint8Array): void;
  /** Hands over what came after the last line end. */
  end(): void;
}

/** Calls `onLine` for each line, without its end; one that is too long is cut into several. */
export function createOutputLines(onLine: (line: string) => void): OutputLines {
  const decoder = new StringDecoder("utf8");
  let rest = "";
  const take = (text: string): void => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      onLine(line.endsWith("\r") ? line.slice(0, -1) : line);
    }
    while (rest.length > MAX_LINE_CHARS) {
      onLine(rest.slice(0, MAX_LINE_CHARS));
      rest = rest.slice(MAX_LINE_CHARS);
    }
  };
  return {
    write: (bytes) => take(decoder.write(bytes)),
    end() {
      take(decoder.end());
      if (rest !== "") {
        onLine(rest);
        rest = "";
      }
    },
  };
}
