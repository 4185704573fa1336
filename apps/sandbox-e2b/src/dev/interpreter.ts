import type { DevNodeOptions } from "@org/devnode";

/** Image of guests with a code interpreter, as pools, aliases and replies carry it. */
export const INTERPRETER_IMAGE = "code-interpreter:v1";

/** The line of an alias file for the template that the code interpreter SDKs ask for. */
export const interpreterAlias: string = `code-interpreter-v1 ${INTERPRETER_IMAGE}`;

/**
 * The images whose guests start with more than every guest has.
 * @throws Error when their files are not built
 */
export async function guestTemplates(): Promise<NonNullable<DevNodeOptions["templates"]>> {
  const { templateFolder } = await import("@org/code-interpreter");
  return { [INTERPRETER_IMAGE]: templateFolder() };
}
