// The Connect project's own test service on the RPC layer of the daemon, as `connectconformance` starts it: a request with
// the properties of the server on standard input, the answer where it listens on standard output. The service's schema
// comes as a descriptor set, whose path is the first argument.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

import { create, createFileRegistry, type DescMessage, fromBinary, type Message, toBinary } from "@bufbuild/protobuf";
import { reflect, type ReflectMessage } from "@bufbuild/protobuf/reflect";
import { type Any, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";

import { type AttachedMessage, EnvdError, type EnvdErrorCode } from "../errors.ts";
import type { Call, ServerStream } from "../rpc/call.ts";
import { createDispatcher } from "../rpc/dispatcher.ts";

interface Header {
  readonly name: string;
  readonly value: readonly string[];
}
interface Failure {
  readonly code: number;
  readonly message?: string;
  readonly details: readonly Any[];
}
interface UnaryDefinition {
  readonly responseHeaders: readonly Header[];
  readonly responseTrailers: readonly Header[];
  readonly responseDelayMs: number;
  readonly response:
    | { case: "responseData"; value: Uint8Array }
    | { case: "error"; value: Failure }
    | { case: undefined };
}
interface StreamDefinition {
  readonly responseHeaders: readonly Header[];
  readonly responseTrailers: readonly Header[];
  readonly responseDelayMs: number;
  readonly responseData: readonly Uint8Array[];
  readonly error?: Failure;
}
interface Asking<D> extends Message {
  readonly responseDefinition?: D;
}

const PACKAGE = "connectrpc.conformance.v1";
const CODES: readonly EnvdErrorCode[] = [
  "canceled",
  "unknown",
  "invalid_argument",
  "deadline_exceeded",
  "not_found",
  "already_exists",
  "permission_denied",
  "resource_exhausted",
  "failed_precondition",
  "aborted",
  "out_of_range",
  "unimplemented",
  "internal",
  "unavailable",
  "data_loss",
  "unauthenticated",
];

const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(process.argv[2] ?? "")));

function schema(name: string): DescMessage {
  const found = registry.getMessage(`${PACKAGE}.${name}`);
  if (found === undefined) throw new Error(`the descriptor set has no ${name}`);
  return found;
}

const infoSchema = schema("ConformancePayload.RequestInfo");

function requestInfo(call: Call, requests: readonly Message[]): Record<string, unknown> {
  const headers = Object.entries(call.metadata?.headers ?? {}).map(([name, value]) => ({
    name,
    value: Array.isArray(value) ? value : (value ?? "").split(/, */),
  }));
  return {
    requestHeaders: headers,
    requests: requests.map((message) => {
      const desc = schema(message.$typeName.slice(PACKAGE.length + 1));
      return { typeUrl: `type.googleapis.com/${message.$typeName}`, value: toBinary(desc, message) };
    }),
    ...(call.timeoutMs === undefined ? {} : { timeoutMs: BigInt(call.timeoutMs) }),
  };
}

function attach(info: Record<string, unknown>): AttachedMessage {
  return { type: infoSchema.typeName, value: toBinary(infoSchema, create(infoSchema, info as never)) };
}

