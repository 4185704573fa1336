import type { Dispatcher } from "undici";
import type { NodeAddress } from "./address.ts";
import { errorCapBytes, replyCapBytes } from "./caps.ts";
import { errorText, SandboxdError, statusError } from "./errors.ts";
import type { NodePool } from "./pool.ts";

/** One request of a client. */
export interface ExchangeRequest {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly path: string;
  readonly authorization: string | undefined;
  /** JSON. */
  readonly body?: string | Uint8Array | undefined;
  /** What errors call the request: no ids' secrets, no query. Asked for when there is an error. */
  readonly label: () => string;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Whether the signal ends the request only while nothing of it was sent. @default false */
  readonly untilSent?: boolean | undefined;
  /** Called once, just before the first byte is handed to a connection. */
  readonly onSent?: (() => void) | undefined;
}

/** A good reply, read to its end. */
export interface ExchangeReply {
  readonly status: number;
  readonly body: Buffer;
  /** The `Date` header, as the node sent it. */
  readonly date: string | undefined;
}

/**
 * Sends one request and reads the reply to its end. The bound covers everything from here to the last byte. An abort
 * rejects at once; while the request waits for a connection it is then never sent.
 * @throws SandboxdError on anything but a 2xx.
 */
export function exchange(pool: NodePool, address: NodeAddress, request: ExchangeRequest): Promise<ExchangeReply> {
  return new Promise((resolve, reject) => {
    const headers: Record<string, string> = { accept: "application/json" };
    if (request.authorization !== undefined) {
      headers["authorization"] = request.authorization;
    }
    if (request.body !== undefined) {
      headers["content-type"] = "application/json";
    }
    const options: Dispatcher.DispatchOptions = {
      origin: address.origin,
      path: request.path,
      method: request.method,
      headers,
      body: request.body ?? null,
    };
    const call = new Call(request, (handler) => pool.dispatcher.dispatch(options, handler), resolve, reject);
    if (call.arm()) {
      call.dispatch();
    }
  });
}

class Call implements Dispatcher.DispatchHandler {
  readonly #request: ExchangeRequest;
  readonly #dispatch: (handler: Dispatcher.DispatchHandler) => void;
  readonly #resolve: (reply: ExchangeReply) => void;
  readonly #reject: (error: SandboxdError) => void;
  readonly #onAbort: () => void;
  #timer: NodeJS.Timeout | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #settled = false;
  #repeated = false;
  #status = 0;
  #date: string | undefined;
  #cap = 0;
  #size = 0;
  #chunks: Buffer[] = [];

  constructor(
    request: ExchangeRequest,
    dispatch: (handler: Dispatcher.DispatchHandler) => void,
    resolve: (reply: ExchangeReply) => void,
    reject: (error: SandboxdError) => void,
  ) {
    this.#request = request;
    this.#dispatch = dispatch;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#onAbort = (): void => this.#stop("aborted", "aborted", request.signal?.reason);
  }

  /** Starts the bound and listens to the caller; false when the caller has already left. */
  arm(): boolean {
    const { signal, timeoutMs } = this.#request;
    if (signal?.aborted === true) {
      this.#onAbort();
      return false;
    }
    signal?.addEventListener("abort", this.#onAbort, { once: true });
    this.#timer = setTimeout(() => this.#stop("timeout", `no complete reply within ${timeoutMs} ms`), timeoutMs);
    return true;
  }

  dispatch(): void {
    try {
      this.#dispatch(this);
    } catch (error) {
      this.onResponseError(undefined, error);
    }
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#settled) {
      // Left the queue after the caller did: nothing was written yet and nothing will be.
      controller.abort(new Error("the caller has left"));
      return;
    }
    const first = this.#controller === undefined;
    this.#controller = controller;
    if (first) {
      const { untilSent, signal, onSent } = this.#request;
      if (untilSent === true) {
        signal?.removeEventListener("abort", this.#onAbort);
      }
      onSent?.();
    }
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    if (status < 200) {
      return;
    }
    this.#status = status;
    const date = headers["date"];
    this.#date = typeof date === "string" ? date : undefined;
    this.#cap = status < 300 ? replyCapBytes : errorCapBytes;
    if (status < 300 && Number(headers["content-length"]) > this.#cap) {
      this.#overCap();
    }
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#settled) {
      return;
    }
    this.#size += chunk.length;
    this.#chunks.push(chunk);
    if (this.#size <= this.#cap) {
      return;
    }
    if (this.#status < 300) {
      this.#overCap();
    } else {
      this.#finish();
      controller.abort(new Error("the error body is over its cap"));
    }
  }

  onResponseEnd(): void {
    this.#finish();
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: unknown): void {
    if (this.#mayRepeat()) {
      this.#repeated = true;
      this.#controller = undefined;
      this.dispatch();
      return;
    }
    const started = this.#controller !== undefined;
    this.#fail(started ? "connection_lost" : "unreachable", errorText(error), error);
  }

  /** Nodes close idle connections when they like: a GET that meets such a close is sent once more. */
  #mayRepeat(): boolean {
    return (
      this.#request.method === "GET" &&
      this.#controller !== undefined &&
      this.#status === 0 &&
      !this.#settled &&
      !this.#repeated
    );
  }

  #overCap(): void {
    this.#stop("bad_reply", `the reply is over the cap of ${this.#cap} bytes`);
  }

  /** Rejects, and takes the request off its connection. */
  #stop(code: "aborted" | "timeout" | "bad_reply", why: string, cause?: unknown): void {
    this.#fail(code, why, cause);
    this.#controller?.abort(new Error(why));
  }

  #fail(
    code: "aborted" | "timeout" | "bad_reply" | "connection_lost" | "unreachable",
    why: string,
    cause: unknown,
  ): void {
    if (this.#settle()) {
      const delivery = this.#controller === undefined ? "no" : "maybe";
      this.#reject(new SandboxdError(code, `${this.#request.label()}: ${why}`, { delivery, cause }));
    }
  }

  #finish(): void {
    if (!this.#settle()) {
      return;
    }
    const [only] = this.#chunks;
    const body = this.#chunks.length === 1 && only !== undefined ? only : Buffer.concat(this.#chunks);
    this.#chunks = [];
    if (this.#status < 300) {
      this.#resolve({ status: this.#status, body, date: this.#date });
    } else {
      this.#reject(statusError(this.#request.label(), this.#status, body.subarray(0, errorCapBytes)));
    }
  }

  #settle(): boolean {
    if (this.#settled) {
      return false;
    }
    this.#settled = true;
    clearTimeout(this.#timer);
    this.#request.signal?.removeEventListener("abort", this.#onAbort);
    return true;
  }
}

type Headers = Readonly<Record<string, string | string[] | undefined>>;
