import { ScaleError } from "@org/scale";
import type { Call, Direct } from "../call.ts";
import { E2bError } from "../errors.ts";
import { tooLarge } from "./directory-store.ts";

function gone(cause: unknown): ScaleError {
  return new ScaleError("aborted", "the client closed the connection while it uploaded", { cause });
}

/**
 * The body of an upload as it comes. Throws `too_large` for one that says so before it is read, `bad_request` for a
 * client that stops in the middle, and `aborted` for one that hangs up.
 */
export function uploadBody(call: Call, maxBytes: number): AsyncIterable<Uint8Array> {
  const length = Number(call.context.req.header("content-length"));
  if (length > maxBytes) {
    throw tooLarge(maxBytes);
  }
  return call.direct === undefined ? webBody(call) : directBody(call.direct);
}

async function* directBody({ incoming, bodyIdleTimeoutMs }: Direct): AsyncGenerator<Uint8Array, void> {
  const idle = Promise.withResolvers<never>();
  idle.promise.catch(() => undefined);
  let waiting = true;
  const timer = setTimeout(() => {
    if (!waiting) {
      // It is our disk that takes its time.
      timer.refresh();
      return;
    }
    idle.reject(new E2bError("bad_request", `the upload stopped coming for ${bodyIdleTimeoutMs} ms`));
  }, bodyIdleTimeoutMs);
  // The answer to a refused upload still has to go out on this connection.
  const chunks = incoming.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer, void>;
  try {
    for (;;) {
      const next = await Promise.race([chunks.next(), idle.promise]);
      if (next.done === true) {
        return;
      }
      waiting = false;
      yield next.value;
      waiting = true;
      timer.refresh();
    }
  } catch (error) {
    throw error instanceof E2bError ? error : gone(error);
  } finally {
    clearTimeout(timer);
    incoming.on("error", () => undefined);
    void Promise.resolve(chunks.return?.()).catch(() => undefined);
  }
}

async function* webBody(call: Call): AsyncGenerator<Uint8Array, void> {
  const { body } = call.context.req.raw;
  if (body === null) {
    return;
  }
  try {
    yield* body as AsyncIterable<Uint8Array>;
  } catch (error) {
    throw call.signal.aborted
      ? gone(error)
      : new E2bError("bad_request", "the upload cannot be read", { cause: error });
  }
}
