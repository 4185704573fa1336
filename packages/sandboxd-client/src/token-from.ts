import { readFile } from "node:fs/promises";
import { errorText, SandboxdError } from "./errors.ts";

/**
 * The node token out of a literal and a file name: the file wins, white space around the token is dropped, both empty
 * is the empty token.
 * @throws SandboxdError `token_file`: `sandboxd: read token file "<file>": …`
 */
export async function tokenFrom(literal: string | undefined, file: string | undefined): Promise<string> {
  if (file === undefined || file === "") {
    return (literal ?? "").trim();
  }
  try {
    return (await readFile(file, "utf8")).trim();
  } catch (error) {
    throw new SandboxdError("token_file", `sandboxd: read token file ${JSON.stringify(file)}: ${errorText(error)}`, {
      delivery: "no",
      cause: error,
    });
  }
}
