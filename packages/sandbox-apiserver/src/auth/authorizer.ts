import { hash } from "node:crypto";
import type { KubeClient, Timing } from "@org/kubeinventory/client";
import type { Logger } from "@org/scale";
import { ApiServerError } from "../api-server-error.ts";
import type { ApiUser, AuthorizationAttributes, Authorizer, Decision, SelectorRequirement } from "../security.ts";
import { statusOf } from "./foreign.ts";
import { REAL_TIMING } from "./real-timing.ts";
import { ReviewCaller } from "./review-caller.ts";
import { orAborted, VerdictCache } from "./verdict-cache.ts";

/** Options of {@link createAuthorizer}. */
export interface AuthorizerOptions {
  /** Reviews what users may do. @default nobody does: what is not always allowed is refused */
  readonly client?: Pick<KubeClient, "request"> | undefined;
  /** Groups whose members may do everything. @default ["system:masters"] */
  readonly alwaysAllowGroups?: readonly string[] | undefined;
  /** Paths that everybody may ask for; one that ends in `*` stands for all that begin like it. @default ["/healthz", "/readyz", "/livez"] */
  readonly alwaysAllowPaths?: readonly string[] | undefined;
  /** How long a permission is kept, in milliseconds; 0: not at all. @default 10000 */
  readonly allowedTtlMs?: number | undefined;
  /** How long a refusal is kept, in milliseconds; 0: not at all. @default 10000 */
  readonly deniedTtlMs?: number | undefined;
  /** Told when reviews fail and when they are back. @default silent */
  readonly logger?: Logger | undefined;
  /** For tests. @default real time */
  readonly timing?: Timing | undefined;
}

const GROUPS = ["system:masters"];
const PATHS = ["/healthz", "/readyz", "/livez"];
const TTL_MS = 10_000;
const MAX_KEPT = 8192;
/** Of what a client chooses: more is not worth the room. */
const MAX_KEPT_BYTES = 10_000;

/**
 * An authorizer that asks the cluster by SubjectAccessReview, except for the always allowed. Kube specification §4.3.
 * Its `authorize` throws an ApiStatusError 503 when the cluster cannot be reached, 500 when it does not review for us.
 * @throws ApiServerError `invalid_options` for a path with a `*` that is not its end.
 */
export function createAuthorizer(options: AuthorizerOptions = {}): Authorizer {
  const { client, logger, timing = REAL_TIMING, allowedTtlMs = TTL_MS, deniedTtlMs = TTL_MS } = options;
  const groups = new Set(options.alwaysAllowGroups ?? GROUPS);
  const isOpen = pathMatcher(options.alwaysAllowPaths ?? PATHS);
  const verdicts = new VerdictCache<Decision>({
    max: MAX_KEPT,
    ttlMs: (decision) => (decision === "allow" ? allowedTtlMs : deniedTtlMs),
    timing,
  });
  const caller =
    client === undefined
      ? undefined
      : new ReviewCaller({
          client,
          name: "subjectaccessreviews",
          path: "/apis/authorization.k8s.io/v1/subjectaccessreviews",
          query: { timeout: "10s" },
          logger,
          timing,
        });

  async function review(spec: object): Promise<Decision> {
    const reply = await caller?.review({
      kind: "SubjectAccessReview",
      apiVersion: "authorization.k8s.io/v1",
      metadata: {},
      spec,
    });
    const { allowed, denied } = statusOf(reply);
    if (denied === true) {
      return "deny";
    }
    return allowed === true ? "allow" : "no_opinion";
  }

  return {
    async authorize(user, attributes, { signal } = {}) {
      if (user.groups.some((group) => groups.has(group))) {
        return "allow";
      }
      if (attributes.kind === "path" && isOpen(attributes.path)) {
        return "allow";
      }
      if (caller === undefined) {
        return "no_opinion";
      }
      const spec = reviewSpec(user, attributes);
      if (chosenBytes(attributes) >= MAX_KEPT_BYTES) {
        return signal === undefined ? review(spec) : orAborted(review(spec), signal);
      }
      return verdicts.get(hash("sha256", JSON.stringify(spec), "base64"), () => review(spec), signal);
    },
  };
}

/** The spec of a SubjectAccessReview. */
function reviewSpec(user: ApiUser, attributes: AuthorizationAttributes): object {
  const { name, uid, groups, extra } = user;
  const subject = { user: name, ...(uid !== undefined && uid !== "" && { uid }), groups, ...(extra && { extra }) };
  if (attributes.kind === "path") {
    const { path, verb } = attributes;
    return { nonResourceAttributes: { path, verb: verb.toLowerCase() }, ...subject };
  }
  const { verb, group, version, resource, subresource, namespace, fieldSelector, labelSelector } = attributes;
  const object = attributes.name ?? nameSelected(fieldSelector);
  return {
    resourceAttributes: {
      ...(namespace !== undefined && namespace !== "" && { namespace }),
      verb,
      group,
      version,
      resource,
      ...(subresource !== undefined && subresource !== "" && { subresource }),
      ...(object !== undefined && object !== "" && { name: object }),
      ...(fieldSelector !== undefined &&
        fieldSelector.length > 0 && { fieldSelector: { requirements: fieldSelector } }),
      ...(labelSelector !== undefined &&
        labelSelector.length > 0 && { labelSelector: { requirements: labelSelector } }),
    },
    ...subject,
  };
}

/** The one object that a selector by name leaves: who may see that one may list it. */
function nameSelected(selector: readonly SelectorRequirement[] = []): string | undefined {
  const [only, ...others] = selector.filter(({ key }) => key === "metadata.name");
  const [name, ...more] = only?.operator === "In" ? (only.values ?? []) : [];
  return others.length === 0 && more.length === 0 ? name : undefined;
}

/** How much a client chose of what is reviewed, in bytes. */
function chosenBytes(attributes: AuthorizationAttributes): number {
  if (attributes.kind === "path") {
    return Buffer.byteLength(attributes.path) + Buffer.byteLength(attributes.verb);
  }
  const { verb, group, version, resource, subresource, namespace, name, fieldSelector, labelSelector } = attributes;
  const requirements = [...(fieldSelector ?? []), ...(labelSelector ?? [])].flatMap(({ key, operator, values }) => [
    key,
    operator,
    ...(values ?? []),
  ]);
  return [verb, group, version, resource, subresource, namespace, name, ...requirements].reduce(
    (sum, text) => sum + Buffer.byteLength(text ?? ""),
    0,
  );
}

/** Tells whether a path is among these. The slash in front counts for neither. */
function pathMatcher(paths: readonly string[]): (path: string) => boolean {
  const exact = new Set<string>();
  const prefixes: string[] = [];
  for (const path of paths) {
    const bare = path.replace(/^\//, "");
    if (bare.slice(0, -1).includes("*")) {
      throw new ApiServerError(
        "invalid_options",
        `the always allowed path ${JSON.stringify(path)}: only its end may be *`,
      );
    }
    if (bare.endsWith("*")) {
      prefixes.push(bare.slice(0, -1));
    } else {
      exact.add(bare);
    }
  }
  return (path) => {
    const bare = path.replace(/^\//, "");
    return exact.has(bare) || prefixes.some((prefix) => bare.startsWith(prefix));
  };
}
