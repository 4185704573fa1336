import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A stand-in for an S3 bucket. It keeps whole uploads only, as object stores do, and judges no signature. */
export interface ObjectStore extends AsyncDisposable {
  readonly origin: string;
  /** Bytes by path, the bucket's name included. */
  readonly objects: ReadonlyMap<string, Buffer>;
  /** Requests so far: method and path, with whether something in the query or the head signs them. */
  readonly seen: readonly string[];
  /** Answers everything with this status until it is told otherwise. */
  fail(status: number | undefined): void;
}

/** Starts one on a loopback port. */
export async function startObjectStore(): Promise<ObjectStore> {
  const objects = new Map<string, Buffer>();
  const seen: string[] = [];
  let failing: number | undefined;

  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? "/", "http://store");
    const signed = url.searchParams.has("X-Amz-Signature") || request.headers.authorization !== undefined;
    seen.push(`${request.method} ${url.pathname} ${signed ? "signed" : "unsigned"}`);
    const parts: Buffer[] = [];
    for await (const part of request as AsyncIterable<Buffer>) {
      parts.push(part);
    }
    const object = objects.get(url.pathname);
    if (failing !== undefined || !signed) {
      response.writeHead(failing ?? 403).end("<Error/>");
    } else if (request.method === "PUT") {
      objects.set(url.pathname, Buffer.concat(parts));
      response.writeHead(200).end();
    } else if (object === undefined) {
      response.writeHead(404).end();
    } else {
      response.writeHead(200, { "content-length": object.length });
      response.end(request.method === "HEAD" ? undefined : object);
    }
  };
  // A client that breaks off rejects the reading of its body: nothing is kept then.
  const server = createServer((request, response) => void serve(request, response).catch(() => response.destroy()));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    objects,
    seen,
    fail: (status) => {
      failing = status;
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
