import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { DevNodeError } from "../errors.ts";
import { ENVD_PORT, HTTP_DOOR, SOCKS_DOOR, STATUS_FD, type GuestConfig } from "../guest/guest-config.ts";
import { AGENT_ENTRY, type AgentFiles } from "./agent-files.ts";
import type { GroupMaker, GuestGroup } from "./cgroup-group.ts";
import type { Capture } from "./capture-store.ts";
import { openEgressGate, type EgressGate, type EgressPolicy } from "./egress-gate.ts";
import { INSTANCE_DOCUMENT, putInstanceDocument } from "./guest-document.ts";
import { superviseChild, type GuestProcess } from "./guest-process.ts";
import { GUEST_PATH, type HostView, type ReadOnlyBind } from "./guest-tree.ts";
import type { IdRange } from "./id-range.ts";
import { proveCommands } from "./guest-proof.ts";
import { planLaunch, TOOL_PATHS, type Isolation } from "./launch.ts";
import type { MountEntry } from "./mount-table.ts";
import { createHandedListener, dialRelay } from "./relay-socket.ts";
import { residentBytes } from "./proc.ts";
import { removeTree } from "./remove-tree.ts";
import type { RunFolder } from "./run-folder.ts";
import { createSignalFreezer } from "./signal-freeze.ts";
import type { SocketFolder } from "./socket-folder.ts";
import type { Trees } from "./trees.ts";

/** One running guest. Used once: releasing a sandbox destroys it. */
export interface Guest {
  readonly id: string;
  /** Host id of the outermost process. */
  readonly pid: number;
  /** Resolves, with a reason for people, when the guest has ended in whatever way. */
  readonly ended: Promise<string>;
  /**
   * A connection to a port of the guest's loopback, once its service accepted.
   *
   * @throws DevNodeError `guest_unreachable`
   */
  connect(port: number, options?: { readonly signal?: AbortSignal | undefined }): Promise<Socket>;
  /** Stops every process; resolves when all have stopped. After a rejection some may have. */
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  /** Resident memory of everything in the guest, in bytes; `undefined` where the system does not tell. */
  memory(): number | undefined;
  /** Ids that the guest's files belong to on the host. */
  readonly owners: IdRange | undefined;
  /** Copies the guest's files as they are; freeze it before. Rejects with the signal's reason on abort. */
  copyFiles(to: string, options: { readonly signal: AbortSignal }): Promise<void>;
  /** Puts a document where the guest's processes read it; `false` when the guest made that impossible. */
  putDocument(content: Uint8Array): Promise<boolean>;
  /** Opens or shuts the way out. Without an egress lane there is none to open. */
  setEgress(open: boolean): void;
  /** Kills everything and resolves when it is dead; the files are removed behind it. */
  destroy(): Promise<void>;
  /** Resolves when the files are gone too. */
  removed(): Promise<void>;
}

/** What all guests of a node share. */
export interface GuestEnvironment {
  readonly run: RunFolder;
  readonly sockets: SocketFolder;
  readonly isolation: Isolation;
  readonly agent: AgentFiles;
  readonly view: HostView;
  readonly mounts: readonly MountEntry[];
  readonly groups?: GroupMaker | undefined;
  readonly trees: Trees;
  readonly egress: EgressPolicy;
  /** Descriptors of the host that a guest must not get. */
  readonly inherited: readonly number[];
  /** The id range of the next guest, or none. */
  nextRange(): IdRange | undefined;
}

/** What is known of a guest when it starts. */
export interface GuestRequest {
  readonly id: string;
  readonly template: string;
  readonly egressLane: boolean;
  /** Files to start with, laid over what every guest has. */
  readonly base?: string | undefined;
  /** Files to start with, and no others. */
  readonly capture?: Capture | undefined;
  /** Ends the start while files are copied. */
  readonly signal?: AbortSignal | undefined;
}

const NODE_FLAGS = ["--disable-warning=ExperimentalWarning"];
/** What is said about one guest is not true of another. */
const NOT_COPIED: ReadonlySet<string> = new Set([`${INSTANCE_DOCUMENT.folder}/${INSTANCE_DOCUMENT.name}`]);
const HOST_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin";

