import type { Socket } from "node:net";
import type { Access } from "../node/access.ts";
import { readStrictObject } from "./body.ts";
import { parseFaults, type FaultSpec } from "./faults-body.ts";
import { replyJson, replyNothing } from "./replies.ts";
import type { Route } from "./route.ts";

/** One fault in force. */
export interface Fault {
  readonly spec: FaultSpec;
  /** Requests it has met, or times the listener was shut for it. */
  hits: number;
}

/** The faults of one node, which tests switch on and off over HTTP. */
export interface Faults {
  /** `GET`, `PUT` and `DELETE /debug/faults`, for the operator alone. */
  readonly routes: readonly Route[];
  /** The first fault that is meant for a request; one of its times is used up. */
  take(method: string, path: string): Fault | undefined;
  /** Marks a connection as held by a fault: it is cut when the faults are replaced. Answers what ends that. */
  hold(connection: Socket): () => void;
  /** Takes every fault away. */
  clear(): void;
}

/** Shuts the listener, for `stop-accepting`. */
export interface Door {
  /** Lets nobody in for `forMs`, from `delayMs` on. `onShut` is called when that begins. */
  shut(delayMs: number, forMs: number, onShut: () => void): void;
  /** Lets everybody in again, and forgets what was to come. */
  open(): void;
}

/** The route by which faults are switched; no fault ever meets it. */
const PATH = "/debug/faults";

/** Starts without faults. */
export function createFaults(access: Access, door: Door): Faults {
  let faults: readonly Fault[] = [];
  const held = new Set<Socket>();
  const replace = (specs: readonly FaultSpec[]): void => {
    faults = specs.map((spec) => ({ spec, hits: 0 }));
    door.open();
    for (const connection of held) {
      connection.resetAndDestroy();
    }
  };
  const route = (method: string, handle: Route["handle"]): Route => ({
    method,
    path: PATH,
    failure: "faults failed",
    handle: async (call) => {
      access.root(call.request.headers.authorization);
      await handle(call);
    },
  });
  return {
    routes: [
      route("GET", ({ response }) => replyJson(response, 200, report(faults))),
      route("PUT", async ({ request, response }) => {
        const specs = parseFaults(await readStrictObject(request));
        replace(specs);
        const fresh = faults;
        // Nobody could read the answer otherwise.
        response.once("close", () => {
          for (const fault of faults === fresh ? fresh : []) {
            if (fault.spec.kind === "stop-accepting") {
              door.shut(fault.spec.delayMs, fault.spec.forMs ?? 0, () => (fault.hits += 1));
            }
          }
        });
        replyJson(response, 200, report(fresh));
      }),
      route("DELETE", ({ response }) => {
        replace([]);
        replyNothing(response);
      }),
    ],
    take: (method, path) => {
      const found = path === PATH ? undefined : faults.find((fault) => meets(fault, method, path));
      if (found !== undefined) {
        found.hits += 1;
      }
      return found;
    },
    hold: (connection) => {
      const release = (): void => {
        held.delete(connection);
        connection.off("close", release);
      };
      held.add(connection);
      connection.once("close", release);
      return release;
    },
    clear: () => replace([]),
  };
}

function meets({ spec, hits }: Fault, method: string, path: string): boolean {
  return (
    spec.kind !== "stop-accepting" &&
    (spec.times === undefined || hits < spec.times) &&
    (spec.method === undefined || spec.method === method) &&
    (spec.path === undefined || pathFits(spec.path, path))
  );
}

/** `*` stands for one part that is not empty, `**` at the end for all that follow. */
function pathFits(pattern: string, path: string): boolean {
  const wanted = pattern.split("/");
  const parts = path.split("/");
  const open = wanted.at(-1) === "**";
  if (open) {
    wanted.pop();
  }
  return (
    (open ? parts.length > wanted.length : parts.length === wanted.length) &&
    wanted.every((part, index) => (part === "*" ? parts[index] !== "" : part === parts[index]))
  );
}

function report(faults: readonly Fault[]): object {
  return {
    faults: faults.map(({ spec, hits }) => ({
      kind: spec.kind,
      method: spec.method,
      path: spec.path,
      times: spec.times,
      delay_ms: spec.delayMs === 0 ? undefined : spec.delayMs,
      status: spec.status,
      body: spec.body,
      for_ms: spec.forMs,
      hits,
    })),
  };
}
