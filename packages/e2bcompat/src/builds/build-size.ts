import type { AliasSize } from "../template-aliases.ts";

/** What a client asks of its template's machine. */
export interface AskedSize {
  readonly cpuCount?: number | null | undefined;
  readonly memoryMB?: number | null | undefined;
}

/** The smallest tier that has room; `undefined` when nothing was asked for. */
export function sizeFor({ cpuCount, memoryMB }: AskedSize): AliasSize | undefined {
  const cpus = cpuCount ?? undefined;
  const memory = memoryMB ?? undefined;
  if (cpus === undefined && memory === undefined) {
    return undefined;
  }
  if ((cpus ?? 0) > 4 || (memory ?? 0) > 8192) {
    return "large";
  }
  return (cpus ?? 0) > 1 || (memory ?? 0) > 2048 ? "medium" : "small";
}
