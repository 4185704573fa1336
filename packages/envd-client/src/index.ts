/**
 * What the daemon inside a guest speaks: the schemas of its two Connect services, the call that prepares a fresh guest
 * ({@link initGuest}), those that read its log ({@link readGuestLogs}) and its documents ({@link readGuestJson}), those that run
 * commands and write files ({@link runGuestCommand}, {@link putGuestFile}, {@link putBootDocument}), and signed file
 * addresses.
 *
 * The services are for any Connect transport; the calls need none, since each runs over a single raw connection.
 */
export * from "../gen/filesystem_pb.js";
export * from "../gen/process_pb.js";
export { type BootDocument, GUEST_BOOT_PATH, MAX_BOOT_BYTES, putBootDocument } from "./boot-document.ts";
export { EnvdClientError, type EnvdClientErrorCode, type EnvdClientErrorDetails } from "./errors.ts";
export type { DialGuest } from "./guest-call.ts";
export { type GuestFile, putGuestFile } from "./guest-files.ts";
export { readGuestJson, type ReadGuestJsonOptions } from "./guest-json.ts";
export {
  GUEST_LOGS_PATH,
  GUEST_LOGS_TYPE,
  LOG_DIRECTIONS,
  LOG_LEVELS,
  type LogDirection,
  type LogEntry,
  type LogLevel,
  type LogQuery,
  MAX_LOG_LINES,
  readGuestLogs,
  type ReadGuestLogsOptions,
} from "./guest-logs.ts";
export { type InitAnswer, type InitBody, initGuest, type InitGuestOptions } from "./init-guest.ts";
export { type CommandEnd, type GuestCommand, runGuestCommand, type RunCommandOptions } from "./run-command.ts";
export type { SendOptions } from "./send-guest.ts";
export {
  type FileOperation,
  fileSignature,
  type FileSignatureInput,
  signFileUrl,
  type SignFileUrlInput,
} from "./sign-file-url.ts";
