import { E2bError } from "../errors.ts";
import type { S3Credentials } from "./s3-store.ts";

/**
 * Reads the section `[default]` of a credentials file, or a file without sections. Throws `invalid_file`; the message
 * shows nothing of the file.
 */
export function parseCredentials(text: string, file: string): S3Credentials {
  const values = new Map<string, string>();
  let wanted = true;
  for (const raw of text.split("\n")) {
    const line = raw.trim();
    if (line === "" || line.startsWith("#") || line.startsWith(";")) {
      continue;
    }
    const section = /^\[\s*([^\]]*?)\s*\]$/.exec(line)?.[1];
    if (section !== undefined) {
      wanted = section === "default";
      continue;
    }
    const equals = line.indexOf("=");
    if (wanted && equals > 0) {
      values.set(line.slice(0, equals).trim(), line.slice(equals + 1).trim());
    }
  }
  const accessKeyId = values.get("aws_access_key_id") ?? "";
  const secretAccessKey = values.get("aws_secret_access_key") ?? "";
  if (accessKeyId === "" || secretAccessKey === "") {
    throw new E2bError(
      "invalid_file",
      `S3 credentials file ${JSON.stringify(file)}: want aws_access_key_id and aws_secret_access_key in [default]`,
    );
  }
  return { accessKeyId, secretAccessKey, sessionToken: values.get("aws_session_token") || undefined };
}
