import { E2bError } from "./errors.ts";
import { ENVD_SECRET_FLAG } from "./options.ts";
import type { CreateSandbox } from "./wire/requests.ts";

function hasEntries(value: object | null | undefined): boolean {
  return value !== null && value !== undefined && Object.keys(value).length > 0;
}

function refusal(body: CreateSandbox, envVarsServed: boolean): string | undefined {
  if (body.secure === false) {
    return "secure: false is not supported, every sandbox needs its access token";
  }
  if (body.autoPause === true && body.allow_internet_access === true) {
    return "autoPause is not supported together with allow_internet_access: a sandbox with internet access cannot pause";
  }
  if (hasEntries(body.network)) {
    return "network is not supported: network rules are not available in this deployment";
  }
  if (hasEntries(body.volumeMounts)) {
    return "volumeMounts is not supported by this deployment";
  }
  if (body.autoPauseMemory !== null && body.autoPauseMemory !== undefined) {
    return "autoPauseMemory is not supported by this deployment";
  }
  if (hasEntries(body.mcp)) {
    return "mcp is not supported by this deployment";
  }
  if (hasEntries(body.iam)) {
    return "iam is not supported by this deployment";
  }
  if (hasEntries(body.envVars) && !envVarsServed) {
    return `envVars is not supported by this deployment: it needs ${ENVD_SECRET_FLAG}`;
  }
  for (const field of ["metadata", "envVars"] as const) {
    // Half a character can be written in JSON, and comes out as another one, and as the same for all of them.
    if (!Object.entries(body[field] ?? {}).every((pair) => pair.every((text) => text.isWellFormed()))) {
      return `${field}: a key or a value is not well-formed Unicode`;
    }
  }
  for (const [name, value] of Object.entries(body.envVars ?? {})) {
    if (name === "" || name.includes("=") || name.includes("\0") || value.includes("\0")) {
      return `envVars: ${JSON.stringify(name)} cannot be an environment variable`;
    }
  }
  return undefined;
}

/**
 * Refuses what cannot be honoured, before anything is claimed. `autoResume` is accepted either way: the data plane wakes
 * a paused sandbox on a request with its token. Throws `bad_request` naming the first such option.
 */
export function refuseUnsupported(body: CreateSandbox, envVarsServed: boolean): void {
  const reason = refusal(body, envVarsServed);
  if (reason !== undefined) {
    throw new E2bError("bad_request", reason);
  }
}
