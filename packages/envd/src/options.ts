import type { PathMapping } from "./guest/paths.ts";
import type { MetricsSource } from "./metrics.ts";
import type { LoadPty } from "./process/pty-module.ts";
import type { LoadFfi } from "./system/libc.ts";

/** Where the daemon reports what an operator may want to see. Fields never hold tokens, contents or variables. */
export interface EnvdLogger {
  warn(fields: Readonly<Record<string, unknown>>, message: string): void;
  error(fields: Readonly<Record<string, unknown>>, message: string): void;
}

/** Options of `createEnvd`. */
export interface EnvdOptions {
  /** Value of `E2B_SANDBOX_ID` in every command. */
  readonly sandboxId: string;
  /** Value of `E2B_TEMPLATE_ID` in every command. */
  readonly templateId: string;
  /**
   * Version in the `X-Envd-Version` header.
   * @default "0.8.0"
   */
  readonly version?: string | undefined;
  /** Token that callers must present; absent leaves every route open until `/init` sets one. */
  readonly accessToken?: string | undefined;
  /**
   * User of calls that name none, until `/init` sets another.
   * @default "root"
   */
  readonly defaultUser?: string | undefined;
  /** Directory of calls with an empty path, until `/init` sets one. Absent means the user's home. */
  readonly defaultWorkdir?: string | undefined;
  /** Variables of every command; those of `/init` and of a request win over them, `E2B_SANDBOX…` do not change. */
  readonly environment?: Readonly<Record<string, string>> | undefined;
  /**
   * `PATH` of every command.
   * @default "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
   */
  readonly path?: string | undefined;
  /** @default "/etc/passwd" */
  readonly passwdFile?: string | undefined;
  /** @default "/etc/group" */
  readonly groupFile?: string | undefined;
  /**
   * Whether commands get the uid, gid and groups of their user. `auto` does so when the daemon is root and the id is
   * mapped in its user namespace; otherwise, and with `never`, commands keep the daemon's ids and only the names, homes
   * and variables differ.
   * @default "auto"
   */
  readonly switchUser?: "auto" | "never" | undefined;
  /**
   * Program that sets ids and supplementary groups before a command (util-linux). Without it a command of another user
   * gets uid and gid but no supplementary groups.
   * @default "/usr/bin/setpriv"
   */
  readonly setpriv?: string | undefined;
  /**
   * POSIX shell that starts every command.
   * @default "/bin/sh"
   */
  readonly shell?: string | undefined;
  /**
   * Guest paths that lie elsewhere in the file system the daemon sees. Only for guests without a private root; paths in
   * the text of commands are not translated.
   * @default []
   */
  readonly pathMappings?: readonly PathMapping[] | undefined;
  /**
   * Writable directory for short-lived names.
   * @default os.tmpdir()
   */
  readonly tempDir?: string | undefined;
  /**
   * Loads the terminal library on the first pty.
   * @default () => import("@lydell/node-pty")
   */
  readonly loadPty?: LoadPty | undefined;
  /**
   * Loads the library that calls the system's functions Node has none for: watching directories and file metadata. It is
   * loaded when a call first needs it; where that fails, watching is refused with the reason and metadata is left out.
   * @default () => import("koffi")
   */
  readonly loadFfi?: LoadFfi | undefined;
  /** Numbers of `GET /metrics`; by default those of the host that /proc shows. */
  readonly metrics?: MetricsSource | undefined;
  /**
   * Largest RPC message that is read, in bytes. Files have no limit.
   * @default 67_108_864
   */
  readonly maxMessageBytes?: number | undefined;
  /**
   * How long the end of a command can be fetched after it.
   * @default 30_000
   */
  readonly exitRetentionMs?: number | undefined;
  /**
   * Where the daemon keeps its boot document, in the file system it sees: written by `PUT /_sandbox/boot`, carried out by
   * `Envd.boot`. Only for guests that are copied without their memory; absent leaves the route out.
   */
  readonly bootFile?: string | undefined;
  /** Silent by default. */
  readonly logger?: EnvdLogger | undefined;
  /**
   * Milliseconds since 1970, for the limits of signed addresses, for metrics and for the times of log lines.
   * @default Date.now
   */
  readonly now?: (() => number) | undefined;
}
