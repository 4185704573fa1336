/** Cases of runners that fail, and why. A case that fails without standing here fails its row. */
export interface KnownFailure {
  /** Matches the case's name. */
  readonly cases: RegExp;
  readonly reason: string;
}

/** Of Connect's runner, directly and through the proxy. */
export const CONNECT_FAILURES: readonly KnownFailure[] = [];

/** Of h2spec, over TLS and in cleartext. */
export const H2_FAILURES: readonly KnownFailure[] = [
  {
    cases:
      /^http2\/(5\.1 (closed|half closed \(remote\)): Sends a (DATA|HEADERS) frame|5\.1\.1 Sends stream identifier that is numerically smaller|5\.3\.1 Sends (PRIORITY|HEADERS) frame that depend on itself|6\.3 Sends a PRIORITY frame with 0x0|6\.7 Sends a PING frame with ACK|6\.9\.1 Sends multiple WINDOW_UPDATE frames increasing the flow control window to above 2\^31-1 on a stream)/,
    reason:
      "so does a bare `node:http2` server: Node's HTTP/2 library ignores these frames instead of ending the connection",
  },
  {
    cases: /^http2\/3\.5 Sends invalid connection preface/,
    reason:
      "a cleartext port serves HTTP/1.1 too: what does not begin like HTTP/2 is answered as a bad HTTP/1.1 request",
  },
];
