import type { SandboxStore } from "@org/scale";

/** What the data plane needs of a store: the owner of a sandbox, what that owner says, a connection, and farewells. */
export type ProxiedStore = Pick<SandboxStore, "getByClaimId" | "read" | "dialGuestPort" | "onReleased">;
