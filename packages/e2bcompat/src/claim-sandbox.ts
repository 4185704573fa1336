import { isScaleError } from "@org/scale";
import type { Assignment, ClaimOptions, PoolKey, Snapshot } from "@org/scale";
import { BUILT_PREFIX, findBuild } from "./built-template.ts";
import type { NamedBuild } from "./built-template.ts";
import type { Call } from "./call.ts";
import { E2bError } from "./errors.ts";
import type { Service } from "./service.ts";
import type { Templates } from "./template-catalog.ts";
import type { CreateSandbox } from "./wire/requests.ts";

/** Ids of snapshots. No template name is taken for one: such a name would have to be an alias. */
const SNAPSHOT_ID = /^ck_[0-9a-f]+$/;
/** How many holders of a snapshot are tried. */
const MAX_HOLDERS = 4;

/** A sandbox that was claimed for a request. */
export interface Claimed {
  readonly assignment: Assignment;
  /** As nodes name it. */
  readonly template: string;
  /** It was cloned from a template that was built. */
  readonly built: boolean;
  /** It was made out of a snapshot. */
  readonly copied: boolean;
}

function unknownTemplate(asked: string): E2bError {
  return new E2bError(
    "not_found",
    `template ${JSON.stringify(asked)} not found: no pool offers it and --e2b-template-aliases does not name it`,
  );
}

function noCapacity(asked: string, cause: unknown): E2bError {
  return new E2bError("unavailable", `no warm sandbox of template ${JSON.stringify(asked)} is available, retry later`, {
    cause,
  });
}

/** Nodes hold one build for each key, and a claim takes the build that its node happens to hold. */
function mustBeUnambiguous({ template, build }: NamedBuild, asked: string): void {
  const other = template.holders.some(
    ({ row }) => row.net === build.net && row.size === build.size && row.contentDigest !== build.contentDigest,
  );
  if (other) {
    throw new E2bError("unavailable", `template ${JSON.stringify(asked)} is being replaced, retry later`);
  }
}

/** A built template's pool, and the nodes that hold the build: inventory may be behind our own writes. */
interface BuiltPool {
  readonly pool: PoolKey;
  readonly promotedOn: readonly string[];
}

/**
 * What to claim after nothing was warm: the namespace's built template of this name, or the build of it that a tag
 * names. An alias or a pool image stays "retry later" and never turns into something else of the same name.
 */
function builtPool(service: Service, call: Call, body: CreateSandbox, asked: string, cause: unknown): BuiltPool {
  let templates: Templates;
  try {
    templates = service.templates();
  } catch {
    throw noCapacity(asked, cause);
  }
  if (!templates.informed || service.settings.aliases.byAlias.has(asked) || templates.images.has(asked)) {
    throw noCapacity(asked, cause);
  }
  const found = findBuild(templates.built(call.namespace), asked);
  if (found === undefined) {
    throw unknownTemplate(asked);
  }
  if (body.allow_internet_access === true) {
    throw new E2bError("bad_request", "allow_internet_access is not supported for built templates");
  }
  if (found.template.name !== asked) {
    mustBeUnambiguous(found, asked);
  }
  const { template, net, size, contentDigest } = found.build;
  const holders = found.template.holders.filter(
    ({ row }) => row.contentDigest === contentDigest && row.net === net && row.size === size,
  );
  return { pool: { template, net, size }, promotedOn: holders.map(({ node }) => node) };
}

