import type { IncomingMessage, ServerResponse } from "node:http";

import type {
  DescMessage,
  DescMethod,
  DescService,
  MessageInitShape,
  MessageShape,
  Registry,
} from "@bufbuild/protobuf";

import { asEnvdError, EnvdError } from "../errors.ts";
import type { GuestUser } from "../guest/users.ts";
import type { Exchange } from "../http/reply.ts";
import { sendJson, sendProblem } from "../http/reply.ts";
import type { EnvdLogger } from "../options.ts";
import type { Call, CallMetadata, ServerStream, ServiceImpl } from "./call.ts";
import { contentTypeOf, decodeMessage, encodeMessage, parseContentType, type WireFormat } from "./codec.ts";
import { encodeEndOfStream, encodeEnvelope, errorJson, readEnvelopes } from "./envelope.ts";
import { createResponseStream } from "./response-stream.ts";
import { parseKeepaliveMs, parseTimeoutMs } from "./timeout.ts";

/** Finds the user of a call; throws `unauthenticated`. */
export type UserOf = (req: IncomingMessage) => GuestUser;

/** Serves Connect calls over HTTP/1.1, JSON and binary. */
export interface Dispatcher {
  /** Makes the methods of a service known. `keepalive` is what its streams send when they are silent. */
  add<S extends DescService>(service: S, impl: ServiceImpl<S>, keepalive: unknown): void;
  has(path: string): boolean;
  /** Serves one call. `refused` is an error of an earlier layer that the caller shall see in the call's own form. */
  serve(exchange: Exchange, refused: EnvdError | undefined): Promise<void>;
}

type UnaryImpl = (request: unknown, call: Call) => unknown;
type ServerStreamImpl = (request: unknown, call: Call, stream: ServerStream<DescMessage>) => Promise<void>;
type ClientStreamImpl = (requests: AsyncIterable<unknown>, call: Call) => Promise<unknown>;

interface Method {
  readonly desc: DescMethod;
  readonly impl: UnaryImpl & ServerStreamImpl & ClientStreamImpl;
  readonly keepalive: unknown;
}

export function createDispatcher(options: {
  readonly userOf: UserOf;
  readonly maxMessageBytes: number;
  readonly logger: EnvdLogger;
  /** Types that may be inside `Any` values. @default none */
  readonly registry?: Registry;
}): Dispatcher {
  const { registry } = options;
  const methods = new Map<string, Method>();

  function callOf(
    req: IncomingMessage,
    timeoutMs: number | undefined,
    signal: AbortSignal,
    metadata: CallMetadata,
  ): Call {
    return { user: () => options.userOf(req), signal, timeoutMs, metadata };
  }

  async function answerUnary(
    method: Method,
    format: WireFormat,
    { req, res }: Exchange,
    metadata: CallMetadata,
  ): Promise<void> {
    const { input, output } = method.desc;
    using limits = limitsOf(req, res);
    const request = decodeMessage(input, format.codec, await readBody(req, options.maxMessageBytes), registry);
    const call = callOf(req, limits.timeoutMs, limits.signal, metadata);
    const reply = (await Promise.race([method.impl(request, call), limits.over])) as MessageInitShape<DescMessage>;
    const payload = encodeMessage(output, format.codec, reply, registry);
    sendMetadata(res, metadata, true);
    res.writeHead(200, { "content-type": contentTypeOf(format), "content-length": payload.length });
    res.end(payload);
  }

  async function answerStream(
    method: Method,
    format: WireFormat,
    { req, res }: Exchange,
    metadata: CallMetadata,
  ): Promise<void> {
    const { input, output, methodKind } = method.desc;
    using limits = limitsOf(req, res);
    const call = callOf(req, limits.timeoutMs, limits.signal, metadata);
    const requests = decodeAll(input, format, readEnvelopes(bodyOf(req), options.maxMessageBytes), registry);
    if (methodKind === "client_streaming") {
      const reply = (await Promise.race([method.impl(requests, call), limits.over])) as MessageInitShape<DescMessage>;
      openStream(res, format, metadata);
      res.write(encodeEnvelope(encodeMessage(output, format.codec, reply, registry)));
      return;
    }
    const request = await onlyMessage(requests);
    const open = (): void => openStream(res, format, metadata);
    using stream = createResponseStream(res, {
      schema: output,
      codec: format.codec,
      registry,
      signal: limits.signal,
      keepaliveMs: parseKeepaliveMs(firstOf(req.headers["keepalive-ping-interval"])),
      keepalive: method.keepalive as MessageInitShape<DescMessage> | undefined,
      open,
    });
    // The method sets its headers before it first waits.
    const running = method.impl(request, call, stream);
    open();
    await running;
    // The method ends quietly when its signal fires; a limit is the client's to know.
    if (limits.signal.reason instanceof EnvdError) throw limits.signal.reason;
  }

  return {
    add(service, impl, keepalive) {
      for (const desc of service.methods) {
        const found = impl[desc.localName as keyof typeof impl];
        methods.set(`/${service.typeName}/${desc.name}`, { desc, impl: found as unknown as Method["impl"], keepalive });
      }
    },
    has: (path) => methods.has(path),
    async serve(exchange, refused) {
      const { req, res, path } = exchange;
      const method = methods.get(path);
      if (method === undefined) return sendProblem(res, 404, `no such method: ${path}`);
      if (exchange.method !== "POST") {
        return sendProblem(res, 405, `${exchange.method} is not allowed on ${path}`, { allow: "POST" });
      }
      const format = parseContentType(req.headers["content-type"]);
      if (format === undefined || format.enveloped !== (method.desc.methodKind !== "unary")) {
        return refuseContentType(res, method.desc);
      }
      const metadata: CallMetadata = { headers: req.headers, replyHeaders: [], replyTrailers: [] };
      try {
        if (refused !== undefined) throw refused;
        const encoding = req.headers[format.enveloped ? "connect-content-encoding" : "content-encoding"];
        if (encoding !== undefined && encoding !== "identity") {
          throw new EnvdError("unimplemented", `compression '${firstOf(encoding)}' is not supported; send identity`);
        }
        await (format.enveloped ? answerStream : answerUnary)(method, format, exchange, metadata);
        if (format.enveloped && !res.destroyed) res.end(encodeEndOfStream(undefined, metadata.replyTrailers));
      } catch (error) {
        if (res.destroyed || req.errored !== null) return undefined;
        const known = asEnvdError(error, `${method.desc.name} failed`);
        if (!(error instanceof EnvdError)) options.logger.error({ method: path, error }, "method failed");
        if (format.enveloped) {
          openStream(res, format, metadata);
          res.end(encodeEndOfStream(known, metadata.replyTrailers));
        } else {
          sendMetadata(res, metadata, true);
          sendJson(res, known.status, errorJson(known));
        }
      } finally {
        // What an early answer left of the body would stand before the next request of the connection, for ever.
        if (!req.complete && !req.destroyed) req.resume();
      }
      return undefined;
    },
  };
}

