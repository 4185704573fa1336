import { createHash, timingSafeEqual } from "node:crypto";

/** What `/init` can change while the daemon runs. */
export interface GuestState {
  accessToken: string | undefined;
  defaultUser: string;
  defaultWorkdir: string | undefined;
  /** What the guest's files bring along, when they were copied from another guest. */
  bootVariables: Readonly<Record<string, string>>;
  /** Set by `/init`; replaced as a whole. */
  userVariables: Readonly<Record<string, string>>;
  /** Time of the newest `/init` that carried one, in nanoseconds. */
  initializedAt: bigint | undefined;
  /** Set by the node. */
  readonly nodeVariables: Readonly<Record<string, string>>;
  /** `E2B_SANDBOX…`: neither `/init` nor the node's variables change them. */
  readonly ownVariables: Readonly<Record<string, string>>;
}

/** The variables every command starts with. */
export function defaultVariables(state: GuestState): Record<string, string> {
  return { ...state.nodeVariables, ...state.bootVariables, ...state.userVariables, ...state.ownVariables };
}

/** Compares two secrets in constant time, whatever their lengths. */
export function sameSecret(a: string, b: string): boolean {
  return timingSafeEqual(createHash("sha256").update(a).digest(), createHash("sha256").update(b).digest());
}
