import { connect } from "node:net";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { expect, it, onTestFinished } from "vitest";
import { createFleet, KEY_1 } from "./testing/fleet.ts";

/** Sends bytes on a fresh connection and reads until the server closes it. */
async function exchange(port: number, bytes: string): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined);
  onTestFinished(() => void socket.destroy());
  socket.write(bytes);
  return text(socket);
}

it.each([
  ["gzip in front of chunked", "HTTP/1.1", "Transfer-Encoding: gzip, chunked\r\n", 501],
  ["identity in front of chunked", "HTTP/1.1", "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", 501],
  ["an empty coding in front of chunked", "HTTP/1.1", "Transfer-Encoding: ,chunked\r\n", 501],
  ["chunked in HTTP/1.0", "HTTP/1.0", "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n", 501],
  ["a version that is not spoken here", "HTTP/2.0", "Content-Length: 0\r\n", 400],
])(
  "a request with %s is refused, and what stands behind it is not carried out",
  async (_what, version, framing, status) => {
    const fleet = createFleet();
    const end = new AbortController();
    const { promise: bound, resolve } = Promise.withResolvers<AddressInfo>();
    const done = fleet.server.serve("127.0.0.1:0", { signal: end.signal, onListening: resolve });
    onTestFinished(() => {
      end.abort();
      return done;
    });
    const { port } = await bound;
    const head = `Host: localhost\r\nX-API-Key: ${KEY_1}\r\n`;
    const create = '{"templateID":"base"}';
    const hidden = `POST /sandboxes HTTP/1.1\r\n${head}Content-Length: ${create.length}\r\n\r\n${create}`;
    const answer = await exchange(
      port,
      `POST /sandboxes/sb-1/pause ${version}\r\n${head}${framing}\r\n0\r\n\r\n${hidden}`,
    );
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(answer.match(/HTTP\/1\.1 /g)).toHaveLength(1);
    const list = await exchange(port, `GET /v2/sandboxes HTTP/1.1\r\n${head}Connection: close\r\n\r\n`);
    expect(list).toMatch(/\r\n\r\n\[\]$/);
  },
);
