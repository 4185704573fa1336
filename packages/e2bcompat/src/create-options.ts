import { E2bError } from "./errors.ts";
import { ENVD_SECRET_FLAG } from "./options.ts";
import type { CreateSandbox } from "./wire/requests.ts";

/**
 * Refuses what this deployment cannot honour though others can, before anything is claimed. What none can is no part of
 * the schema. Throws `bad_request` naming the option.
 */
export function refuseUnserved({ envVars }: CreateSandbox, envVarsServed: boolean): void {
  if (!envVarsServed && Object.keys(envVars ?? {}).length > 0) {
    throw new E2bError("bad_request", `envVars is not supported by this deployment: it needs ${ENVD_SECRET_FLAG}`);
  }
}
