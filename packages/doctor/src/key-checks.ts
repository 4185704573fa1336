import { type Finding, findingsOf } from "./finding.ts";

/** The form that SDKs before 2.51 insist on. */
const SDK_FORM = /^e2b_[0-9a-f]+$/;
const ENOUGH = 24;

/** Whether clients can use the keys, and nobody can guess them. Keys are named by their line, never shown. */
export function keyFindings(keys: readonly string[], anonymous: boolean): Finding[] {
  const { ok, warning } = findingsOf("keys");
  const found = keys.flatMap((key, index): Finding[] => {
    const name = `API key ${index + 1} of ${keys.length}`;
    if (key.length < ENOUGH) {
      return [warning(`${name} is short enough to be guessed`, `take one of at least ${ENOUGH} random characters`)];
    }
    if (!SDK_FORM.test(key)) {
      return [
        warning(
          `${name} has not the form e2b_ and hexadecimal digits`,
          "E2B SDKs before 2.51 refuse it on their own: make one with: echo e2b_$(openssl rand -hex 20)",
        ),
      ];
    }
    return [];
  });
  if (keys.length === 0 && anonymous) {
    return [
      warning("everybody who reaches the API may use it", "give --e2b-api-key-file and drop --e2b-allow-anonymous"),
    ];
  }
  return found.length > 0 || keys.length === 0 ? found : [ok(`${keys.length} API keys`)];
}
