/** Bytes of headers that are accepted from clients and from guests. */
export const MAX_HEADER_BYTES: number = 1024 * 1024;

/**
 * Bytes of an answer's headers over HTTP/2. Common clients take a larger head for an attack and drop the connection,
 * which the streams of other guests share.
 */
export const MAX_HTTP2_HEAD_BYTES: number = 128 * 1024;

/** The same for one of its fields. */
export const MAX_HTTP2_FIELD_BYTES: number = 64 * 1024;

/** How many fields a head or trailers may have over HTTP/2, in both directions. */
export const MAX_HTTP2_FIELDS = 4096;

/** Streams that an HTTP/2 client may cancel at once: all of its own, as a balancer does when one of its clients leaves. */
export const HTTP2_RESET_BURST = 10_000;

/** Streams that an HTTP/2 client may cancel per second after that. */
export const HTTP2_RESETS_PER_SECOND = 1000;

/** Streams that one HTTP/2 connection may carry at a time: clients send thousands of calls over a few connections. */
export const MAX_HTTP2_STREAMS = 10_000;

/** HTTP/2 flow-control window per stream, in bytes. */
export const HTTP2_STREAM_WINDOW: number = 1024 * 1024;

/** HTTP/2 flow-control window per connection, in bytes. */
export const HTTP2_CONNECTION_WINDOW: number = 16 * 1024 * 1024;

/** What one HTTP/2 connection may hold in memory, in megabytes. The default of 10 refuses streams under load. */
export const HTTP2_SESSION_MEGABYTES = 256;

/** Idle relays that are kept for one sandbox. */
export const MAX_IDLE_RELAYS_PER_SANDBOX = 128;

/** Idle relays that are kept for all sandboxes. */
export const MAX_IDLE_RELAYS = 2048;

/** Relays to one guest port that are being opened at a time. Guests' listeners commonly queue 128 to 511. */
export const MAX_DIALS_PER_PORT = 64;