/**
 * Sends the head of a stream, once. Clients and proxies wait for it, so it goes out before the first message exists; but
 * not before the request was read: a client that sees an answer while it still sends gives its request up.
 */
function openStream(res: ServerResponse, format: WireFormat, metadata: CallMetadata): void {
  if (res.headersSent) return;
  sendMetadata(res, metadata, false);
  res.writeHead(200, {
    "content-type": contentTypeOf(format),
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
  });
  res.flushHeaders();
}

/** Where no end frame can carry them, trailers are headers with a prefix. */
function sendMetadata(res: ServerResponse, { replyHeaders, replyTrailers }: CallMetadata, trailers: boolean): void {
  for (const [name, value] of replyHeaders) res.appendHeader(name, value);
  if (trailers) for (const [name, value] of replyTrailers) res.appendHeader(`trailer-${name}`, value);
}

function refuseContentType(res: ServerResponse, { methodKind }: DescMethod): void {
  const kind = methodKind === "unary" ? "" : "connect+";
  const accepted = `application/${kind}json, application/${kind}proto`;
  sendProblem(res, 415, `unsupported content type; this method takes ${accepted}`, { "accept-post": accepted });
}

interface Limits extends Disposable {
  readonly signal: AbortSignal;
  readonly timeoutMs: number | undefined;
  /** Rejects when the time of the call is over. */
  readonly over: Promise<never>;
}

/** The bounds of a call: its client's presence and its client's time. */
function limitsOf(req: IncomingMessage, res: ServerResponse): Limits {
  const timeoutMs = parseTimeoutMs(firstOf(req.headers["connect-timeout-ms"]));
  const controller = new AbortController();
  const over = Promise.withResolvers<never>();
  over.promise.catch(() => undefined);
  const onClose = (): void => controller.abort();
  res.on("close", onClose);
  const timer =
    timeoutMs === undefined
      ? undefined
      : setLongTimeout(() => {
          const error = new EnvdError("deadline_exceeded", `the call took longer than its limit of ${timeoutMs} ms`);
          over.reject(error);
          controller.abort(error);
        }, timeoutMs);
  return {
    signal: controller.signal,
    timeoutMs,
    over: over.promise,
    [Symbol.dispose]() {
      clearTimeout(timer);
      res.off("close", onClose);
    },
  };
}

const LONGEST_TIMEOUT_MS = 0x7fff_ffff;

/** A timer that a delay beyond Node's limit does not turn into none at all: 24 days stand for more. */
function setLongTimeout(run: () => void, delayMs: number): NodeJS.Timeout {
  return setTimeout(run, Math.min(delayMs, LONGEST_TIMEOUT_MS));
}

/** The body; leaving it early does not cut the connection, which must still carry the answer. */
function bodyOf(req: IncomingMessage): AsyncIterable<Buffer> {
  return req.iterator({ destroyOnReturn: false });
}

async function readBody(req: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of bodyOf(req)) {
    length += chunk.length;
    if (length > maxBytes) throw new EnvdError("resource_exhausted", `request is over the limit of ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
}

async function* decodeAll<D extends DescMessage>(
  schema: D,
  format: WireFormat,
  payloads: AsyncIterable<Uint8Array>,
  registry: Registry | undefined,
): AsyncGenerator<MessageShape<D>, void> {
  for await (const payload of payloads) yield decodeMessage(schema, format.codec, payload, registry);
}

async function onlyMessage<T>(messages: AsyncIterable<T>): Promise<T> {
  let only: T | undefined;
  for await (const message of messages) {
    if (only !== undefined) throw new EnvdError("unimplemented", "this method takes exactly one message");
    only = message;
  }
  if (only === undefined) throw new EnvdError("unimplemented", "this method takes exactly one message, got none");
  return only;
}

function firstOf(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}
