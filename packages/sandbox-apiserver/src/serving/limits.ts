/** A TLS handshake, the preface of HTTP/2 and the head of a request may take so long, in milliseconds. */
export const HEAD_TIMEOUT_MS = 10_000;
/** A whole request with its body, in milliseconds. Answers, watches above all, have no limit. */
export const REQUEST_TIMEOUT_MS = 60_000;
/** How long a client may take nothing of an answer that is there for it, in milliseconds. */
export const STALL_TIMEOUT_MS = 60_000;
/**
 * How long a connection is kept without a request, in milliseconds. Clients in Go keep theirs for 90 s and do not repeat a
 * POST that met a closed one.
 */
export const IDLE_TIMEOUT_MS = 120_000;
/** Groups and extras of users travel in headers. */
export const MAX_HEADER_BYTES = 131_072;
export const MAX_HEADER_LINES = 8192;
/** Streams of one HTTP/2 connection at once: an API server sends all of its clients' requests through a few. */
export const MAX_STREAMS = 250;
/** What HTTP/2 takes of a body before it is read, in bytes. */
export const STREAM_WINDOW = 262_144;
/** Room of one HTTP/2 connection for what waits, in megabytes. */
export const SESSION_MEGABYTES = 32;
/** Streams that a client may open only to take them back: so many at once, and so many each second from then on. */
export const RESET_BURST = 1000;
export const RESETS_PER_SECOND = 100;
/** How long last words may take to arrive, in milliseconds. */
export const LINGER_MS = 1000;
