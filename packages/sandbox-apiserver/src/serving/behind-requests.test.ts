import type { ServerResponse } from "node:http";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it, vi } from "vitest";
import { http1Server } from "./http1-server.ts";
import { OpenConnections } from "./open-connections.ts";

const HEAD = "Host: x\r\n";
const CLOSE = "Connection: close\r\n";
const GARBAGE = "\0\u0001\u0002 no request at all\r\n\r\n";
const asked = (path: string, headers = ""): string => `GET ${path} HTTP/1.1\r\n${HEAD}${headers}\r\n`;
const posted = (path: string, headers = ""): string =>
  `POST ${path} HTTP/1.1\r\n${HEAD}${headers}Content-Length: 3\r\n\r\nabc`;
const chunked = (path: string): string => `POST ${path} HTTP/1.1\r\n${HEAD}Transfer-Encoding: chunked\r\n\r\n`;
const NEXT = asked("/next");

interface Scene extends AsyncDisposable {
  readonly port: number;
  readonly open: OpenConnections;
  /** Paths of requests that came whole. */
  readonly seen: string[];
  readonly end: () => void;
}

/**
 * A server that takes its time: `/slow` answers after what stands behind it has arrived, `/slower` after a head may have
 * taken too long, `/watch` sends its head at once and the rest later, `/never` does not answer, `/early` before its body.
 */
