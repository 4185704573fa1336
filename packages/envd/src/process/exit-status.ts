import { constants } from "node:os";

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ProcessEvent_EndEventSchema } from "@org/envd-client";

/** The end of a command as clients see it. */
export type ExitStatus = MessageInitShape<typeof ProcessEvent_EndEventSchema> & {
  readonly exitCode: number;
  readonly exited: boolean;
  readonly status: string;
};

/** Words for signals, as the shells and libraries of a Linux guest print them. */
const SIGNAL_TEXT: Readonly<Record<string, string>> = {
  SIGHUP: "hangup",
  SIGINT: "interrupt",
  SIGQUIT: "quit",
  SIGILL: "illegal instruction",
  SIGTRAP: "trace/breakpoint trap",
  SIGABRT: "aborted",
  SIGBUS: "bus error",
  SIGFPE: "floating point exception",
  SIGKILL: "killed",
  SIGUSR1: "user defined signal 1",
  SIGSEGV: "segmentation fault",
  SIGUSR2: "user defined signal 2",
  SIGPIPE: "broken pipe",
  SIGALRM: "alarm clock",
  SIGTERM: "terminated",
  SIGSTKFLT: "stack fault",
  SIGVTALRM: "virtual timer expired",
  SIGPROF: "profiling timer expired",
  SIGXCPU: "CPU time limit exceeded",
  SIGXFSZ: "file size limit exceeded",
  SIGIO: "I/O possible",
  SIGPWR: "power failure",
  SIGSYS: "bad system call",
};

/** The end of a command that returned this code. */
export function exitedWith(exitCode: number): ExitStatus {
  const status = `exit status ${exitCode}`;
  return exitCode === 0 ? { exitCode, exited: true, status } : { exitCode, exited: true, status, error: status };
}

/** The end of a command that a signal ended. Core dumps are not told apart: Node does not report them. */
export function killedBy(signal: string | number): ExitStatus {
  const name = typeof signal === "string" ? signal : nameOf(signal);
  const status = `signal: ${(name === undefined ? undefined : SIGNAL_TEXT[name]) ?? name ?? signal}`;
  return { exitCode: -1, exited: false, status, error: status };
}

function nameOf(signal: number): string | undefined {
  // Aliases such as SIGIOT come later in the table than the usual name.
  return Object.entries(constants.signals).find(([, number]) => number === signal)?.[0];
}
