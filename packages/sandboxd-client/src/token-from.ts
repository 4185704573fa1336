import { readFile } from "node:fs/promises";
import { bearer } from "./address.ts";
import { errorText, SandboxdError } from "./errors.ts";

/**
 * The node token out of a literal and a file name: the file wins, white space around the token is dropped, both empty
 * is the empty token.
 * @throws SandboxdError `token_file`: `sandboxd: read token file "<file>": …` when it cannot be read, `sandboxd: token
 * file "<file>" …` when no token is in it; `bad_request` for a literal that no header can carry
 */
export async function tokenFrom(literal: string | undefined, file: string | undefined): Promise<string> {
  if (file === undefined || file === "") {
    const token = (literal ?? "").trim();
    bearer(token);
    return token;
  }
  let token: string;
  try {
    token = (await readFile(file, "utf8")).trim();
  } catch (error) {
    throw new SandboxdError("token_file", `sandboxd: read token file ${JSON.stringify(file)}: ${errorText(error)}`, {
      delivery: "no",
      cause: error,
    });
  }
  if (token === "") {
    throw new SandboxdError("token_file", `sandboxd: token file ${JSON.stringify(file)} is blank`, { delivery: "no" });
  }
  try {
    bearer(token);
  } catch (error) {
    throw new SandboxdError("token_file", `sandboxd: token file ${JSON.stringify(file)}: ${errorText(error)}`, {
      delivery: "no",
    });
  }
  return token;
}
