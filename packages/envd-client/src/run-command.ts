import { type IncomingMessage, request } from "node:http";
import type { Duplex } from "node:stream";
import { create, fromJsonString, toJsonString } from "@bufbuild/protobuf";

import {
  type ProcessEvent,
  type ProcessEvent_EndEvent,
  StartRequestSchema,
  StartResponseSchema,
} from "../gen/process_pb.js";
import { connectFrame, readConnectFrames } from "./connect-frames.ts";
import { EnvdClientError } from "./errors.ts";
import { callGuest, type DialGuest } from "./guest-call.ts";
import { guestMessageIn, shortAnswer } from "./guest-words.ts";

/** A command as the daemon starts it. */
export interface GuestCommand {
  readonly cmd: string;
  readonly args?: readonly string[] | undefined;
  /** Absent means the daemon's default user. */
  readonly user?: string | undefined;
  /** Absent means the daemon's default directory. */
  readonly cwd?: string | undefined;
  /** Laid over the daemon's default variables. Values are secrets. */
  readonly envs?: Readonly<Record<string, string>> | undefined;
}

/** How a command ended. */
export interface CommandEnd {
  /** -1 when a signal ended it. */
  readonly exitCode: number;
  /** The daemon's words, such as `exit status 1` or `signal: killed`. */
  readonly status: string;
}

/** Options of {@link runGuestCommand}. */
export interface RunCommandOptions {
  /** What `/init` gave the daemon; absent for a daemon without a token. A secret. */
  readonly accessToken?: string | undefined;
  /** Called once the command runs, before any output. */
  readonly onStart?: ((pid: number) => void) | undefined;
  /** Bytes as they come: characters and lines may be cut anywhere. */
  readonly onOutput?: ((stream: "stdout" | "stderr", bytes: Uint8Array) => void) | undefined;
  /** Ends the call and its connection, not the command. */
  readonly signal?: AbortSignal | undefined;
  /**
   * How long the daemon may be silent. It is asked for a sign of life three times as often, so that a long and quiet
   * command is not taken for a lost guest.
   * @default 60000
   */
  readonly idleTimeoutMs?: number | undefined;
}

const PATH = "/process.Process/Start";
const MAX_HEADER_BYTES = 16 * 1024;
const MAX_STATUS_CHARS = 100;
/** The longest that timers can wait: the call itself is not bounded. */
const LONGEST_MS = 0x7fff_ffff;

/**
 * Runs a command to its end over one connection, which is closed afterwards. There is no input. The command outlives the
 * call when that fails or is aborted.
 *
 * @throws EnvdClientError; `refused` with the daemon's words when the command cannot be started, `timeout` when the
 *   daemon was silent for too long
 */
export async function runGuestCommand(
  dial: DialGuest,
  command: GuestCommand,
  options: RunCommandOptions = {},
): Promise<CommandEnd> {
  const { signal, idleTimeoutMs = 60_000 } = options;
  return callGuest(dial, PATH, { signal, timeoutMs: LONGEST_MS }, async (connection) => {
    const silence = Promise.withResolvers<never>();
    silence.promise.catch(() => undefined);
    const timer = setTimeout(() => {
      silence.reject(new EnvdClientError("timeout", `guest was silent for ${idleTimeoutMs} ms`));
    }, idleTimeoutMs);
    try {
      const exchange = converse(connection, command, options, () => timer.refresh());
      exchange.catch(() => undefined);
      return await Promise.race([exchange, silence.promise]);
    } finally {
      clearTimeout(timer);
    }
  });
}

async function converse(
  connection: Duplex,
  command: GuestCommand,
  options: RunCommandOptions,
  alive: () => void,
): Promise<CommandEnd> {
  const answer = await ask(connection, command, options);
  alive();
  if (answer.statusCode !== 200 || answer.headers["content-type"] !== "application/connect+json") {
    throw refusal(await shortAnswer(answer), answer.statusCode);
  }
  let end: ProcessEvent_EndEvent | undefined;
  for await (const { last, payload } of readConnectFrames(answer as AsyncIterable<Buffer>, PATH)) {
    alive();
    const text = payload.toString("utf8");
    if (last) {
      if (end === undefined) throw refusal(text, undefined);
      break;
    }
    const event = eventOf(text);
    if (event?.case === "start") options.onStart?.(event.value.pid);
    else if (event?.case === "end") end = event.value;
    else if (event?.case === "data") {
      const { output } = event.value;
      if (output.case === "stdout" || output.case === "stderr") options.onOutput?.(output.case, output.value);
    }
  }
  if (end === undefined) throw new EnvdClientError("malformed", "guest did not tell how the command ended");
  return { exitCode: end.exited ? end.exitCode : -1, status: end.status.slice(0, MAX_STATUS_CHARS) };
}

function ask(
  connection: Duplex,
  { cmd, args = [], user, cwd, envs = {} }: GuestCommand,
  { accessToken, idleTimeoutMs = 60_000 }: RunCommandOptions,
): Promise<IncomingMessage> {
  const process = { cmd, args: [...args], envs: { ...envs }, ...(cwd === undefined ? {} : { cwd }) };
  const message = create(StartRequestSchema, { process, stdin: false });
  const payload = connectFrame(Buffer.from(toJsonString(StartRequestSchema, message)));
  const headers = {
    "content-type": "application/connect+json",
    "content-length": payload.length,
    "connect-protocol-version": "1",
    "keepalive-ping-interval": String(Math.max(1, Math.floor(idleTimeoutMs / 3000))),
    connection: "close",
    ...(user === undefined ? {} : { authorization: `Basic ${Buffer.from(`${user}:`).toString("base64")}` }),
    ...(accessToken === undefined ? {} : { "x-access-token": accessToken }),
  };
  return new Promise((resolve, reject) => {
    const call = request({
      method: "POST",
      path: PATH,
      host: "localhost",
      headers,
      maxHeaderSize: MAX_HEADER_BYTES,
      createConnection: () => connection,
    });
    call.on("error", reject);
    call.on("upgrade", () => reject(new EnvdClientError("malformed", `guest switched protocols on ${PATH}`)));
    call.on("response", resolve);
    call.end(payload);
  });
}

function eventOf(text: string): ProcessEvent["event"] | undefined {
  try {
    return fromJsonString(StartResponseSchema, text, { ignoreUnknownFields: true }).event?.event;
  } catch (error) {
    throw new EnvdClientError("malformed", `guest sent a message that is none of ${PATH}`, { cause: error });
  }
}

/** What the daemon says when it does not start a command, as an answer of its own or as the end of the stream. */
function refusal(text: string, status: number | undefined): EnvdClientError {
  return new EnvdClientError("refused", "guest did not start the command", {
    status,
    guestMessage: guestMessageIn(text),
  });
}
