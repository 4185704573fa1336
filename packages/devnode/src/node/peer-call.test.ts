import { createServer } from "node:net";
import { expect, test } from "vitest";
import { askPeer, isNodeAddress } from "./peer-call.ts";

test.each(["127.0.0.1:7777", "node-1:80", "[::1]:7777", "http://node", "https://node.example:8443", "http://[::1]:1"])(
  "%s names a node",
  (text) => {
    expect(isNodeAddress(text)).toBe(true);
  },
);

test.each([
  "",
  "foo bar",
  "a b:1",
  "h:0",
  "h:99999",
  "http://user:secret@h:1",
  "user@h:1",
  "h:1/..",
  "http://h/path",
  "http://h/?q",
  "h:1#x",
  "javascript:alert(1)",
  "ftp://h",
  "http://",
  "//h",
  "h\\x:1",
  "h:1\r\nX: y",
  "\u0000:1",
  "é:1",
  "x".repeat(300),
])("%j names no node", (text) => {
  expect(isNodeAddress(text)).toBe(false);
});

test("a peer that never ends its answer has not answered", async () => {
  const peer = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.write("HTTP/1.1 200 OK\r\n");
    const timer = setInterval(() => socket.write("x: y\r\n"), 100);
    socket.once("close", () => clearInterval(timer));
  });
  await new Promise<void>((resolve) => {
    peer.listen(0, "127.0.0.1", resolve);
  });
  const address = `127.0.0.1:${(peer.address() as { port: number }).port}`;
  const { signal } = new AbortController();
  expect(await askPeer(address, { method: "HEAD", path: "/", signal })).toBeUndefined();
  peer.close();
});
