import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { expect, it } from "vitest";
import { PlainConnection } from "./plain-connection.ts";
import { eventually, requestHead } from "./testing/fixtures.ts";

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

it("cuts off a client that sends without end behind a request", async () => {
  const server = createServer({ allowHalfOpen: true, noDelay: true }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const accepted = once(server, "connection") as Promise<[Socket]>;
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
  client.on("error", () => undefined);
  const [socket] = await accepted;
  socket.on("error", () => undefined);
  const happened: string[] = [];
  const connection = new PlainConnection(socket, {
    onRequest(inbound) {
      inbound.onGone(() => happened.push("gone"));
      // As if it was read once a second, sixty-four kilobytes at a time.
      for (let bytes = 0; bytes <= 8 * 1024 * 1024 && !socket.destroyed; bytes += 65_536) {
        setImmediate(() => socket.emit("data", Buffer.alloc(65_536)));
      }
    },
    onOver: () => happened.push("over"),
    onOther: () => happened.push("other"),
    onLeft: () => happened.push("left"),
  });
  client.write(requestHead("GET /first"));
  await once(client, "close");
  server.close();
  expect(connection.last).toBe(false);
  await eventually("the end", () => happened.length === 3);
  expect(happened).toEqual(["gone", "over", "left"]);
});
