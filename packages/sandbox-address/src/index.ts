/**
 * The spellings of a sandbox: the node's claim id, the id in a DNS label, the host name of a guest port; and the
 * addresses servers listen on. Pure functions shared by the control plane, which prints these spellings, and the data
 * plane, which reads them.
 */
export { claimIdFromPublic, matchesSandboxId, publicSandboxId } from "./sandbox-id.ts";
export { parsePort, parseSandboxHost, sandboxHost } from "./sandbox-host.ts";
export type { SandboxAddress } from "./sandbox-host.ts";
export { formatAddress, parseBindAddress } from "./bind-address.ts";
export type { BindAddress } from "./bind-address.ts";
