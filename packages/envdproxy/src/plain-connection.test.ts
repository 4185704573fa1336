import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { expect, it } from "vitest";
import { PlainConnection } from "./plain-connection.ts";
import { requestHead } from "./testing/fixtures.ts";

it.each([
  ["an answer that is the last by its own words", true],
  ["an answer during a drain", false],
])("carries out nothing that comes behind %s", async (_what, last) => {
  const server = createServer({ allowHalfOpen: true, noDelay: true }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const accepted = once(server, "connection") as Promise<[Socket]>;
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
  let text = "";
  client.on("data", (bytes: Buffer) => {
    text += bytes.toString();
  });
  const [socket] = await accepted;
  const targets: string[] = [];
  const connection = new PlainConnection(socket, {
    onRequest(inbound) {
      targets.push(inbound.target);
      if (!last) {
        connection.close();
      }
      inbound.respondWhole({ status: 200, statusText: "", headers: [], empty: false, last }, Buffer.from("answer"));
    },
    // As if it arrived when the answer is out and the connection is not closed yet.
    onOver: () => process.nextTick(() => socket.push(requestHead("POST /next"))),
    onOther: () => targets.push("other"),
    onLeft: () => undefined,
  });
  client.write(requestHead("GET /first"));
  await once(client, "close");
  server.close();
  expect(targets).toEqual(["/first"]);
  expect(text).toMatch(/\r\nConnection: close\r\n[^]*answer/);
});
