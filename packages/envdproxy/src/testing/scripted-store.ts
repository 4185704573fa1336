import { connect } from "node:net";
import type { Duplex } from "node:stream";
import { ScaleError } from "@org/scale";
import type { CallOptions, Sandbox, SandboxRecord } from "@org/scale";
import type { ProxiedStore } from "../proxied-store.ts";

/** One guest of a {@link ScriptedStore}: its ports lead to local servers. */
export interface ScriptedGuest {
  node: string;
  token: string | undefined;
  paused: boolean;
  /** Guest port to local port. */
  readonly ports: Map<number, number>;
  /** Whether inventory lists it; otherwise only asking nodes finds it. */
  listed: boolean;
  /** Whether the node knows it. A listed sandbox that its node does not know is stale. */
  alive: boolean;
}

/** A call that a {@link ScriptedStore} got. */
export interface ScriptedCall {
  readonly verb: "find" | "ask" | "read" | "dial";
  readonly id: string;
  readonly token?: string;
  readonly port?: number;
}

function refused(status: number): ScaleError {
  return new ScaleError(status < 500 ? "node_refused" : "node_failed", `10.0.0.9:27777 answered ${status}`, {
    node: "10.0.0.9:27777",
    status,
  });
}

/** A store whose guests are local servers, with nodes that answer as real ones do. */
export class ScriptedStore implements ProxiedStore {
  readonly guests: Map<string, ScriptedGuest> = new Map();
  readonly calls: ScriptedCall[] = [];
  readonly relays: Set<Duplex> = new Set();
  /** Whose relay each of them is. */
  readonly owners: Map<Duplex, string> = new Map();
  /** Runs before each dial; may throw or wait. */
  beforeDial: (id: string, options: CallOptions | undefined) => Promise<void> | void = () => undefined;
  /** Runs before each read; may throw or wait. */
  beforeRead: (id: string) => Promise<void> | void = () => undefined;
  /** Nodes that stay silent when they are asked for a sandbox. */
  unanswered = 0;
  /** Wakes that happened. */
  wakes = 0;
  readonly #listeners = new Set<(node: string, id: string) => void>();

  put(
    id: string,
    guest: Partial<Omit<ScriptedGuest, "ports">> & { readonly ports?: Record<number, number> } = {},
  ): ScriptedGuest {
    const { ports = {}, ...rest } = guest;
    const made: ScriptedGuest = {
      node: "10.0.0.1:27777",
      token: `token-of-${id}`,
      paused: false,
      listed: true,
      alive: true,
      ...rest,
      ports: new Map(Object.entries(ports).map(([port, local]) => [Number(port), local])),
    };
    this.guests.set(id, made);
    return made;
  }

  count(verb: ScriptedCall["verb"]): number {
    return this.calls.filter((call) => call.verb === verb).length;
  }

  async getByClaimId(
    _namespace: string,
    id: string,
    match: (claimId: string) => boolean,
    options?: CallOptions,
  ): Promise<Sandbox> {
    this.calls.push({ verb: "find", id });
    for (const [claimId, guest] of this.guests) {
      if (guest.listed && match(claimId)) {
        return this.#sandbox(claimId, guest);
      }
    }
    this.calls.push({ verb: "ask", id });
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    options?.signal?.throwIfAborted();
    const guest = this.guests.get(id);
    if (guest === undefined || !guest.alive) {
      throw new ScaleError("not_found", `sandbox ${id} not found`, { unanswered: this.unanswered });
    }
    return this.#sandbox(id, guest);
  }

  async read(_node: string, id: string): Promise<SandboxRecord> {
    this.calls.push({ verb: "read", id });
    await this.beforeRead(id);
    const guest = this.guests.get(id);
    if (guest === undefined || !guest.alive) {
      throw new ScaleError("not_found", `sandbox ${id} not found`, { status: 404 });
    }
    return { token: guest.token, paused: guest.paused, archived: false, sandbox: this.#sandbox(id, guest) };
  }

  async dialGuestPort(_node: string, id: string, token: string, port: number, options?: CallOptions): Promise<Duplex> {
    this.calls.push({ verb: "dial", id, token, port });
    await this.beforeDial(id, options);
    const guest = this.guests.get(id);
    if (guest === undefined || !guest.alive || (token !== "" && guest.token !== undefined && token !== guest.token)) {
      throw new ScaleError("not_found", "10.0.0.9:27777: unknown sandbox", { status: 404 });
    }
    if (guest.paused) {
      if (token === "") {
        throw refused(409);
      }
      this.wakes += 1;
      guest.paused = false;
    }
    const local = guest.ports.get(port);
    if (local === undefined) {
      throw refused(502);
    }
    const socket = connect({ host: "127.0.0.1", port: local, allowHalfOpen: true, noDelay: true });
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("error", () => reject(refused(502)));
    });
    this.relays.add(socket);
    this.owners.set(socket, id);
    socket.once("close", () => {
      this.relays.delete(socket);
      this.owners.delete(socket);
    });
    return socket;
  }

  standing(_node: string, id: string): "running" | "paused" | "unlisted" {
    const guest = this.guests.get(id);
    if (guest?.listed !== true) {
      return "unlisted";
    }
    return guest.paused ? "paused" : "running";
  }

  /** Puts a sandbox to sleep behind everybody's back, as its node does: its relays are cut. */
  pause(id: string): void {
    Object.assign(this.guests.get(id) ?? {}, { paused: true });
    for (const [relay, owner] of this.owners) {
      if (owner === id) {
        relay.destroy();
      }
    }
  }

  onReleased(listener: (node: string, id: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Ends a sandbox through this store. */
  async release(node: string, id: string): Promise<void> {
    const guest = this.guests.get(id);
    if (guest !== undefined) {
      guest.alive = false;
    }
    for (const listener of this.#listeners) {
      listener(node, id);
    }
  }

  #sandbox(id: string, guest: ScriptedGuest): Sandbox {
    return {
      namespace: "default",
      name: id,
      node: guest.node,
      id,
      phase: guest.paused ? "Hibernated" : "Running",
      paused: guest.paused,
    };
  }
}
