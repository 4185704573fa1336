import { EnvdError } from "../errors.ts";

/** The reading side of a terminal as the library holds it. */
export interface PtySocket {
  readonly destroyed: boolean;
  on(event: "data", listener: (bytes: Buffer) => void): unknown;
  on(event: "error", listener: (error: Error) => void): unknown;
  pause(): unknown;
  resume(): unknown;
  destroy(): unknown;
}

/** A spawned terminal: the parts of `@lydell/node-pty` that the daemon uses. */
export interface PtyTerminal {
  readonly pid: number;
  /** Path of the terminal device. */
  readonly ptsName?: string | undefined;
  /** The daemon's end of the terminal; open as long as the socket is not destroyed. */
  readonly fd: number;
  /** Carries raw bytes and the state of {@link fd}. */
  readonly _socket: PtySocket;
  onExit(listener: (exit: { exitCode: number; signal?: number | undefined }) => void): unknown;
  resize(cols: number, rows: number): void;
}

/** The module that makes terminals. */
export interface PtyModule {
  spawn(
    file: string,
    args: string[],
    options: {
      cols: number;
      rows: number;
      cwd: string;
      env: Record<string, string>;
      encoding: null;
      uid?: number;
      gid?: number;
    },
  ): unknown;
}

/** Loads a {@link PtyModule}, possibly wrapped in a `default` export. */
export type LoadPty = () => Promise<PtyModule | { readonly default: PtyModule }>;

/** Loads the module on first use and keeps it. */
export function createPtyLoader(load: LoadPty): () => Promise<PtyModule> {
  let loaded: Promise<PtyModule> | undefined;
  return async () => {
    loaded ??= load().then((module) => ("spawn" in module ? module : module.default));
    try {
      return await loaded;
    } catch (error) {
      loaded = undefined;
      throw new EnvdError("unimplemented", "terminals are not available: @lydell/node-pty cannot be loaded", {
        cause: error,
      });
    }
  };
}
