import { connect } from "node:net";
import { describe, expect, test } from "vitest";
import { startFakeNode, type FakeNode } from "../testing/fake-node.ts";

const TOKEN = "root-token";
const HEAD = `Host: x\r\nAuthorization: Bearer ${TOKEN}\r\n`;
const UPGRADE = "Upgrade: h2c\r\nConnection: Upgrade\r\n";

/** Sends bytes as they are and resolves with all that comes back until the connection ends. */
function exchange(node: FakeNode, bytes: string, then?: (write: (more: string) => boolean) => void): Promise<string> {
  const [host = "", port = ""] = node.address.split(":");
  return new Promise((resolve) => {
    const socket = connect({ host, port: Number(port), allowHalfOpen: true });
    let text = "";
    socket.setEncoding("latin1").on("data", (chunk: string) => {
      text += chunk;
    });
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(text));
    socket.on("end", () => {
      if (then === undefined) {
        socket.destroy();
      }
    });
    socket.write(bytes);
    then?.((more) => !socket.destroyed && socket.write(more));
  });
}

const statuses = (text: string): string[] => [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map((match) => match[1] ?? "");

describe("a body without end", () => {
  test.each([
    ["one that is read", HEAD, "400"],
    ["one of a stranger", "Host: x\r\n", "401"],
  ])(
    "is answered before it ends, and its connection is ended: %s",
    async (_, head, status) => {
      await using node = await startFakeNode({ token: TOKEN });
      const chunk = `10000\r\n${"x".repeat(0x10000)}\r\n`;
      let timer: NodeJS.Timeout | undefined;
      const text = await exchange(
        node,
        `POST /v1/claim HTTP/1.1\r\n${head}Transfer-Encoding: chunked\r\n\r\n`,
        (write) => {
          timer = setInterval(() => write(chunk), 1);
        },
      );
      clearInterval(timer);
      expect(statuses(text)).toEqual([status]);
    },
    20_000,
  );
});

describe("pipelined requests", () => {
  const plain = `GET /healthz HTTP/1.1\r\n${HEAD}\r\n`;
  const upgrade = `GET /healthz HTTP/1.1\r\n${HEAD}${UPGRADE}\r\n`;
  const slow = `GET /metrics HTTP/1.1\r\n${HEAD}\r\n`;
  const last = `GET /v1/peers HTTP/1.1\r\n${HEAD}Connection: close\r\n\r\n`;
  test.each([
    ["many", plain.repeat(50), 50],
    ["many that ask for other upgrades", upgrade.repeat(30), 30],
    ["both, and some that take longer", (slow + upgrade + plain).repeat(10), 30],
  ])("are all answered, in their order: %s", async (_, requests, count) => {
    await using node = await startFakeNode({ token: TOKEN });
    const text = await exchange(node, requests + last);
    expect(statuses(text)).toEqual(Array.from({ length: count + 1 }, () => "200"));
    expect(text).toMatch(/"peers":\[\]\}\n$/);
  });

  const claim = (rest = ""): string => {
    const body = '{"template":"base","net":"none","size":"small"}';
    return `POST /v1/claim HTTP/1.1\r\n${HEAD}${rest}Content-Length: ${body.length}\r\n\r\n${body}`;
  };
  const closing = claim("Connection: close\r\n");
  const broken = `POST /v1/claim HTTP/1.1\r\n${HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n`;
  test.each([
    ["another one behind a closing one", closing + claim(), ["200"]],
    ["garbage behind a closing one", `${closing}\0\x01`, ["200"]],
    ["garbage", `${claim()}\0\x01`, ["200", "400"]],
    ["garbage behind several", `${claim() + claim()}\0\x01`, ["200", "200", "400"]],
    ["a head that is too large", `${claim()}GET /${"x".repeat(40_000)}`, ["200", "431"]],
    ["a second body that breaks", claim() + broken, ["200", "400"]],
    ["a body that breaks", broken, ["400"]],
  ])("a claim that was carried out is answered as that, whatever stands behind it: %s", async (_, bytes, answers) => {
    await using node = await startFakeNode({ token: TOKEN });
    expect(statuses(await exchange(node, bytes))).toEqual(answers);
  });

  test("an upgrade waits for the answers before it", async () => {
    await using node = await startFakeNode({ token: TOKEN });
    const { id, token } = await node.api.claim();
    const relay = `GET /v1/sandboxes/${id}/ports/9 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\n`;
    const text = await exchange(node, `POST /v1/sandboxes/${id}/hibernate HTTP/1.1\r\n${HEAD}\r\n${relay}`);
    expect(statuses(text)).toEqual(["204", "502"]);
  });
});
