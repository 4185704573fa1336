import type { IncomingHttpHeaders } from "node:http";

import type { DescMessage, DescService, MessageInitShape, MessageShape } from "@bufbuild/protobuf";

import type { GuestUser } from "../guest/users.ts";
import type { CodecName } from "./codec.ts";

/** What a method knows about its call. */
export interface Call {
  /**
   * The user the call names, else the default one.
   *
   * @throws EnvdError `unauthenticated` when there is none
   */
  user(): GuestUser;
  /** Aborts when the client is gone or its time is over. */
  readonly signal: AbortSignal;
  /** Time the client allows for the call. */
  readonly timeoutMs: number | undefined;
  /** What goes with the messages; absent for a call that came by no request of its own. */
  readonly metadata?: CallMetadata;
}

/** Metadata of a call. */
export interface CallMetadata {
  /** Headers of the request, names in lower case. */
  readonly headers: IncomingHttpHeaders;
  /** Names and values sent before the first message; of a server stream those that are there when the method first waits. */
  readonly replyHeaders: [string, string][];
  /** Names and values sent behind the last message, or with an error. */
  readonly replyTrailers: [string, string][];
}

/** The answering side of a server stream. */
export interface ServerStream<O extends DescMessage> {
  readonly codec: CodecName;
  /** Writes a message; resolves when the client can take the next one, or is gone. */
  send(message: MessageInitShape<O>): Promise<void>;
  /** Like `send` for a message that is encoded already, envelope included. */
  sendFrame(frame: Buffer): Promise<void> | undefined;
}

/** Implementation of one method, by its kind. */
export type MethodImpl<M> = M extends {
  readonly methodKind: infer K;
  readonly input: infer I extends DescMessage;
  readonly output: infer O extends DescMessage;
}
  ? K extends "unary"
    ? (request: MessageShape<I>, call: Call) => Promise<MessageInitShape<O>> | MessageInitShape<O>
    : K extends "server_streaming"
      ? (request: MessageShape<I>, call: Call, stream: ServerStream<O>) => Promise<void>
      : K extends "client_streaming"
        ? (requests: AsyncIterable<MessageShape<I>>, call: Call) => Promise<MessageInitShape<O>>
        : never
  : never;

/** Implementation of all methods of a service. */
export type ServiceImpl<S extends DescService> = { readonly [K in keyof S["method"]]: MethodImpl<S["method"][K]> };
