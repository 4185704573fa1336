import { NAMESPACE } from "./chart.ts";

/** What the chart makes with its default values. */
export const DEFAULT_OBJECTS: readonly string[] = [
  "CustomResourceDefinition nodeinventories.sandbox.cocoonstack.io",
  "ServiceAccount sandbox-apiserver",
  "Deployment sandbox-apiserver",
  "Service sandbox-apiserver",
  "PodDisruptionBudget sandbox-apiserver",
  "APIService v1beta1.agents.x-k8s.io",
  "ClusterRoleBinding sandbox-apiserver:system:auth-delegator",
  "RoleBinding sandbox-apiserver-auth-reader",
  "ClusterRole sandbox-apiserver-inventory-reader",
  "ClusterRoleBinding sandbox-apiserver-inventory-reader",
  "Role sandbox-apiserver-leader-election",
  "RoleBinding sandbox-apiserver-leader-election",
  "Issuer sandbox-apiserver-selfsigned",
  "Certificate sandbox-apiserver-ca",
  "Issuer sandbox-apiserver-ca",
  "Certificate sandbox-apiserver-serving",
];

/** What comes with the E2B API. */
export const E2B_OBJECTS: readonly string[] = [
  "Service sandbox-apiserver-e2b",
  "Deployment sandbox-envd-proxy",
  "Service sandbox-envd-proxy",
  "ServiceAccount sandbox-envd-proxy",
  "ClusterRole sandbox-envd-proxy",
  "ClusterRoleBinding sandbox-envd-proxy",
];

/** Content of cert-manager's objects. */
export const CERTIFICATES: Readonly<Record<string, unknown>> = {
  "Issuer sandbox-apiserver-selfsigned": { selfSigned: {} },
  "Certificate sandbox-apiserver-ca": {
    isCA: true,
    commonName: "sandbox-apiserver-ca",
    secretName: "sandbox-apiserver-ca",
    duration: "87600h",
    privateKey: { algorithm: "ECDSA", size: 256 },
    issuerRef: { group: "cert-manager.io", kind: "Issuer", name: "sandbox-apiserver-selfsigned" },
  },
  "Issuer sandbox-apiserver-ca": { ca: { secretName: "sandbox-apiserver-ca" } },
  "Certificate sandbox-apiserver-serving": {
    secretName: "sandbox-apiserver-serving-certs",
    duration: "8760h",
    renewBefore: "720h",
    dnsNames: [`sandbox-apiserver.${NAMESPACE}.svc`, `sandbox-apiserver.${NAMESPACE}.svc.cluster.local`],
    usages: ["digital signature", "server auth"],
    privateKey: { algorithm: "ECDSA", size: 256, rotationPolicy: "Always" },
    issuerRef: { group: "cert-manager.io", kind: "Issuer", name: "sandbox-apiserver-ca" },
  },
};

/** What an account may, by the name of its binding. */
interface Permission {
  /** Of the role with the binding's name; absent for a role that the cluster has. */
  readonly rules?: readonly unknown[];
  readonly role: { readonly kind: "ClusterRole" | "Role"; readonly name: string };
  readonly account: string;
  /** Absent: in the whole cluster. */
  readonly namespace?: string;
}

const inventory = {
  apiGroups: ["sandbox.cocoonstack.io"],
  resources: ["nodeinventories"],
  verbs: ["get", "list", "watch"],
};

export const PERMISSIONS: Readonly<Record<string, Permission>> = {
  "sandbox-apiserver:system:auth-delegator": {
    role: { kind: "ClusterRole", name: "system:auth-delegator" },
    account: "sandbox-apiserver",
  },
  "sandbox-apiserver-auth-reader": {
    role: { kind: "Role", name: "extension-apiserver-authentication-reader" },
    account: "sandbox-apiserver",
    namespace: "kube-system",
  },
  "sandbox-apiserver-inventory-reader": {
    rules: [
      inventory,
      {
        apiGroups: ["extensions.agents.x-k8s.io"],
        resources: ["sandboxwarmpools", "sandboxtemplates"],
        verbs: ["get", "list", "watch"],
      },
      {
        apiGroups: ["extensions.agents.x-k8s.io"],
        resources: ["sandboxwarmpools/status"],
        verbs: ["get", "update", "patch"],
      },
    ],
    role: { kind: "ClusterRole", name: "sandbox-apiserver-inventory-reader" },
    account: "sandbox-apiserver",
  },
  "sandbox-apiserver-leader-election": {
    rules: [
      {
        apiGroups: ["coordination.k8s.io"],
        resources: ["leases"],
        verbs: ["get", "list", "watch", "create", "update", "patch", "delete"],
      },
      { apiGroups: [""], resources: ["events"], verbs: ["create", "patch"] },
    ],
    role: { kind: "Role", name: "sandbox-apiserver-leader-election" },
    account: "sandbox-apiserver",
    namespace: NAMESPACE,
  },
  "sandbox-envd-proxy": {
    rules: [inventory],
    role: { kind: "ClusterRole", name: "sandbox-envd-proxy" },
    account: "sandbox-envd-proxy",
  },
};

const resources = { requests: { cpu: "100m", memory: "128Mi" }, limits: { memory: "512Mi" } };
const image = (repository: string): unknown => ({ repository, tag: "", pullPolicy: "IfNotPresent" });

/** The values of the chart. */
export const VALUES: unknown = {
  apiserver: {
    image: image("apiserver-shim"),
    replicaCount: 2,
    securePort: 6443,
    warmPoolDriver: true,
    sandboxdToken: { secretName: "", key: "token" },
    e2b: {
      enabled: false,
      domain: "",
      namespace: "default",
      envdVersion: "",
      defaultTimeoutSeconds: 0,
      port: 8080,
      apiKeySecret: { name: "", key: "keys" },
      envdSecret: { value: "", secretName: "", key: "secret" },
      templateAliases: "",
      builds: { enabled: false, parallel: 2 },
    },
    resources,
  },
  envdProxy: {
    image: image("envd-proxy"),
    replicaCount: 2,
    domain: "",
    namespace: "",
    port: 8443,
    tlsSecretName: "",
    resources,
  },
  certManager: { enabled: true, servingCertSecret: "sandbox-apiserver-serving-certs", caBundle: "" },
};
