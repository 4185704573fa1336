import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { DevNodeError } from "../errors.ts";
import { SILENT, type DevNodeLogger } from "../logger.ts";
import { prepareAgentFiles } from "./agent-files.ts";
import { openCaptureStore, type CaptureStore } from "./capture-store.ts";
import { createGroupMaker, type CgroupLayout } from "./cgroup-group.ts";
import type { EgressPolicy } from "./egress-gate.ts";
import { startGuest, type Guest, type GuestEnvironment, type GuestRequest } from "./guest.ts";
import { readHostView } from "./guest-tree.ts";
import { inheritedDescriptors } from "./inherited-descriptors.ts";
import { idRangeFor, readIdMap, type IdRange } from "./id-range.ts";
import type { Isolation } from "./launch.ts";
import { readMountTable } from "./mount-table.ts";
import { createRunFolder, sweepState } from "./run-folder.ts";
import { createSocketFolder } from "./socket-folder.ts";
import { createTrees, type Trees } from "./trees.ts";

/** How guests are frozen. */
export type FreezerKind = CgroupLayout | "signals";

/** Makes the guests of one node. */
export interface GuestHost {
  /** The isolation that a started guest has proven. */
  readonly isolation: Isolation;
  readonly freezer: FreezerKind;
  /** Both guest users exist, with ids of their own on the host. */
  readonly separateUsers: boolean;
  /** Copies of guests' files, those of earlier runs among them. */
  readonly captures: CaptureStore;
  /** Reads and writes those copies. */
  readonly trees: Trees;
  /** @throws DevNodeError `guest_start_failed` */
  start(request: GuestRequest): Promise<Guest>;
  /** Ends every guest and removes the run's folder. */
  close(): Promise<void>;
}

/** Options of {@link createGuestHost}. */
export interface GuestHostOptions {
  readonly stateDir: string;
  readonly isolation: Isolation | "auto";
  readonly egress: EgressPolicy;
  readonly logger?: DevNodeLogger | undefined;
  /** Built agent; found beside the package by default. */
  readonly guestBundle?: string | undefined;
  /**
   * Freezers to try, in this order; signals are what remains.
   * @default ["v2", "v1"]
   */
  readonly cgroups?: readonly CgroupLayout[] | undefined;
}

/**
 * With the host's root both give a guest the same namespaces and ids of its own; set-uid programs, and so `sudo`, work
 * only without bubblewrap. Without root there are no such programs to lose, and bubblewrap locks more.
 */
function candidates(wanted: Isolation | "auto", isRoot: boolean): readonly Isolation[] {
  if (wanted !== "auto") {
    return [wanted];
  }
  if (process.platform !== "linux") {
    return ["process"];
  }
  return isRoot ? ["unshare", "bubblewrap", "process"] : ["bubblewrap", "unshare", "process"];
}

/**
 * Prepares the run's folder, starts its keeper and finds an isolation by starting a guest in it.
 *
 * @throws DevNodeError `no_isolation` when the isolation asked for does not work here, `state_folder`
 */
export async function createGuestHost(options: GuestHostOptions): Promise<GuestHost> {
  const { logger = SILENT } = options;
  await sweepState(options.stateDir);
  const run = createRunFolder(options.stateDir, randomBytes(6).toString("hex"));
  const groups =
    process.platform === "linux"
      ? await createGroupMaker(`devnode-${run.id}`, options.cgroups ?? ["v2", "v1"])
      : undefined;
  if (groups !== undefined) {
    run.noteGroup(groups.path);
  }
  run.startKeeper();
  const guests = new Set<Guest>();
  const starting = new Set<Promise<unknown>>();
  let closed = false;
  const isRoot = process.getuid?.() === 0;
  const ids = isRoot ? createIdRanges() : undefined;
  const trees = createTrees();
  let captures: CaptureStore | undefined;
  const close = async (): Promise<void> => {
    closed = true;
    await Promise.allSettled(starting);
    await Promise.allSettled([...guests].map((guest) => guest.destroy()));
    captures?.close();
    await trees.close();
    await run.close();
  };
  try {
    const sockets = createSocketFolder(join(run.path, "s"));
    captures = openCaptureStore({ stateDir: options.stateDir, drafts: join(run.path, "drafts"), logger });
    const kept = captures;
    const shared = {
      run,
      sockets,
      agent: prepareAgentFiles(join(run.path, "agent"), options.guestBundle),
      view: readHostView(),
      mounts: readMountTable(),
      groups,
      trees,
      egress: options.egress,
      inherited: inheritedDescriptors(),
      nextRange: () => ids?.(),
    };
    const follow = async (started: Promise<Guest>): Promise<void> => {
      let guest: Guest;
      try {
        guest = await started;
      } catch {
        return;
      } finally {
        starting.delete(started);
      }
      guests.add(guest);
      await guest.ended;
      try {
        await guest.destroy();
        await guest.removed();
      } catch (error) {
        logger.warn({ guest: guest.id, err: error }, "guest left files behind");
      }
      guests.delete(guest);
    };
    const launch = (environment: GuestEnvironment, request: GuestRequest): Promise<Guest> => {
      const started = startGuest(environment, request);
      starting.add(started);
      void follow(started);
      return started;
    };
    const failures: string[] = [];
    for (const isolation of candidates(options.isolation, isRoot)) {
      const environment: GuestEnvironment = { ...shared, isolation };
      if (isolation === "process") {
        run.noteShared();
      }
      try {
        const probe = await launch(environment, { id: `probe-${isolation}`, template: "probe", egressLane: false });
        await probe.destroy();
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        failures.push(`${isolation}: ${reason}`);
        logger.debug({ isolation, err: error }, "isolation does not work here");
        continue;
      }
      const separateUsers = isolation !== "process" && ids !== undefined;
      const freezer: FreezerKind = groups?.layout ?? "signals";
      return {
        isolation,
        freezer,
        separateUsers,
        captures: kept,
        trees,
        start: (request) => {
          if (closed) {
            return Promise.reject(new DevNodeError("guest_start_failed", "the node is closing"));
          }
          return launch(environment, request);
        },
        close: async () => {
          await close();
          sockets.close();
        },
      };
    }
    throw new DevNodeError("no_isolation", `guests cannot be isolated here (${failures.join("; ")})`);
  } catch (error) {
    await close();
    throw error;
  }
}

/** Hands out id ranges, starting at a random one so that two runs rarely share any. */
function createIdRanges(): (() => IdRange | undefined) | undefined {
  const uids = readIdMap("/proc/self/uid_map");
  const gids = readIdMap("/proc/self/gid_map");
  let index = randomBytes(2).readUInt16BE();
  const next = (): IdRange | undefined => {
    index += 1;
    const users = idRangeFor(uids, index);
    const groups = idRangeFor(gids, index);
    // The same numbers serve users and groups; maps that differ are rare and the smaller one wins.
    return users === undefined || groups === undefined ? undefined : users.count <= groups.count ? users : groups;
  };
  return next() === undefined ? undefined : next;
}
