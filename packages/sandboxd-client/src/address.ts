import { SandboxdError } from "./errors.ts";

/** Where a node answers, taken from one of the two forms of node API §1.5. */
export interface NodeAddress {
  /** As given: the form to compare and to log. */
  readonly text: string;
  /** `http://host[:port]` or `https://host[:port]`. */
  readonly origin: string;
  /** Host for a socket: no brackets. */
  readonly hostname: string;
  readonly port: number;
  readonly tls: boolean;
  /** Value of the `Host` header. */
  readonly host: string;
}

/**
 * Reads `host:port` (plain HTTP) or an `http`/`https` origin; a trailing slash of an origin is dropped.
 * @throws SandboxdError `bad_request` for anything else, credentials, a path or a query included.
 */
export function parseNodeAddress(text: string): NodeAddress {
  // Credentials that somebody put there stay out of the log.
  const shown = JSON.stringify(text.replace(/(^|\/\/).*@/s, "$1***@"));
  const refuse = (why: string): SandboxdError =>
    new SandboxdError("bad_request", `sandboxd address ${shown}: ${why}`, { delivery: "no" });
  if (!/^[\x21-\x7e]+$/.test(text)) {
    throw refuse("must be printable ASCII without spaces");
  }
  const full = text.includes("://") ? text : `http://${text}`;
  const url = URL.canParse(full) ? new URL(full) : undefined;
  if (url === undefined) {
    throw refuse("must be host:port or an http(s) origin");
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw refuse("its scheme must be http or https");
  }
  if (url.username !== "" || url.password !== "" || full.includes("@")) {
    throw refuse("must not carry credentials");
  }
  if (url.pathname !== "/" || /[?#]/.test(full)) {
    throw refuse("must not carry a path, a query or a fragment");
  }
  const tls = url.protocol === "https:";
  const port = url.port === "" ? (tls ? 443 : 80) : Number(url.port);
  if (port === 0) {
    throw refuse("port 0 cannot be dialed");
  }
  return {
    text,
    origin: url.origin,
    hostname: url.hostname.replace(/^\[|\]$/g, ""),
    port,
    tls,
    host: url.host,
  };
}

/**
 * Checks a sandbox id or checkpoint id and encodes it as one path segment.
 * @throws SandboxdError `bad_request`
 */
export function idSegment(id: string): string {
  if (!/^[\x21-\x7e]{1,256}$/.test(id) || id === "." || id === "..") {
    throw new SandboxdError("bad_request", "sandbox id must be 1 to 256 printable characters", { delivery: "no" });
  }
  return encodeURIComponent(id);
}

/**
 * Checks that a token can stand in a header; the empty token sends none.
 * @throws SandboxdError `bad_request`; the message does not repeat the token.
 */
export function bearer(token: string): string | undefined {
  if (!/^[\x21-\x7e]*$/.test(token)) {
    throw new SandboxdError("bad_request", "token must be printable ASCII without spaces or line ends", {
      delivery: "no",
    });
  }
  return token === "" ? undefined : `Bearer ${token}`;
}
