import { ownerOf, type Caller, type Tenant } from "./access.ts";
import { Refusal } from "./refusal.ts";
import type { Sandbox, SandboxState } from "./sandbox.ts";

/** Options of {@link createRoster}. */
export interface RosterOptions {
  /** 0 for no limit. */
  readonly maxClaims: number;
  readonly tenants: readonly Tenant[];
}

/** Places of claims that were admitted and wait for their guests. */
export interface HeldPlaces {
  free(): void;
}

/** The live sandboxes of a node, and how many more there may be. */
export interface Roster {
  readonly size: number;
  /** A drained node admits nobody. */
  draining: boolean;
  find(id: string): Sandbox | undefined;
  all(): Iterable<Sandbox>;
  add(sandbox: Sandbox): void;
  /** `false` when somebody else removed it before. */
  remove(id: string): boolean;
  count(state: SandboxState): number;
  /** Live claims of a tenant, those that still start among them. */
  claimsOf(tenant: string): number;
  /** @throws Refusal 429 */
  admit(tenant: string | undefined, places?: number): void;
  /** Admits, and counts until the guests are there. @throws Refusal 429 */
  hold(tenant: string | undefined, places?: number): HeldPlaces;
}

/** Makes an empty roster. */
export function createRoster(options: RosterOptions): Roster {
  const { maxClaims } = options;
  const caps = new Map(options.tenants.map((tenant) => [tenant.name, tenant.maxClaims ?? 0]));
  const sandboxes = new Map<string, Sandbox>();
  const starting = new Map<string | undefined, number>();
  let allStarting = 0;
  const start = (tenant: string | undefined, places: number): void => {
    allStarting += places;
    starting.set(tenant, (starting.get(tenant) ?? 0) + places);
  };
  const roster: Roster = {
    get size() {
      return sandboxes.size;
    },
    draining: false,
    find: (id) => sandboxes.get(id),
    all: () => [...sandboxes.values()],
    add: (sandbox) => void sandboxes.set(sandbox.id, sandbox),
    remove: (id) => sandboxes.delete(id),
    count: (state) => {
      let total = 0;
      for (const sandbox of sandboxes.values()) {
        total += sandbox.state === state ? 1 : 0;
      }
      return total;
    },
    claimsOf: (tenant) => {
      let total = starting.get(tenant) ?? 0;
      for (const sandbox of sandboxes.values()) {
        total += sandbox.facts.tenant === tenant ? 1 : 0;
      }
      return total;
    },
    admit: (tenant, places = 1) => {
      if (roster.draining) {
        throw new Refusal(429, "node claim quota reached: node draining");
      }
      const live = sandboxes.size + allStarting;
      if (maxClaims > 0 && live + places > maxClaims) {
        throw new Refusal(429, `node claim quota reached: ${live} live claims, cap ${maxClaims}`);
      }
      const cap = tenant === undefined ? 0 : (caps.get(tenant) ?? 0);
      if (tenant !== undefined && cap > 0) {
        const own = roster.claimsOf(tenant);
        if (own + places > cap) {
          throw new Refusal(429, `node claim quota reached: tenant ${tenant} at ${own} live claims, cap ${cap}`);
        }
      }
    },
    hold: (tenant, places = 1) => {
      roster.admit(tenant, places);
      start(tenant, places);
      let held = true;
      return {
        free: () => {
          if (held) {
            held = false;
            start(tenant, -places);
          }
        },
      };
    },
  };
  return roster;
}

/** True when this caller may use what an owner has made: its own, and the operator's; the operator uses all. */
export function maySee(caller: Caller, owner: string | undefined): boolean {
  return caller.kind === "root" || owner === undefined || owner === ownerOf(caller);
}

/** True when this caller may change what an owner has made: its own; the operator changes all. */
export function mayChange(caller: Caller, owner: string | undefined): boolean {
  return caller.kind === "root" || owner === ownerOf(caller);
}
