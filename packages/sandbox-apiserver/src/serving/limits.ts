/** How long a client may take, in milliseconds. */
export interface ServingTimes {
  /** For a TLS handshake, the preface of HTTP/2 and the head of a request. */
  readonly headMs: number;
  /** For a whole request with its body. Answers, watches above all, have no limit. */
  readonly requestMs: number;
  /** Without taking anything of an answer that is there for it. */
  readonly stallMs: number;
  /**
   * Without a request. Clients in Go keep idle connections for 90 s and do not repeat a POST that met a closed one, so
   * that ours must be kept for longer.
   */
  readonly idleMs: number;
}

export const SERVING_TIMES: ServingTimes = { headMs: 10_000, requestMs: 60_000, stallMs: 60_000, idleMs: 120_000 };
/** Groups and extras of users travel in headers. */
export const MAX_HEADER_BYTES = 131_072;
export const MAX_HEADER_LINES = 8192;
/** HTTP/2 counts 32 bytes more for each line (RFC 9113 §6.5.2). */
export const MAX_HEADER_LIST_BYTES: number = MAX_HEADER_BYTES + 32 * MAX_HEADER_LINES;
/** Streams of one HTTP/2 connection at once: an API server sends all of its clients' requests through a few. */
export const MAX_STREAMS = 250;
/**
 * What HTTP/2 takes of each body before it is read, in bytes. Node gives the connection's own window back at once, so that
 * a body that nobody reads yet does not keep back those of other streams.
 */
export const STREAM_WINDOW = 65_535;
/** Room of one HTTP/2 connection for what waits, in megabytes. */
export const SESSION_MEGABYTES = 32;
/** Streams that a client may open only to take them back: so many at once, and so many each second from then on. */
export const RESET_BURST = 1000;
export const RESETS_PER_SECOND = 100;
/** How long last words may take to arrive, in milliseconds. */
export const LINGER_MS = 1000;
