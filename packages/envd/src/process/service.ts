import { create } from "@bufbuild/protobuf";
import { type ProcessConfig, type ProcessInput, Signal, StartRequestSchema } from "@org/envd-client";
import type { ConnectResponseSchema, Process, StartRequest, StartResponseSchema } from "@org/envd-client";

import { EnvdError } from "../errors.ts";
import type { Guest } from "../guest/guest.ts";
import type { GuestUser } from "../guest/users.ts";
import type { LogRing } from "../logs/log-ring.ts";
import type { Call, ServerStream, ServiceImpl } from "../rpc/call.ts";
import type { Child, ChildEvents } from "./child.ts";
import { dataNotice, endNotice, startNotice } from "./event-frames.ts";
import type { ExitStatus } from "./exit-status.ts";
import { createFanOut, type Subscription } from "./fan-out.ts";
import { type LaunchSettings, prepareLaunch } from "./launch.ts";
import { spawnPipeChild } from "./pipe-child.ts";
import type { PipePool } from "./pipe-pool.ts";
import { createProcessTable, type RunningProcess } from "./process-table.ts";
import { spawnPtyChild } from "./pty-child.ts";
import type { PtyModule } from "./pty-module.ts";

/** What the process service is made of. */
export interface ProcessServiceOptions {
  readonly guest: Guest;
  /** Takes the output of commands; terminals draw rather than log. */
  readonly logs: LogRing;
  readonly launch: LaunchSettings;
  readonly pipes: PipePool;
  readonly loadPty: () => Promise<PtyModule>;
  readonly exitRetentionMs: number;
}

/** A command that the daemon itself has started. */
export interface OwnCommand {
  /** Also when the signal stopped the wait: then `undefined`, and the command goes on. */
  ended(signal: AbortSignal): Promise<ExitStatus | undefined>;
  kill(): void;
}

/** The service and the end of all its commands. */
export interface ProcessService extends Disposable {
  readonly impl: ServiceImpl<typeof Process>;
  /** Starts a command that no client asked for. It is listed as all others. @throws EnvdError */
  start(config: ProcessConfig, user: GuestUser): Promise<OwnCommand>;
}

type EventStream = ServerStream<typeof StartResponseSchema> | ServerStream<typeof ConnectResponseSchema>;

const LONGEST_TIMEOUT_MS = 0x7fff_ffff;

