import { readFile } from "node:fs/promises";
import { EnvdProxyError } from "./errors.ts";

/**
 * The key of derived access tokens out of its file, white space trimmed; `undefined` for an empty file name. Rejects
 * with `secret_file` when the file can not be read or is blank; no message shows the secret.
 */
export async function loadEnvdSecret(file: string): Promise<string | undefined> {
  if (file === "") {
    return undefined;
  }
  let secret: string;
  try {
    secret = (await readFile(file, "utf8")).trim();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new EnvdProxyError("secret_file", `read envd secret file ${JSON.stringify(file)}: ${reason}`, {
      cause: error,
    });
  }
  if (secret === "") {
    throw new EnvdProxyError("secret_file", `envd secret file ${JSON.stringify(file)} is blank`);
  }
  return secret;
}
