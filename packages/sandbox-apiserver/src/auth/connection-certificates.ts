import type { X509Certificate } from "node:crypto";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { readCertificate, type Certificate } from "./certificate.ts";
import type { RawRequest } from "./request-headers.ts";
import { verifyClientChain, type TrustBundle, type VerifiedChain } from "./verify-chain.ts";

/** More are not looked at. */
const MAX_PRESENTED = 16;
/** How long a chain that does not hold is taken not to, in milliseconds: clients may ask again and again. */
const REFUSAL_MS = 5000;

/** What a client showed in its handshake. */
interface Presented {
  /** Empty when one of them cannot be read. */
  readonly certificates: readonly Certificate[];
  readonly verdicts: WeakMap<TrustBundle, Verdict>;
}

interface Verdict {
  readonly chain: VerifiedChain | undefined;
  readonly from: number;
  readonly to: number;
}

/**
 * The certificates of a connection. They are read once for each, and judged once for each set of authorities: others get
 * another judgement on the very next request.
 */
export class ConnectionCertificates {
  readonly #known = new WeakMap<object, Presented>();
  readonly #clock: () => number;

  /** @param clock milliseconds since 1970 */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** Whether the client of a request showed a certificate. */
  shownBy(request: RawRequest): boolean {
    return this.#of(request) !== undefined;
  }

  /** The chain of a request's client by these authorities, if it holds now. */
  verify(request: RawRequest, trust: TrustBundle): VerifiedChain | undefined {
    const presented = this.#of(request);
    if (presented === undefined) {
      return undefined;
    }
    const now = this.#clock();
    const known = presented.verdicts.get(trust);
    if (known !== undefined && now >= known.from && now <= known.to) {
      return known.chain;
    }
    const chain = verifyClientChain(presented.certificates, trust, now);
    const [from, to] = chain === undefined ? [now, now + REFUSAL_MS] : [chain.notBefore, chain.notAfter];
    presented.verdicts.set(trust, { chain, from, to });
    return chain;
  }

  #of(request: RawRequest): Presented | undefined {
    const socket = socketOf(request);
    if (socket === undefined) {
      return undefined;
    }
    let presented = this.#known.get(socket.key);
    if (presented === undefined) {
      const first = socket.tls.getPeerX509Certificate();
      if (first === undefined) {
        return undefined;
      }
      presented = { certificates: readAll(first), verdicts: new WeakMap() };
      this.#known.set(socket.key, presented);
    }
    return presented;
  }
}

/** The connection of a request, and what stands for it: HTTP/2 makes another proxy of its socket at each look. */
function socketOf(request: RawRequest): { readonly key: object; readonly tls: TLSSocket } | undefined {
  const session = "stream" in request ? request.stream.session : undefined;
  const { socket } = session ?? request;
  // A stream that is over has none. The proxy only answers to what is asked by its name.
  return socket !== undefined && isSecure(socket) ? { key: session ?? socket, tls: socket } : undefined;
}

function isSecure(socket: Socket | TLSSocket): socket is TLSSocket {
  return typeof Reflect.get(socket, "getPeerX509Certificate") === "function";
}

function readAll(first: X509Certificate): readonly Certificate[] {
  const all: Certificate[] = [];
  let next: X509Certificate | undefined = first;
  try {
    while (next !== undefined && all.length < MAX_PRESENTED) {
      all.push(readCertificate(next));
      next = next.issuerCertificate;
    }
  } catch {
    // One that cannot be read proves nothing, and neither does what came with it.
    return [];
  }
  return all;
}
