import type { Answer } from "../answer.ts";
import type { Call } from "../call.ts";
import { E2bError } from "../errors.ts";
import { findSandbox } from "../service.ts";
import type { Service } from "../service.ts";

/** `PUT /sandboxes/{sandboxID}/network`: an unknown sandbox is 404 first, so that clients can tell. */
export async function setNetwork(service: Service, call: Call, asked: string): Promise<Answer> {
  await findSandbox(service, call, asked);
  throw new E2bError("bad_request", "network is not supported: network rules are not available in this deployment");
}

/** A part of the API that this deployment does not serve. */
export function unsupported(method: string, path: string): E2bError {
  return new E2bError("unsupported", `${method} ${path} is not supported by this deployment`);
}

/** An old build API, with the one that replaced it. */
export function superseded(method: string, path: string): E2bError {
  return new E2bError(
    "unsupported",
    `${method} ${path} is not supported by this deployment: current clients build with POST /v3/templates`,
  );
}

/** The build API. */
export function buildsOff(): E2bError {
  return new E2bError("not_found", "template builds are off in this deployment");
}
