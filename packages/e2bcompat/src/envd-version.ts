import { E2bError } from "./errors.ts";

const VERSION = /^(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})$/;

/**
 * Throws `invalid_options` unless every client can work with `version`: a text that is no version makes them fail after
 * the sandbox exists, and they kill sandboxes below 0.1.0.
 */
export function checkEnvdVersion(version: string): void {
  const [, major, minor] = VERSION.exec(version) ?? [];
  if (major === undefined) {
    throw new E2bError("invalid_options", `envd version ${JSON.stringify(version)} is not of the form 0.8.0`);
  }
  if (major === "0" && minor === "0") {
    throw new E2bError("invalid_options", `envd version ${version} is below 0.1.0, which clients refuse`);
  }
}
