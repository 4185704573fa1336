/**
 * The data plane: routes SDK traffic for `{port}-{id}.{domain}`, or with the sandbox headers, to guest ports over node
 * relays. It finds the sandbox's node, checks the access token, opens one relay per request and streams HTTP/1.1,
 * HTTP/2 and upgraded connections both ways. It translates nothing above HTTP, and no answer names a node.
 *
 * `createProxy` builds it over a store, `bindListener` takes an address, `serve` or `Flags.serve` joins the two.
 */
export { bindListener } from "./listener.ts";
export type { Listener } from "./listener.ts";
export { createProxy } from "./proxy.ts";
export type { ProxyHandler, ProxyOptions } from "./proxy.ts";
export type { ProxiedStore } from "./proxied-store.ts";
export type { PublicPorts } from "./public-ports.ts";
export { loadEnvdSecret } from "./envd-secret.ts";
export { serve } from "./serve.ts";
export type { ServeOptions } from "./serve.ts";
export type { TlsFiles, TlsPair } from "./tls-pair.ts";
export { Flags } from "./flags.ts";
export type { FlaggedOptions, FlagOption, FlagPrefix } from "./flags.ts";
export { EnvdProxyError } from "./errors.ts";
export type { EnvdProxyErrorCode, RequestErrorCode, SetupErrorCode } from "./errors.ts";
