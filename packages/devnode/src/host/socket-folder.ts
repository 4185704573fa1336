import { closeSync, mkdirSync, openSync } from "node:fs";
import { join } from "node:path";
import { DevNodeError } from "../errors.ts";
import { MAX_SOCKET_PATH } from "./relay-socket.ts";

/** A private folder of unix sockets, whose paths the system limits to about a hundred bytes. */
export interface SocketFolder {
  readonly path: string;
  /** Another, short name of the folder, to listen and connect with. */
  readonly short: string;
  close(): void;
}

/** Longest file name in the folder: a sandbox id, a suffix and the mark of a draft. */
const LONGEST_NAME = 26;

/** Makes the folder. @throws DevNodeError `state_folder` when its path is too long and has no short name here */
export function createSocketFolder(path: string): SocketFolder {
  mkdirSync(path, { mode: 0o700 });
  if (Buffer.byteLength(join(path, "x".repeat(LONGEST_NAME))) <= MAX_SOCKET_PATH) {
    return { path, short: path, close: () => undefined };
  }
  if (process.platform !== "linux") {
    throw new DevNodeError("state_folder", `the state folder's path is too long for sockets: ${path}`);
  }
  const descriptor = openSync(path, "r");
  return { path, short: `/proc/self/fd/${descriptor}`, close: () => closeSync(descriptor) };
}