function failure({ code, message = "", details }: Failure, more: readonly AttachedMessage[]): EnvdError {
  const given = details.map(({ typeUrl, value }) => ({ type: typeUrl.replace(/^.*\//, ""), value }));
  return new EnvdError(CODES[code - 1] ?? "unknown", message, { attached: [...given, ...more] });
}

function setMetadata(call: Call, definition: UnaryDefinition | StreamDefinition | undefined): void {
  for (const [from, to] of [
    [definition?.responseHeaders, call.metadata?.replyHeaders],
    [definition?.responseTrailers, call.metadata?.replyTrailers],
  ] as const) {
    for (const { name, value } of from ?? []) for (const one of value) to?.push([name.toLowerCase(), one]);
  }
}

async function unary(
  definition: UnaryDefinition | undefined,
  requests: readonly Message[],
  call: Call,
): Promise<{ payload: object }> {
  const info = requestInfo(call, requests);
  setMetadata(call, definition);
  if (definition !== undefined && definition.responseDelayMs > 0) await delay(definition.responseDelayMs);
  const response = definition?.response;
  if (response?.case === "error") throw failure(response.value, [attach(info)]);
  return {
    payload: { data: response?.case === "responseData" ? response.value : new Uint8Array(), requestInfo: info },
  };
}

async function stream(request: Asking<StreamDefinition>, call: Call, out: ServerStream<DescMessage>): Promise<void> {
  const definition = request.responseDefinition;
  const info = requestInfo(call, [request]);
  setMetadata(call, definition);
  for (const [index, data] of (definition?.responseData ?? []).entries()) {
    if (definition !== undefined && definition.responseDelayMs > 0) await delay(definition.responseDelayMs);
    if (call.signal.aborted) return;
    await out.send({ payload: { data, ...(index === 0 ? { requestInfo: info } : {}) } });
  }
  if (definition?.error !== undefined) {
    throw failure(definition.error, definition.responseData.length === 0 ? [attach(info)] : []);
  }
}

const implementation = {
  unary: (request: Asking<UnaryDefinition>, call: Call) => unary(request.responseDefinition, [request], call),
  idempotentUnary: (request: Asking<UnaryDefinition>, call: Call) => unary(request.responseDefinition, [request], call),
  serverStream: stream,
  async clientStream(requests: AsyncIterable<Asking<UnaryDefinition>>, call: Call) {
    const all: Asking<UnaryDefinition>[] = [];
    for await (const request of requests) all.push(request);
    return unary(all[0]?.responseDefinition, all, call);
  },
  unimplemented() {
    throw new EnvdError("unimplemented", `${PACKAGE}.ConformanceService.Unimplemented is not implemented`);
  },
  bidiStream() {
    throw new EnvdError("unimplemented", "streams in both directions are not served");
  },
};

function field(message: ReflectMessage, name: string): unknown {
  const desc = message.fields.find((one) => one.localName === name);
  return desc === undefined ? undefined : message.get(desc);
}

async function readRequest(): Promise<ReflectMessage> {
  const desc = schema("ServerCompatRequest");
  let bytes = Buffer.alloc(0);
  for await (const chunk of process.stdin) {
    bytes = Buffer.concat([bytes, chunk as Buffer]);
    if (bytes.length >= 4 && bytes.length >= 4 + bytes.readUInt32BE(0)) break;
  }
  return reflect(desc, fromBinary(desc, bytes.subarray(4, 4 + bytes.readUInt32BE(0))));
}

const service = registry.getService(`${PACKAGE}.ConformanceService`);
if (service === undefined) throw new Error("the descriptor set has no ConformanceService");
const properties = await readRequest();
const limit = field(properties, "messageReceiveLimit");
const dispatcher = createDispatcher({
  userOf: () => {
    throw new EnvdError("unauthenticated", "this service has no users");
  },
  maxMessageBytes: typeof limit === "number" && limit > 0 ? limit : 64 << 20,
  logger: { warn: () => undefined, error: () => undefined },
  registry,
});
dispatcher.add(service, implementation, undefined);
const server = createServer((req, res) => {
  res.on("error", () => undefined);
  const [path = "", query = ""] = (req.url ?? "/").split("?");
  if (dispatcher.has(path)) void dispatcher.serve({ req, res, method: req.method ?? "", path, query }, undefined);
  else res.writeHead(404).end();
});
// Where the runner's client finds the server when a proxy is in front of it.
const through = process.env["CONFORMANCE_THROUGH"];
// As the daemon has it: a client may use a connection again after any time.
server.keepAliveTimeout = 640_000;
server.requestTimeout = 0;
// Behind a proxy, names of ports are known in advance: the first that is free is taken.
const ports = through === undefined ? [0] : (JSON.parse(through) as { readonly free: number[] }).free;
server.on("error", (error: NodeJS.ErrnoException) => {
  const next = ports.shift();
  if (error.code !== "EADDRINUSE" || next === undefined) throw error;
  server.listen(next, "127.0.0.1");
});
server.once("listening", () => {
  const { port } = server.address() as AddressInfo;
  const shown = through === undefined ? { host: "127.0.0.1", port } : announce(through, port);
  const desc = schema("ServerCompatResponse");
  const answer = toBinary(desc, create(desc, shown as never));
  const head = Buffer.alloc(4);
  head.writeUInt32BE(answer.length);
  process.stdout.write(Buffer.concat([head, answer]));
});
server.listen(ports.shift() ?? 0, "127.0.0.1");
process.on("SIGTERM", () => process.exit(0));

/** Name and port of the proxy, and the certificate it has when the runner asks for TLS. */
function announce(told: string, port: number): object {
  const proxy = JSON.parse(told) as { host: string; plain: number; tls: number; certFile: string };
  const host = `${port}-${proxy.host}`;
  return field(properties, "useTls") === true
    ? { host, port: proxy.tls, pemCert: readFileSync(proxy.certFile) }
    : { host, port: proxy.plain };
}
