import { EnvdError } from "../errors.ts";

/** The streams of a terminal as the library holds them. */
export interface PtySocket {
  on(event: "data", listener: (bytes: Buffer) => void): unknown;
  on(event: "error", listener: (error: Error) => void): unknown;
  write(data: Uint8Array, done: (error?: Error | null) => void): boolean;
  pause(): unknown;
  resume(): unknown;
  destroy(): unknown;
}

/** A spawned terminal: the parts of `@lydell/node-pty` that the daemon uses. */
export interface PtyTerminal {
  readonly pid: number;
  /** Path of the terminal device. */
  readonly ptsName?: string | undefined;
  /** Carries raw bytes and tells when input was taken, which the library's own `write` does not. */
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