function guestVariables(egressLane: boolean): Record<string, string> {
  const variables: Record<string, string> = { LANG: "C.UTF-8", SHELL: "/bin/bash" };
  if (egressLane) {
    const http = `http://127.0.0.1:${HTTP_DOOR}`;
    const socks = `socks5h://127.0.0.1:${SOCKS_DOOR}`;
    for (const [name, value] of [
      ["http_proxy", http],
      ["https_proxy", http],
      ["all_proxy", socks],
      ["no_proxy", "localhost,127.0.0.1,::1"],
    ] as const) {
      variables[name] = value;
      variables[name.toUpperCase()] = value;
    }
  }
  return variables;
}

/**
 * Starts a guest and resolves when its daemon answers.
 *
 * @throws DevNodeError `guest_start_failed`; nothing of the guest remains then
 */
export async function startGuest(environment: GuestEnvironment, request: GuestRequest): Promise<Guest> {
  const { run, isolation } = environment;
  const isolated = isolation !== "process";
  const folder = run.guest(request.id);
  const tree = join(folder, "tree");
  const cleanups: (() => unknown)[] = [];
  try {
    await mkdir(tree, { recursive: true, mode: 0o700 });
    const range = isolated ? environment.nextRange() : undefined;
    const gate =
      request.egressLane && isolated
        ? await openEgressGate(join(environment.sockets.short, `${request.id}.e`), environment.egress)
        : undefined;
    if (gate !== undefined) {
      cleanups.push(() => gate.close());
    }
    const binds: ReadOnlyBind[] = isolated
      ? [
          { from: environment.agent.node, to: TOOL_PATHS.node, directory: false },
          { from: environment.agent.folder, to: TOOL_PATHS.agent, directory: true },
        ]
      : [];
    if (gate !== undefined) {
      binds.push({ from: join(environment.sockets.path, `${request.id}.e`), to: TOOL_PATHS.egress, directory: false });
    }
    const view = isolated ? environment.view : { binds: [], links: [] };
    if (request.capture === undefined) {
      await environment.trees.make({ tree, view, options: { range, base: request.base, extraBinds: binds } });
    } else {
      const { tree: from, owners } = request.capture;
      await environment.trees.copy(
        { from, to: tree, owners: range === undefined ? undefined : { from: owners, to: range } },
        { signal: request.signal },
      );
      await environment.trees.complete({ tree, view, options: { range, extraBinds: binds } });
    }
    const group = environment.groups?.create(request.id);
    if (group !== undefined) {
      cleanups.push(() => group.remove());
    }
    const config: GuestConfig = {
      sandboxId: request.id,
      templateId: request.template,
      envdPort: isolated ? ENVD_PORT : 0,
      path: isolated ? GUEST_PATH : HOST_PATH,
      environment: guestVariables(gate !== undefined),
      relay: isolated,
      ...(gate === undefined ? {} : { egressSocket: TOOL_PATHS.egress }),
      ...(isolated ? {} : { root: tree }),
    };
    const [node, agent] = isolated
      ? [TOOL_PATHS.node, `${TOOL_PATHS.agent}/${AGENT_ENTRY}`]
      : [environment.agent.node, join(environment.agent.folder, AGENT_ENTRY)];
    const launch = planLaunch({
      isolation,
      tree,
      view,
      binds,
      mounts: environment.mounts,
      range,
      group: group?.path,
      agent: [node, ...NODE_FLAGS, agent, JSON.stringify(config)],
    });
    const relayPath = join(environment.sockets.short, `${request.id}.r`);
    cleanups.push(() => rm(relayPath, { force: true }));
    const listener = isolated ? await createHandedListener(relayPath) : undefined;
    const nothing = openSync("/dev/null", "r+");
    let child: ChildProcess;
    try {
      const stdio: ("pipe" | "ignore" | number)[] = ["pipe", "ignore", "pipe", listener?.fd ?? "ignore", "pipe"];
      for (const fd of environment.inherited) {
        while (stdio.length <= fd) {
          stdio.push("ignore");
        }
        if (fd > STATUS_FD) {
          stdio[fd] = nothing;
        }
      }
      child = spawn(launch.command, launch.args, {
        stdio,
        // A session of its own: a key press in the host's terminal stops the host, and the host stops the guests.
        detached: true,
        cwd: "/",
        env: { PATH: HOST_PATH, HOME: isolated ? "/root" : join(tree, "home/user"), LANG: "C.UTF-8" },
      });
    } finally {
      closeSync(nothing);
      listener?.release();
    }
    const processes = superviseChild(child, run, request.id, group, isolation);
    cleanups.push(() => processes.kill());
    const port = await processes.ready(launch.needsIdMap ? range : undefined);
    const guest = createGuest({ environment, request, folder, tree, range, processes, group, gate, relayPath, port });
    await proveCommands((guestPort) => guest.connect(guestPort));
    return guest;
  } catch (cause) {
    for (const cleanup of cleanups.toReversed()) {
      try {
        await cleanup();
      } catch {
        // The run's keeper removes what is left.
      }
    }
    await removeTree(folder);
    if (cause instanceof DevNodeError) {
      throw cause;
    }
    throw new DevNodeError("guest_start_failed", `guest did not start: ${(cause as Error).message}`, { cause });
  }
}

