import type { SandboxStore } from "@org/scale";

/**
 * What the data plane needs of a store: the owner of a sandbox, what that owner says, a connection, and farewells. With
 * `standing`, a pause or an end that inventory shows is noticed before a kept relay is used.
 */
export type ProxiedStore = Pick<SandboxStore, "getByClaimId" | "read" | "dialGuestPort" | "onReleased"> &
  Partial<Pick<SandboxStore, "standing">>;
