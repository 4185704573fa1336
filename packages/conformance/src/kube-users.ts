import { KubeAuthority, type KubePair } from "./kube-certificates.ts";
import type { KubeRule, KubeUser } from "./kube-standin-reviews.ts";
import type { KubeStandinSettings } from "./kube-standin-script.ts";

/** Token of what runs in the cluster: the API server takes it, and knows whose it is. */
export const SYSTEM_TOKEN = "token-of-the-shim";

/** Tokens of three people: one may everything, one may read the namespace `team`, one may nothing but look around. */
export const TOKENS = { admin: "token-of-alice", reader: "token-of-bob", nobody: "token-of-carol" } as const;

/** Whose tokens they are. */
const USERS: Readonly<Record<string, KubeUser>> = {
  [SYSTEM_TOKEN]: { username: "system:serviceaccount:sandbox-system:sandbox-apiserver" },
  [TOKENS.admin]: { username: "alice", uid: "1", groups: ["ops"], extra: { "example.org/team": ["one", "two"] } },
  [TOKENS.reader]: { username: "bob", uid: "2", groups: ["readers"] },
  [TOKENS.nobody]: { username: "carol", uid: "3" },
};

/** What they may do. */
export const RULES: readonly KubeRule[] = [
  {
    subjects: ["group:system:authenticated"],
    verbs: ["get"],
    paths: ["/api", "/apis", "/apis/*", "/openapi/*", "/version", "/version/"],
  },
  { subjects: ["group:ops"], verbs: ["*"], resources: ["*"], paths: ["*"] },
  { subjects: ["bob"], verbs: ["get", "list", "watch"], resources: ["sandboxes"], namespaces: ["team"] },
];

/** Authorities of a cluster, one for each purpose. */
export interface KubeAuthorities {
  /** Signs the certificates of users. */
  readonly clients: KubeAuthority;
  /** Signs that of the front proxy. */
  readonly frontProxy: KubeAuthority;
  /** Signs the serving certificate of the extension server. */
  readonly serving: KubeAuthority;
  /** A front proxy whose name is allowed. */
  readonly aggregator: KubePair;
}

/** New authorities, as every cluster has its own. */
export function newAuthorities(): KubeAuthorities {
  const frontProxy = new KubeAuthority("front-proxy-ca");
  return {
    clients: new KubeAuthority("kubernetes"),
    frontProxy,
    serving: new KubeAuthority("sandbox-apiserver-ca"),
    aggregator: frontProxy.issue({ commonName: "front-proxy-client" }),
  };
}

/** A cluster with those users and authorities. */
export function clusterSettings({
  clients,
  frontProxy,
}: KubeAuthorities): Omit<KubeStandinSettings, "port" | "certFile" | "keyFile"> {
  return {
    users: USERS,
    rules: RULES,
    tokens: [SYSTEM_TOKEN],
    objects: [extensionAuthentication(clients, frontProxy)],
  };
}

/** The ConfigMap by which a cluster tells whom its extension servers are to believe. */
export function extensionAuthentication(
  clients: KubeAuthority,
  frontProxy: KubeAuthority,
): KubeStandinSettings["objects"][number] {
  return {
    op: "put",
    group: "",
    plural: "configmaps",
    namespace: "kube-system",
    object: {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "extension-apiserver-authentication" },
      data: {
        "client-ca-file": clients.cert,
        "requestheader-client-ca-file": frontProxy.cert,
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
      },
    },
  };
}