export function createProcessService(options: ProcessServiceOptions): ProcessService {
  const { guest, logs } = options;
  const table = createProcessTable(options.exitRetentionMs);
  /** The last write of each process, so that writes do not overtake each other. */
  const lastWrites = new WeakMap<Child, Promise<void>>();

  async function launch(
    request: StartRequest,
    config: ProcessConfig,
    call: Call,
    ended?: (status: ExitStatus) => void,
  ): Promise<[RunningProcess, Subscription]> {
    const user = call.user();
    const ready = await prepareLaunch(guest, user, config, options.launch);
    const events: ChildEvents = { onOutput: () => undefined, onEnd: () => undefined };
    const pty = request.pty === undefined ? undefined : await options.loadPty();
    if (call.signal.aborted) throw abortError(call.signal);
    const child =
      pty === undefined
        ? await spawnPipeChild(ready, request.stdin ?? true, options.pipes, events)
        : spawnPtyChild(ready, user, request.pty?.size, pty, events);
    // No output can have come yet: streams are read from the next turn of the loop on.
    const output = createFanOut(child);
    const subscription = output.subscribe();
    const running: RunningProcess = { child, output, config, tag: request.tag };
    table.add(running);
    const timer =
      call.timeoutMs === undefined
        ? undefined
        : setTimeout(() => child.kill("SIGKILL"), Math.min(call.timeoutMs, LONGEST_TIMEOUT_MS)).unref();
    const log = { stdout: logs.open(child.pid, "stdout"), stderr: logs.open(child.pid, "stderr") };
    events.onOutput = (name, bytes) => {
      if (name !== "pty") log[name].write(bytes);
      output.publish(dataNotice(name, bytes));
    };
    events.onEnd = (status) => {
      clearTimeout(timer);
      log.stdout.end();
      log.stderr.end();
      table.end(running, status);
      output.publish(endNotice(status));
      ended?.(status);
    };
    return [running, subscription];
  }

  async function pump(pid: number, subscription: Subscription, stream: EventStream, call: Call): Promise<void> {
    await stream.sendFrame(startNotice(pid).frame(stream.codec));
    for (;;) {
      const notice = await subscription.next(call.signal);
      if (notice === undefined) return;
      await stream.sendFrame(notice.frame(stream.codec));
    }
  }

  async function write(child: Child, input: ProcessInput | undefined, signal: AbortSignal): Promise<void> {
    const kind = input?.input.case;
    if (input === undefined || kind === undefined) {
      throw new EnvdError("invalid_argument", "input must carry stdin or pty bytes");
    }
    if (kind === "pty" && child.kind !== "pty") throw new EnvdError("internal", "this process has no terminal");
    if (kind === "stdin" && child.kind === "pty") {
      throw new EnvdError("internal", "this process has a terminal: send pty input instead of stdin");
    }
    const data = input.input.value ?? new Uint8Array();
    const before = lastWrites.get(child);
    const written = (async () => {
      await before?.catch(() => undefined);
      // A caller that has left while others wrote does not write any more.
      if (!signal.aborted) await child.write(data);
    })();
    lastWrites.set(child, written);
    await written;
  }

  return {
    impl: {
      list: () => ({
        processes: Array.from(table.running(), ({ child, config, tag }) => ({
          config,
          pid: child.pid,
          ...(tag === undefined ? {} : { tag }),
        })),
      }),
      async start(request, call, stream) {
        if (request.process === undefined) throw new EnvdError("invalid_argument", "process is required");
        const [running, subscription] = await launch(request, request.process, call);
        using _ = subscription;
        await pump(running.child.pid, subscription, stream, call);
      },
      async connect({ process }, call, stream) {
        const ended = table.findEnded(process);
        if (ended !== undefined) {
          // It stays for others who ask how the command went: an answer may get lost on its way.
          for (const notice of [startNotice(ended.pid), ...ended.output.unheard(), ended.end]) {
            await stream.sendFrame(notice.frame(stream.codec));
          }
          return;
        }
        const { child, output } = table.find(process);
        using subscription = output.subscribe();
        await pump(child.pid, subscription, stream, call);
      },
      update({ process, pty }) {
        const { child } = table.find(process);
        if (child.kind !== "pty") throw new EnvdError("internal", "this process has no terminal");
        if (pty?.size !== undefined) child.resize(pty.size.cols, pty.size.rows);
        return {};
      },
      async sendInput({ process, input }, call) {
        await write(table.find(process).child, input, call.signal);
        return {};
      },
      async streamInput(requests, call) {
        let child: Child | undefined;
        for await (const { event } of requests) {
          if (event.case === "start") child = table.find(event.value.process).child;
          else if (event.case === "data") {
            if (child === undefined) throw new EnvdError("invalid_argument", "the first message must be start");
            await write(child, event.value.input, call.signal);
          }
        }
        return {};
      },
      sendSignal({ process, signal }) {
        const { child } = table.find(process);
        child.kill(signalName(signal));
        return {};
      },
      closeStdin({ process }) {
        table.find(process).child.closeInput();
        return {};
      },
    },
    async start(config, user) {
      const status = Promise.withResolvers<ExitStatus>();
      const call: Call = { user: () => user, signal: new AbortController().signal, timeoutMs: undefined };
      const request = create(StartRequestSchema, { process: config, stdin: false });
      const [{ child }, subscription] = await launch(request, config, call, status.resolve);
      // Nobody reads it, and a reader that does not read would hold the command up.
      subscription[Symbol.dispose]();
      return {
        ended: (signal) => Promise.race([status.promise, whenAborted(signal)]),
        kill: () => child.destroy(),
      };
    },
    [Symbol.dispose]() {
      for (const { child } of table.running()) child.destroy();
      table[Symbol.dispose]();
    },
  };
}

/** The call's own end, which is its time, or else its client's. */
function abortError({ reason }: AbortSignal): EnvdError {
  if (reason instanceof EnvdError) return reason;
  return new EnvdError("canceled", "the client left before the command was started");
}

function whenAborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener("abort", () => resolve(undefined), { once: true });
  });
}

function signalName(signal: Signal): "SIGKILL" | "SIGTERM" {
  switch (signal) {
    case Signal.SIGKILL:
      return "SIGKILL";
    case Signal.SIGTERM:
      return "SIGTERM";
    case Signal.UNSPECIFIED:
    default:
      throw new EnvdError(
        "unimplemented",
        `signal ${Signal[signal] ?? signal} is not supported; use SIGKILL or SIGTERM`,
      );
  }
}