interface GuestParts {
  readonly environment: GuestEnvironment;
  readonly request: GuestRequest;
  readonly folder: string;
  readonly tree: string;
  readonly range: IdRange | undefined;
  readonly processes: GuestProcess;
  readonly group: GuestGroup | undefined;
  readonly gate: EgressGate | undefined;
  readonly relayPath: string;
  readonly port: number;
}

function createGuest(parts: GuestParts): Guest {
  const { processes, group, gate, tree, range } = parts;
  const freezer = group ?? createSignalFreezer(() => processes.members());
  const shared = parts.environment.isolation === "process";
  let destroying: Promise<void> | undefined;
  let removing: Promise<void> = Promise.resolve();
  const destroy = async (): Promise<void> => {
    gate?.close();
    await processes.kill();
    removing = (async () => {
      await group?.remove().catch(() => undefined);
      await rm(parts.relayPath, { force: true });
      await rm(join(parts.environment.sockets.path, `${parts.request.id}.e`), { force: true });
      await removeTree(parts.folder);
    })();
    removing.catch(() => undefined);
  };
  return {
    id: parts.request.id,
    pid: processes.pid,
    ended: processes.ended,
    connect: (port, { signal } = {}) => {
      if (!shared) {
        return dialRelay(parts.relayPath, port, signal);
      }
      return dialHost(port === ENVD_PORT ? parts.port : port, signal);
    },
    freeze: () => freezer.freeze(),
    thaw: () => freezer.thaw(),
    memory: () => (process.platform === "linux" ? residentBytes(processes.members()) : undefined),
    owners: range,
    copyFiles: (to, { signal }) =>
      parts.environment.trees.copy(
        { from: tree, to, owners: process.getuid?.() === 0 ? "same" : undefined, without: NOT_COPIED },
        { signal },
      ),
    putDocument: (content) => putInstanceDocument(tree, content, range?.base),
    setEgress: (open) => gate?.allow(open),
    destroy: () => (destroying ??= destroy()),
    removed: async () => {
      await destroying;
      await removing;
    },
  };
}

/** Ports of a guest without isolation are ports of the host. */
function dialHost(port: number, signal: AbortSignal | undefined): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port, allowHalfOpen: true, noDelay: true, ...(signal && { signal }) });
    socket.once("connect", () => {
      socket.off("error", onError);
      socket.on("error", () => socket.destroy());
      resolve(socket);
    });
    const onError = (cause: Error): void => {
      socket.destroy();
      reject(new DevNodeError("guest_unreachable", "guest port unreachable", { cause }));
    };
    socket.once("error", onError);
  });
}
