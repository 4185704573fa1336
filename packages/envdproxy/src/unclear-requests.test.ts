import { expect, it } from "vitest";
import { DOMAIN, httpGuest, parseAnswer, rawClient, startProxy } from "./testing/fixtures.ts";
import { ScriptedStore } from "./testing/scripted-store.ts";

const HEAD = `Host: 49983-sb-a.${DOMAIN}\r\nX-Access-Token: token-of-sb_a\r\n`;

it.each([
  ["chunked in HTTP/1.0", "HTTP/1.0", "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n", 400],
  ["a version that is not spoken in this way", "HTTP/2.0", "Content-Length: 0\r\n", 400],
  ["a coding nobody here decodes", "HTTP/1.1", "Transfer-Encoding: gzip, chunked\r\n", 501],
  ["two hosts", "HTTP/1.1", "Host: elsewhere\r\nContent-Length: 0\r\n", 400],
])(
  "a request with %s is refused, and what stands behind it is not passed on",
  async (_what, version, framing, status) => {
    const seen: string[] = [];
    await using guest = await httpGuest((request, response) => {
      seen.push(request.url ?? "");
      response.end();
    });
    const store = new ScriptedStore();
    store.put("sb_a", { ports: { 49983: guest.port } });
    await using proxy = await startProxy({ store });
    const body = framing.includes("Transfer") ? "0\r\n\r\n" : "";
    using client = rawClient(
      proxy.port,
      `POST /first ${version}\r\n${HEAD}${framing}\r\n${body}GET /second HTTP/1.1\r\n${HEAD}\r\n`,
    );
    const { text } = await client.ended();
    expect(parseAnswer(text).status).toBe(status);
    expect(text.match(/HTTP\/1\.1 /g)).toHaveLength(1);
    expect(store.count("dial")).toBe(0);
    expect(seen).toEqual([]);
  },
);
