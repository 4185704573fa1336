import { randomInt } from "node:crypto";
import { badRequest, invalid } from "../api-status.ts";
import { textOf } from "./members.ts";
import type { Members } from "./members.ts";

/** Letters and digits of made names: without vowels, so that no words come out, and without look-alikes. */
const ALPHABET = "bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH = 5;
const GENERATED_MAX = 63;

const LABEL = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;
const SUBDOMAIN = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/;
const SUBDOMAIN_MAX = 253;

const SUBDOMAIN_RULE =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and " +
  "end with an alphanumeric character (e.g. 'example.com', regex used for validation is " +
  "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/** Whose sandbox is made, and under what name. */
export interface SandboxIdentity {
  readonly namespace: string;
  readonly name: string;
  /** Whether the name was made up here, so that nobody else uses it. */
  readonly generated: boolean;
}

/**
 * Namespace and name of a sandbox that is to be made. The namespace is that of the path.
 * @throws ApiStatusError 400 for another namespace in the object, and without a name; 422 for a name that is none.
 */
export function sandboxIdentity(metadata: Members, namespace: string): SandboxIdentity {
  const said = textOf(metadata["namespace"]);
  if (said !== "" && said !== namespace) {
    throw badRequest(
      `the namespace of the provided object does not match the namespace sent on the request (${said} and ${namespace})`,
    );
  }
  if (!LABEL.test(namespace)) {
    throw badRequest(`${JSON.stringify(namespace)} is no namespace: it must be a lowercase RFC 1123 label`);
  }
  const given = textOf(metadata["name"]);
  const base = textOf(metadata["generateName"]);
  if (given === "" && base === "") {
    throw badRequest("name or generateName is required");
  }
  const name = given === "" ? generatedName(base) : given;
  if (name.length > SUBDOMAIN_MAX || !SUBDOMAIN.test(name)) {
    const tooLong = name.length > SUBDOMAIN_MAX;
    const rule = tooLong ? `must be no more than ${SUBDOMAIN_MAX} characters` : SUBDOMAIN_RULE;
    const field = given === "" ? "metadata.generateName" : "metadata.name";
    const message = `Invalid value: ${JSON.stringify(given === "" ? base : given)}: ${rule}`;
    throw invalid([{ reason: "FieldValueInvalid", field, message }], { name: given });
  }
  return { namespace, name, generated: given === "" };
}

function generatedName(base: string): string {
  const suffix = Array.from({ length: SUFFIX_LENGTH }, () => ALPHABET.charAt(randomInt(ALPHABET.length))).join("");
  return `${base.slice(0, GENERATED_MAX - SUFFIX_LENGTH)}${suffix}`;
}
