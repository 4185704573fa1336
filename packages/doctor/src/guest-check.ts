import { randomBytes } from "node:crypto";
import { EnvdClientError, initGuest } from "@org/envd-client";
import { createSandboxdClient, type NodePool, SandboxdError } from "@org/sandboxd-client";
import { type Finding, findingsOf } from "./finding.ts";
import type { AliasedTemplate } from "./pool-checks.ts";

/** Long enough for the questions, short enough to end soon should this process die. */
const LEASE_SECONDS = 60;
const ENVD_PORT = 49983;

/** What the look into a sandbox needs. */
export interface GuestQuestion {
  readonly address: string;
  readonly token: string;
  readonly pool: NodePool;
  readonly template: AliasedTemplate;
  readonly namespace: string;
  /** The version that clients are told. */
  readonly envdVersion: string;
  readonly signal?: AbortSignal | undefined;
}

/** Takes a sandbox, asks its daemon for its version, and gives the sandbox back. */
export async function guestFindings(question: GuestQuestion): Promise<Finding[]> {
  const { skipped, fault } = findingsOf("guest");
  const { address, token, pool, template, namespace, signal } = question;
  const client = createSandboxdClient({ address, token, pool });
  let id = "";
  try {
    const outcome = await client.claim(
      {
        template: template.image,
        size: template.size,
        claim_ref: `${namespace}/doctor-${randomBytes(6).toString("hex")}`,
        ttl_seconds: LEASE_SECONDS,
      },
      { signal },
    );
    if (outcome.kind !== "delivered")
      return [skipped(`no sandbox of ${template.alias} to look into: node ${address} has none ready`)];
    const { reply } = outcome;
    id = reply.id;
    const { version } = await initGuest(
      (options) => client.dialPort(reply.id, ENVD_PORT, reply.token, options),
      {},
      { signal },
    );
    return versionFindings(version, question);
  } catch (error) {
    if (signal?.aborted === true) throw error;
    if (error instanceof EnvdClientError) {
      return [
        fault(
          `the daemon in a sandbox of ${template.alias} does not work: ${error.message}`,
          "start envd in the image, listening on port 49983: every command and file of the SDKs goes through it",
        ),
      ];
    }
    if (error instanceof SandboxdError) {
      return [
        fault(`node ${address} gives no sandbox of ${template.alias}: ${error.message}`, "look at the node's log"),
      ];
    }
    throw error;
  } finally {
    // An unreachable node ends it by its lease.
    if (id !== "") await client.release(id).catch(() => undefined);
  }
}

function versionFindings(version: string | undefined, { template, envdVersion }: GuestQuestion): Finding[] {
  const { ok, warning, fault } = findingsOf("guest");
  if (version === undefined) {
    return [
      warning(
        `the daemon of ${template.alias} tells no version`,
        `make sure that it can what ${envdVersion} can: that is what clients are told`,
      ),
    ];
  }
  const order = compareVersions(version, envdVersion);
  if (order === undefined)
    return [warning(`the daemon of ${template.alias} calls its version ${version}`, "want a version such as 0.8.0")];
  if (order < 0) {
    return [
      fault(
        `clients are told envd ${envdVersion}, and ${template.alias} has ${version}: they will use what it has not`,
        `set --e2b-envd-version=${version}, or build the image with a newer daemon`,
      ),
    ];
  }
  return [ok(`a sandbox of ${template.alias} works, with envd ${version}`)];
}

/** Sign of the difference of two versions of three numbers; `undefined` when one is none. */
function compareVersions(a: string, b: string): number | undefined {
  const [left, right] = [a, b].map((text) => /^v?(\d+)\.(\d+)\.(\d+)/.exec(text)?.slice(1).map(Number));
  if (left === undefined || right === undefined) return undefined;
  for (const [index, part] of left.entries()) {
    const difference = part - (right[index] ?? 0);
    if (difference !== 0) return Math.sign(difference);
  }
  return 0;
}
