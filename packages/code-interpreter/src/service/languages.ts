import { join } from "node:path";

/** A language that cells can be written in. */
export type Language = "python" | "javascript" | "typescript";

const LANGUAGES: readonly Language[] = ["python", "javascript", "typescript"];

const OTHER_NAMES: ReadonlyMap<string, Language> = new Map([
  ["python3", "python"],
  ["js", "javascript"],
  ["ts", "typescript"],
]);

/** Longest part of a name that is repeated in an answer. */
const SHOWN = 40;

/** Finds a language by name, in whatever case; none is Python. `undefined` for one that is not offered. */
export function languageOf(name: string | undefined): Language | undefined {
  if (name === undefined || name === "") return "python";
  const plain = name.trim().toLowerCase();
  return LANGUAGES.find((language) => language === plain) ?? OTHER_NAMES.get(plain);
}

/** What a caller is told who wants another language. */
export function unsupported(name: string): string {
  return `language ${JSON.stringify(name.slice(0, SHOWN))} is not supported here: want ${LANGUAGES.join(", ")}`;
}

/** A command line, without the environment. */
export interface KernelCommand {
  readonly command: string;
  readonly args: readonly string[];
}

/** Finds the command of a kernel. */
export type KernelCommands = (language: Language) => KernelCommand;

/** Where the parts of the kernels are. */
export interface KernelFiles {
  readonly python: string;
  readonly javascript: string;
}

/** The kernels as they lie beside the service in a guest. */
export function kernelFilesIn(folder: string): KernelFiles {
  return { python: join(folder, "kernel.py"), javascript: join(folder, "javascript.mjs") };
}

/** Commands of the kernels: Python is whatever `python3` is, JavaScript is the Node that runs this. */
export function kernelCommands({ python, javascript }: KernelFiles): KernelCommands {
  return (language) =>
    language === "python"
      ? { command: "python3", args: [python] }
      : { command: process.execPath, args: ["--disable-warning=ExperimentalWarning", javascript, language] };
}
