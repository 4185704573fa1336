/** A user as a token review tells it. */
export interface KubeUser {
  readonly username: string;
  readonly uid?: string;
  readonly groups?: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** What somebody may do, as a role says it. `*` stands for all. */
export interface KubeRule {
  /** Users, and groups with `group:` before them. */
  readonly subjects: readonly string[];
  readonly verbs: readonly string[];
  /** Resources, subresources as `sandboxes/pause`. */
  readonly resources?: readonly string[];
  /** Absent: every namespace, and the whole cluster. */
  readonly namespaces?: readonly string[];
  /** Paths that are no resources; one may end in `*`. */
  readonly paths?: readonly string[];
}

/** Answers a TokenReview out of a table of tokens. */
export function reviewToken(body: unknown, users: Readonly<Record<string, KubeUser>>): object {
  const token = member(member(body, "spec"), "token");
  const user = typeof token === "string" ? users[token] : undefined;
  const status =
    user === undefined ? { authenticated: false, error: "the token is not known" } : { authenticated: true, user };
  return { apiVersion: "authentication.k8s.io/v1", kind: "TokenReview", metadata: {}, spec: {}, status };
}

/** Answers a SubjectAccessReview out of rules. Who is not named may nothing. */
export function reviewAccess(body: unknown, rules: readonly KubeRule[]): object {
  const spec = member(body, "spec");
  const user = member(spec, "user");
  const groups = member(spec, "groups");
  const subjects = new Set([
    typeof user === "string" && !user.startsWith("group:") ? user : "",
    ...(Array.isArray(groups) ? groups.map((group) => `group:${String(group)}`) : []),
  ]);
  const allowed = rules.some((rule) => rule.subjects.some((subject) => subjects.has(subject)) && permits(rule, spec));
  const status = allowed ? { allowed, reason: "a rule of the stand-in" } : { allowed: false };
  return { apiVersion: "authorization.k8s.io/v1", kind: "SubjectAccessReview", metadata: {}, spec, status };
}

function permits(rule: KubeRule, spec: unknown): boolean {
  const wanted = member(spec, "resourceAttributes");
  const path = member(member(spec, "nonResourceAttributes"), "path");
  const verb = member(wanted, "verb") ?? member(member(spec, "nonResourceAttributes"), "verb");
  if (!has(rule.verbs, verb)) {
    return false;
  }
  if (typeof path === "string") {
    return (rule.paths ?? []).some((one) => (one.endsWith("*") ? path.startsWith(one.slice(0, -1)) : path === one));
  }
  const subresource = member(wanted, "subresource");
  const resource = [member(wanted, "resource"), subresource].filter((part) => part !== undefined && part !== "");
  const namespace = member(wanted, "namespace");
  return (
    has(rule.resources ?? [], resource.join("/")) &&
    (rule.namespaces === undefined || has(rule.namespaces, namespace ?? ""))
  );
}

function has(list: readonly string[], value: unknown): boolean {
  return list.includes("*") || (typeof value === "string" && list.includes(value));
}

function member(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[name] : undefined;
}
