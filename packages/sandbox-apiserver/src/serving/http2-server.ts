import { constants, createServer } from "node:http2";
import type {
  Http2Server,
  Http2ServerRequest,
  Http2ServerResponse,
  ServerHttp2Session,
  ServerHttp2Stream,
} from "node:http2";
import type { ApiServer } from "../api-server.ts";
import { faultAnswer, type RequestFault } from "./last-words.ts";
import {
  LINGER_MS,
  MAX_HEADER_LINES,
  MAX_HEADER_LIST_BYTES,
  RESET_BURST,
  RESETS_PER_SECOND,
  SERVING_TIMES,
  SESSION_MEGABYTES,
  STREAM_WINDOW,
  type ServingTimes,
} from "./limits.ts";
import type { OpenConnections } from "./open-connections.ts";

/** An HTTP/2 server for connections that are handed to it. */
export function http2Server(
  api: Pick<ApiServer, "listener">,
  open: OpenConnections,
  maxStreams: number,
  times: ServingTimes = SERVING_TIMES,
): Http2Server {
  const server = createServer({
    maxSessionMemory: SESSION_MEGABYTES,
    maxHeaderListPairs: MAX_HEADER_LINES,
    streamResetBurst: RESET_BURST,
    streamResetRate: RESETS_PER_SECOND,
    settings: {
      initialWindowSize: STREAM_WINDOW,
      maxConcurrentStreams: maxStreams,
      maxHeaderListSize: MAX_HEADER_LIST_BYTES,
      enablePush: false,
    },
  });
  server.on("session", (session) => watchSession(session, open, times));
  server.on("sessionError", () => undefined);
  server.on("stream", (stream) => watchStream(stream, times));
  server.on("request", (request: Http2ServerRequest, response: Http2ServerResponse) => {
    const over = open.begin();
    response.once("close", over);
    response.on("error", () => undefined);
    request.on("error", () => undefined);
    api.listener(request, response).catch(() => response.stream.close(constants.NGHTTP2_INTERNAL_ERROR));
  });
  server.on("connect", (_request: Http2ServerRequest, response: Http2ServerResponse) => refuse(response, "no_tunnel"));
  server.on("checkExpectation", (_request: Http2ServerRequest, response: Http2ServerResponse) =>
    refuse(response, "no_expectation"),
  );
  return server;
}

function refuse(response: Http2ServerResponse, fault: RequestFault): void {
  const { status, body } = faultAnswer(fault);
  response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  response.end(body);
}

/** Ends a connection that says nothing of use, whatever pings it sends. */
function watchSession(session: ServerHttp2Session, open: OpenConnections, times: ServingTimes): void {
  open.sessions.add(session);
  session.on("error", () => undefined);
  let streams = 0;
  let timer = setTimeout(() => session.destroy(), times.headMs);
  const rest = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => session.destroy(), times.idleMs);
  };
  session.once("remoteSettings", () => {
    if (streams === 0) {
      rest();
    }
  });
  session.on("stream", (stream: ServerHttp2Stream) => {
    streams += 1;
    clearTimeout(timer);
    stream.once("close", () => {
      streams -= 1;
      if (streams === 0 && !session.destroyed) {
        rest();
      }
    });
  });
  session.once("close", () => {
    clearTimeout(timer);
    open.sessions.delete(session);
  });
}

/** Takes back a request whose body does not come, and an answer that nobody takes. */
function watchStream(stream: ServerHttp2Stream, times: ServingTimes): void {
  stream.on("error", () => undefined);
  const late = stream.endAfterHeaders
    ? undefined
    : setTimeout(() => {
        if (!stream.readableEnded) {
          stream.close(constants.NGHTTP2_CANCEL);
        }
      }, times.requestMs);
  stream.setTimeout(times.stallMs, () => {
    if (stream.writableLength > 0) {
      stream.close(constants.NGHTTP2_CANCEL);
    }
  });
  let linger: NodeJS.Timeout | undefined;
  stream.once("finish", () => {
    linger = setTimeout(() => stream.close(constants.NGHTTP2_NO_ERROR), LINGER_MS);
  });
  stream.once("close", () => {
    clearTimeout(late);
    clearTimeout(linger);
  });
}
