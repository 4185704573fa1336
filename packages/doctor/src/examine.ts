import { lookup } from "node:dns/promises";
import { createNodePool } from "@org/sandboxd-client";
import { certificateFindings, type CertificatePair } from "./certificate-checks.ts";
import { type Finding, findingsOf } from "./finding.ts";
import { askFleet, type FleetQuestion } from "./fleet.ts";
import { guestFindings } from "./guest-check.ts";
import { keyFindings } from "./key-checks.ts";
import { type Lookup, nameFindings } from "./name-checks.ts";
import { addressFindings, clockFindings, meshFindings, reachFindings, tokenFindings } from "./node-checks.ts";
import { type AliasedTemplate, poolFindings } from "./pool-checks.ts";

/** A service as it is configured, its files read. */
export interface Examined {
  /** Addresses of nodes. */
  readonly seeds: readonly string[];
  /** The nodes' root token; empty for open nodes. A secret. */
  readonly token: string;
  /** Certificates that `https://` nodes are verified against, in PEM, instead of the system's. */
  readonly ca?: string | undefined;
  readonly domain: string;
  readonly namespace: string;
  /** API keys, absent when they are not known. Secrets: findings name them by their place. */
  readonly keys?: readonly string[] | undefined;
  readonly allowAnonymous: boolean;
  /** Absent when they are not known. */
  readonly aliases?: readonly AliasedTemplate[] | undefined;
  /** What clients are told of the guests' daemon. */
  readonly envdVersion: string;
  /** Of the data plane; absent when it speaks cleartext. */
  readonly certificate?: CertificatePair | undefined;
}

/** Options of {@link examine}. */
export interface ExamineOptions {
  /** Take a sandbox of the first served template for a few seconds and look into it. @default true */
  readonly claim?: boolean | undefined;
  /** How long each question to a node may take, in milliseconds. @default 5000 */
  readonly requestTimeoutMs?: number | undefined;
  /** Ends the examination, which then throws the signal's reason; a sandbox that was taken is given back. */
  readonly signal?: AbortSignal | undefined;
  /** Looks names up. @default that of `node:dns` */
  readonly lookup?: Lookup | undefined;
  /** @default the current time */
  readonly now?: Date | undefined;
}

/**
 * Looks at a service from where it runs, in the order in which things depend on each other, and tells each finding as
 * soon as it is known. It changes nothing, but for the sandbox that `claim` takes.
 */
export async function* examine(service: Examined, options: ExamineOptions = {}): AsyncGenerator<Finding, void> {
  const { claim = true, requestTimeoutMs = 5_000, signal, now = new Date() } = options;
  const find: Lookup = options.lookup ?? ((name) => lookup(name, { all: true }));
  const { keys, aliases, allowAnonymous } = service;
  if (keys !== undefined) yield* keyFindings(keys, allowAnonymous);
  if (service.seeds.length === 0) {
    yield findingsOf("nodes").fault(
      "no node is named",
      "set --sandboxd-seeds to a node's address, or run `sandbox-e2b dev`, which brings nodes",
    );
  }
  await using pool = createNodePool({ ca: service.ca });
  const question: FleetQuestion = { seeds: service.seeds, token: service.token, pool, requestTimeoutMs, signal };
  const answers = await askFleet(question);
  yield* reachFindings(answers);
  yield* await tokenFindings(answers, question);
  yield* await addressFindings(answers, question);
  yield* meshFindings(answers);
  yield* clockFindings(answers);
  if (aliases !== undefined) yield* poolFindings(answers, aliases);
  signal?.throwIfAborted();
  if (service.domain !== "") {
    yield* await nameFindings(service.domain, find);
    if (service.certificate !== undefined) yield* certificateFindings(service.certificate, service.domain, now);
  }
  if (!claim) return;
  const served = (aliases ?? []).flatMap((template) => {
    const node = answers.find(({ info }) =>
      info?.pools.some(({ key, warm }) => warm > 0 && key.template === template.image && key.size === template.size),
    );
    return node === undefined ? [] : [{ template, address: node.address }];
  });
  const [first] = served;
  if (first === undefined) {
    yield findingsOf("guest").skipped("no sandbox is warm, so none was looked into");
    return;
  }
  const { token, namespace, envdVersion } = service;
  yield* await guestFindings({ ...first, token, pool, namespace, envdVersion, signal });
}