async function scene(headMs = 60_000): Promise<Scene> {
  const seen: string[] = [];
  const open = new OpenConnections();
  let isEnding = false;
  const { server: inner, announceEnd } = http1Server(
    {
      listener: async (request, outgoing) => {
        const response = outgoing as ServerResponse;
        const path = request.url ?? "";
        if (path === "/early") {
          response.end(path);
          return;
        }
        await text(request);
        seen.push(path);
        if (path === "/watch") {
          response.setHeader("content-length", path.length);
          response.write("/");
        }
        if (path !== "/never") {
          await delay(path === "/slower" ? 800 : 60);
          response.end(path === "/watch" ? path.slice(1) : path);
        }
      },
    },
    open,
    () => isEnding,
    { headMs, requestMs: 60_000, stallMs: 60_000, idleMs: 60_000 },
  );
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    open.addSocket(socket);
    inner.emit("connection", socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    open,
    seen,
    end: () => {
      isEnding = true;
      announceEnd();
    },
    async [Symbol.asyncDispose]() {
      for (const socket of open.sockets) {
        socket.destroy();
      }
      inner.close();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A connection whose errors are of interest to nobody but `errors`. */
function dial(port: number): { readonly socket: Socket; readonly errors: Error[] } {
  const socket = connect(port, "127.0.0.1");
  const errors: Error[] = [];
  socket.on("error", (error) => errors.push(error));
  return { socket, errors };
}

/** Status and body of every answer; a body that is not whole ends in an ellipsis. */
function answersIn(all: string): string[] {
  return all
    .split(/(?=HTTP\/1\.1 \d)/)
    .filter((answer) => answer !== "")
    .map((answer) => {
      const [head = "", body = ""] = answer.split("\r\n\r\n");
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1]);
      return `${head.split(" ")[1]} ${body.startsWith("{") ? "Status" : body}${body.length < length ? "…" : ""}`;
    });
}

describe("what was carried out is answered as what it was, whatever stands behind it", () => {
  it.each<[what: string, bytes: string, answers: string[]]>([
    ["another one behind a closing request", posted("/slow", CLOSE) + NEXT, ["200 /slow"]],
    ["garbage behind a closing request", posted("/slow", CLOSE) + GARBAGE, ["200 /slow"]],
    ["CONNECT behind a closing request", `${posted("/slow", CLOSE)}CONNECT a:1 HTTP/1.1\r\n\r\n`, ["200 /slow"]],
    ["another one behind HTTP/1.0", posted("/slow").replace("HTTP/1.1", "HTTP/1.0") + NEXT, ["200 /slow"]],
    ["another one behind a closing watch", asked("/watch", CLOSE) + NEXT, ["200 /watch"]],
    ["garbage behind a POST", posted("/slow") + GARBAGE, ["200 /slow", "400 Status"]],
    ["garbage behind a GET", asked("/slow") + GARBAGE, ["200 /slow", "400 Status"]],
    ["garbage behind a watch", asked("/watch") + GARBAGE, ["200 /watch", "400 Status"]],
    ["a head that is too large", `${posted("/slow")}GET /${"x".repeat(1 << 20)}`, ["200 /slow", "431 Status"]],
    ["a second body that breaks", `${posted("/slow")}${chunked("/next")}zz\r\n`, ["200 /slow", "400 Status"]],
    ["CONNECT", `${posted("/slow")}CONNECT a:1 HTTP/1.1\r\n\r\n`, ["200 /slow", "405 Status"]],
    ["no host", `${posted("/slow")}GET /next HTTP/1.1\r\n\r\n${NEXT}`, ["200 /slow", "400 Status"]],
    [
      "an expectation",
      `${posted("/slow")}${posted("/next", "Expect: wonders\r\n")}${NEXT}`,
      ["200 /slow", "417 Status"],
    ],
    [
      "another coding",
      `${posted("/slow")}${chunked("/next").replace("chunked", "gzip, chunked")}0\r\n\r\n${NEXT}`,
      ["200 /slow", "501 Status"],
    ],
    [
      "garbage behind several",
      posted("/slow") + asked("/watch") + asked("/quick") + GARBAGE,
      ["200 /slow", "200 /watch", "200 /quick", "400 Status"],
    ],
    [
      "another one behind several of which the last closes",
      posted("/slow") + asked("/watch") + asked("/quick", CLOSE) + NEXT,
      ["200 /slow", "200 /watch", "200 /quick"],
    ],
  ])("%s", async (_what, bytes, answers) => {
    await using run = await scene();
    for (const split of [false, true]) {
      const { socket, errors } = dial(run.port);
      // In two packets, of which the second comes while the first request is served.
      const at = split ? bytes.indexOf("\r\n\r\n") + (bytes.startsWith("GET") ? 4 : 7) : bytes.length;
      socket.write(bytes.slice(0, at), "latin1");
      if (split) {
        await delay(15);
        socket.write(bytes.slice(at), "latin1");
      }
      expect(answersIn(await text(socket))).toEqual(answers);
      expect(errors).toEqual([]);
    }
    expect(run.seen).not.toContain("/next");
  });

  it.each([
    ["an answer that takes longer than it", "/slower", ["200 /slower", "408 Status"]],
    ["a watch", "/watch", ["200 /watch", "408 Status"]],
  ])("half a head, which is given up, behind %s", async (_what, path, answers) => {
    await using run = await scene(300);
    for (const request of [posted(path), asked(path)]) {
      const { socket } = dial(run.port);
      socket.write(`${request}GET /next HTTP/1.1\r\n`);
      expect(answersIn(await text(socket))).toEqual(answers);
    }
  });

  it("others that came before the server began to end", async () => {
    await using run = await scene();
    const { socket } = dial(run.port);
    socket.write(posted("/slow") + posted("/slow"));
    await vi.waitFor(() => expect(run.seen).toHaveLength(2));
    run.end();
    expect(answersIn(await text(socket))).toEqual(["200 /slow", "200 /slow"]);
  });
});

describe("a body that breaks", () => {
  it("is what its own request is refused for", async () => {
    await using run = await scene();
    const { socket } = dial(run.port);
    socket.write(`${chunked("/slow")}3\r\nabc\r\nzz\r\n`);
    expect(answersIn(await text(socket))).toEqual(["400 Status"]);
    expect(run.seen).toEqual([]);
  });

  it("has no second answer when its request was answered before", async () => {
    await using run = await scene();
    const { socket } = dial(run.port);
    socket.write(chunked("/early"));
    await new Promise((resolve) => socket.once("readable", resolve));
    socket.write("zz\r\n");
    expect(answersIn(await text(socket))).toHaveLength(1);
  });
});

it("a refusal arrives although its client still sends", async () => {
  await using run = await scene();
  const { socket, errors } = dial(run.port);
  socket.write(chunked("/next").replace("chunked", "gzip, chunked"));
  const timer = setInterval(() => socket.write(`1000\r\n${"x".repeat(4096)}\r\n`), 1);
  const first = await new Promise((resolve) => socket.once("data", resolve));
  expect(String(first)).toMatch(/^HTTP\/1\.1 501 /);
  await delay(30);
  clearInterval(timer);
  expect(errors).toEqual([]);
  socket.destroy();
});

it.each([
  ["nothing", ""],
  ["garbage", GARBAGE],
  ["CONNECT", "CONNECT a:1 HTTP/1.1\r\n\r\n"],
  ["half a head", "GET /next HTTP/1.1\r\n"],
])("a client that leaves while its requests are served leaves nothing behind: %s", async (_what, rest) => {
  await using run = await scene();
  for (const leave of ["end", "resetAndDestroy"] as const) {
    const { socket } = dial(run.port);
    socket.write(posted("/never") + asked("/never") + rest);
    await vi.waitFor(() => expect(run.seen).toHaveLength(2));
    await delay(15);
    socket[leave]();
    await vi.waitFor(() => expect([run.open.running, run.open.sockets.size]).toEqual([0, 0]));
    run.seen.length = 0;
  }
});
