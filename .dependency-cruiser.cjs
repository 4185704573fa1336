// The import table of ARCHITECTURE.md. Imports resolve to sources (condition "@org/source"), never through dist, so that
// type-only edges count as well.

/** A package may import these workspace packages and no others. */
const mayImport = {
  "sandbox-address": [],
  certificates: [],
  "sandboxd-client": [],
  "envd-client": [],
  "command-line": [],
  "code-interpreter": [],
  scale: ["sandboxd-client"],
  meshinventory: ["scale", "sandboxd-client"],
  kubeinventory: ["scale", "sandboxd-client"],
  "sandbox-apiserver": ["scale", "kubeinventory", "certificates"],
  "warm-pool-driver": ["scale", "kubeinventory", "sandboxd-client"],
  e2bcompat: ["scale", "sandbox-address", "envd-client"],
  envdproxy: ["scale", "sandbox-address"],
  envd: ["sandboxd-client", "envd-client"],
  console: ["scale", "sandbox-address"],
  doctor: ["sandboxd-client", "envd-client", "certificates"],
  devnode: ["envd", "sandboxd-client", "envd-client"],
};

const direct = Object.entries(mayImport).map(([name, allowed]) => ({
  name: `${name}-imports`,
  comment: `packages/${name} may import ${allowed.length === 0 ? "no workspace package" : allowed.join(", ")}.`,
  severity: "error",
  from: { path: `^packages/${name}/` },
  to: { path: "^(packages|apps)/", pathNot: `^packages/(${[name, ...allowed].join("|")})/` },
}));

const kubernetes = "^packages/(kubeinventory|sandbox-apiserver|warm-pool-driver)/|/node_modules/@kubernetes/";

/** @type {import("dependency-cruiser").IConfiguration} */
module.exports = {
  forbidden: [
    ...direct,
    {
      name: "scale-core-is-alone",
      comment: "Only the node adapter of scale knows the node's client.",
      severity: "error",
      from: { path: "^packages/scale/src/", pathNot: "^packages/scale/src/adapters/" },
      to: { path: "^(packages/(?!scale/)|apps/)" },
    },
    {
      name: "e2bcompat-reaches-no-source",
      comment: "The control plane gets its store and inventory handed in.",
      severity: "error",
      from: { path: "^packages/e2bcompat/" },
      to: {
        path: "^(packages/(envdproxy|meshinventory|kubeinventory|sandbox-apiserver|warm-pool-driver)|apps)/",
        reachable: true,
      },
    },
    {
      name: "envdproxy-reaches-no-source",
      comment: "The data plane gets its store handed in.",
      severity: "error",
      from: { path: "^packages/envdproxy/" },
      to: {
        path: "^(packages/(e2bcompat|meshinventory|kubeinventory|sandbox-apiserver|warm-pool-driver)|apps)/",
        reachable: true,
      },
    },
    {
      name: "sandbox-e2b-never-kubernetes",
      comment: "The mesh service reaches nothing of Kubernetes, directly or through others.",
      severity: "error",
      from: { path: "^apps/sandbox-e2b/" },
      to: { path: kubernetes, reachable: true },
    },
    {
      name: "envd-proxy-never-devnode",
      comment: "Only sandbox-e2b may load the development node, and what its guests start with.",
      severity: "error",
      from: { path: "^apps/(envd-proxy|apiserver-shim)/" },
      to: { path: "^packages/(devnode|envd|code-interpreter)/", reachable: true },
    },
    {
      name: "devnode-only-dynamically",
      comment: "The service must start without loading the development node: import() it in the dev commands.",
      severity: "error",
      from: { path: "^apps/sandbox-e2b/" },
      to: { path: "^packages/(devnode|code-interpreter)/", dependencyTypesNot: ["dynamic-import", "type-only"] },
    },
    {
      name: "command-line-in-apps-only",
      comment: "Libraries take options; only programs read arguments and the environment.",
      severity: "error",
      from: { path: "^packages/(?!command-line/|conformance/|bench/)" },
      to: { path: "^packages/command-line/" },
    },
    {
      name: "apps-are-not-imported",
      severity: "error",
      from: { path: "^packages/(?!conformance/|bench/)" },
      to: { path: "^apps/" },
    },
    {
      name: "no-neighbours-sources",
      comment: "Import a workspace package by its name, not by a path into its folder.",
      severity: "error",
      from: { path: "^(?:packages|apps)/([^/]+)/" },
      to: { path: "^(?:packages|apps)/", pathNot: "^(?:packages|apps)/$1/", dependencyTypes: ["local"] },
    },
    {
      name: "test-doubles-in-tests-only",
      severity: "error",
      from: { path: "/src/", pathNot: "(\\.test\\.ts$|/src/testing/)" },
      to: { path: "/src/testing/" },
    },
    {
      name: "no-tests-in-sources",
      severity: "error",
      from: { pathNot: "(\\.test\\.ts$|/test/)" },
      to: { path: "(\\.test\\.ts$|/test/)" },
    },
    { name: "no-circular", severity: "error", from: {}, to: { circular: true } },
    { name: "not-to-unresolvable", severity: "error", from: {}, to: { couldNotResolve: true } },
  ],
  options: {
    doNotFollow: { path: "node_modules" },
    // The consumer under packaging imports what only its own install has.
    exclude: { path: "(^|/)(dist|\\.venv[^/]*|\\.state|packaging/test/consumer)/" },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: "tsconfig.base.json" },
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["@org/source", "import", "types", "node", "default"],
    },
  },
};
