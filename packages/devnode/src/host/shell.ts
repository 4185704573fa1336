/** Quotes one word for a POSIX shell. */
export function quote(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

/** Quotes a command line. */
export function commandLine(words: readonly string[]): string {
  return words.map(quote).join(" ");
}
