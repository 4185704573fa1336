import { styleText } from "node:util";
import type { CommandCall } from "@org/command-line";
import { examine, findingsOf } from "@org/doctor";
import type { Examined, Finding } from "@org/doctor";
import { caFrom, tokenFrom } from "@org/sandboxd-client";
import type { ServiceConfig } from "./compose.ts";
import { serviceConfig } from "./flags.ts";
import type { Surroundings } from "./surroundings.ts";

const { fault } = findingsOf("configuration");

/**
 * Reads the flags of `doctor`, which are the service's.
 * @throws UsageError, or an error with the code `invalid_flag`, for flags that make no sense
 */
export function checkDoctor({ values }: CommandCall): (around: Surroundings) => Promise<void> {
  const config = serviceConfig(values);
  const claim = values["claim"] === true;
  const asJson = values["json"] === true;
  return async ({ signal }) => {
    const counts = { fault: 0, warning: 0, ok: 0, skipped: 0 };
    const tell = (finding: Finding): void => {
      counts[finding.level] += 1;
      process.stdout.write(asJson ? `${JSON.stringify(finding)}\n` : lines(finding));
    };
    const { service, faults } = await read(config);
    for (const finding of faults) tell(finding);
    for await (const finding of examine(service, { claim, signal })) tell(finding);
    if (counts.fault > 0) {
      throw new Error(`${counts.fault} to mend, ${counts.warning} to look at, ${counts.ok} in order`);
    }
    if (!asJson) process.stdout.write(`Nothing to mend, ${counts.warning} to look at, ${counts.ok} in order.\n`);
  };
}

/** The service as far as its files can be read; what cannot be is a finding, and the rest is looked at without it. */
async function read(config: ServiceConfig): Promise<{ service: Examined; faults: readonly Finding[] }> {
  const faults: Finding[] = [];
  const part = <T>(reading: Promise<T>, fix: string): Promise<T | undefined> =>
    reading.catch((error: unknown) => {
      faults.push(fault(error instanceof Error ? error.message : String(error), fix));
      return undefined;
    });
  const token = await part(tokenFrom(config.token, config.tokenFile), "mend --sandboxd-token-file");
  const ca = await part(caFrom(config.caFile), "mend --sandboxd-ca-file");
  const e2b = await part(config.e2b.load(), "mend the flag or the file that is named");
  const pair = await part(config.proxy.load(), "mend --envd-proxy-tls-cert-file and --envd-proxy-tls-private-key-file");
  await part(config.console.load(), "mend --console-bind-address and --console-credential-file");
  const { namespace, envdVersion, allowAnonymous, domain } = config.e2b;
  const service: Examined = {
    seeds: config.seeds,
    token: token ?? "",
    ca,
    domain,
    namespace,
    keys: e2b?.keys.map(({ key }) => key),
    allowAnonymous,
    aliases: e2b?.aliases,
    envdVersion,
    certificate: pair === undefined ? undefined : { cert: pair.cert.toString(), key: pair.key.toString() },
  };
  return { service, faults };
}

const MARKS: Readonly<Record<Finding["level"], string>> = {
  ok: styleText("green", "ok     "),
  skipped: styleText("dim", "skipped"),
  warning: styleText("yellow", "warning"),
  fault: styleText("red", "fault  "),
};

function lines({ check, level, message, fix }: Finding): string {
  const first = `${MARKS[level]} ${check.padEnd(13)} ${message}\n`;
  return fix === undefined ? first : `${first}${" ".repeat(22)}→ ${fix}\n`;
}