async function claimPool(
  service: Service,
  call: Call,
  body: CreateSandbox,
  asked: string,
  options: ClaimOptions,
): Promise<Claimed> {
  const { store, settings } = service;
  const alias = settings.aliases.byAlias.get(asked);
  const pool: PoolKey = {
    template: alias?.image ?? asked,
    net: body.allow_internet_access === true ? "egress" : "none",
    size: alias?.size ?? "small",
  };
  const poolOptions = { ...options, noEgress: body.allow_internet_access === false ? true : undefined };
  const name = service.newName();
  try {
    const assignment = await store.claim(call.namespace, name, pool, poolOptions);
    return { assignment, template: pool.template, built: false, copied: false };
  } catch (error) {
    if (!isScaleError(error, "no_warm_capacity")) {
      throw error;
    }
    const { pool: promoted, promotedOn } = builtPool(service, call, body, asked, error);
    const promotedOptions = { ...poolOptions, promoted: true, promotedOn };
    try {
      const assignment = await store.claim(call.namespace, name, promoted, promotedOptions);
      return { assignment, template: promoted.template, built: true, copied: false };
    } catch (second) {
      throw isScaleError(second, "no_warm_capacity") ? noCapacity(asked, second) : second;
    }
  }
}

/** Asks the holders of a snapshot one after the other: one may be full, or may have lost it. */
async function askHolders(
  service: Service,
  call: Call,
  id: string,
  options: ClaimOptions,
): Promise<{ readonly assignment: Assignment; readonly snapshot: Snapshot }> {
  const { store, snapshots } = service;
  const { namespace, signal } = call;
  const name = service.newName();
  const tried = new Set<string>();
  let full: unknown;
  while (tried.size < MAX_HOLDERS) {
    const snapshot = await snapshots.find(namespace, id, tried, signal).catch((error: unknown) => {
      // A holder that is full is a better answer than one that says nothing.
      throw full === undefined || signal.aborted ? error : noCapacity(id, full);
    });
    if (snapshot === undefined) {
      break;
    }
    tried.add(snapshot.node);
    try {
      return { assignment: await store.claimSnapshot(namespace, name, snapshot.node, id, options), snapshot };
    } catch (error) {
      if (isScaleError(error, "not_found")) {
        snapshots.forget(namespace, id);
      } else if (isScaleError(error, "no_warm_capacity")) {
        full = error;
      } else {
        throw error;
      }
    }
  }
  throw full === undefined
    ? new E2bError("not_found", `snapshot ${JSON.stringify(id)} not found`)
    : noCapacity(id, full);
}

async function claimSnapshot(
  service: Service,
  call: Call,
  body: CreateSandbox,
  id: string,
  options: ClaimOptions,
): Promise<Claimed> {
  if (body.allow_internet_access === true) {
    throw new E2bError("bad_request", "allow_internet_access is not supported for snapshots");
  }
  const { assignment, snapshot } = await askHolders(service, call, id, options);
  const { node, netRoute = "none" } = assignment;
  if (body.allow_internet_access === false && netRoute !== "none") {
    // A copy keeps the way out of its source, which only now is known.
    await service.abandon(node, assignment.id);
    throw new E2bError(
      "bad_request",
      "allow_internet_access: false is not supported for this snapshot: its sandboxes have a way out",
    );
  }
  const { template } = snapshot.pool;
  return { assignment, template, built: template.startsWith(BUILT_PREFIX), copied: true };
}

/**
 * Claims what `templateID` names: an alias, a pool image, a built template with or without a tag, or a snapshot of the
 * namespace. Throws `bad_request`, `not_found`, `unavailable`, and what the store throws.
 */
export async function claimSandbox(service: Service, call: Call, body: CreateSandbox, asked: string): Promise<Claimed> {
  const { settings } = service;
  if (asked.startsWith(BUILT_PREFIX)) {
    throw unknownTemplate(asked);
  }
  const options: ClaimOptions = {
    ttlSeconds: body.timeout ?? settings.defaultTimeoutSeconds,
    metadata: body.metadata ?? undefined,
    onExpire: body.autoPause === true ? "archive" : undefined,
    uniqueName: true,
    signal: call.signal,
  };
  return SNAPSHOT_ID.test(asked) && !settings.aliases.byAlias.has(asked)
    ? claimSnapshot(service, call, body, asked, options)
    : claimPool(service, call, body, asked, options);
}
