import { createServer, type Server, type Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { readAll } from "../testing/api.ts";
import { startFakeNode, type FakeNode } from "../testing/fake-node.ts";

const TOKEN = "root-token";

interface Service extends AsyncDisposable {
  readonly port: number;
  readonly sockets: Set<Socket>;
}

async function service(onConnection: (socket: Socket) => void): Promise<Service> {
  const sockets = new Set<Socket>();
  const server: Server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.on("close", () => sockets.delete(socket));
    onConnection(socket);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    port: (server.address() as { port: number }).port,
    sockets,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) {
        socket.destroy();
      }
      server.close();
    },
  };
}

async function claimed(node: FakeNode, port: number) {
  const sandbox = await node.api.claim();
  node.guest(sandbox.id).ports.set(3000, port);
  return sandbox;
}

describe("the relay", () => {
  test("answers exactly the 101 and then only the guest's bytes, pipelined ones delivered", async () => {
    await using echo = await service((socket) => socket.pipe(socket));
    await using node = await startFakeNode({ token: TOKEN });
    const sandbox = await claimed(node, echo.port);
    const { head, socket } = await node.api.relay(sandbox.id, 3000, sandbox.token, { pipelined: "early " });
    expect(head).toBe("HTTP/1.1 101 Switching Protocols\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\n");
    socket.end("and late");
    expect(await readAll(socket)).toBe("early and late");
  });

  test.each([
    ["no bearer", { bearer: "" }, 401, { error: "missing bearer token" }],
    ["no bearer before a missing upgrade", { bearer: "", upgrade: "" }, 401, { error: "missing bearer token" }],
    ["no upgrade", { upgrade: "" }, 426, { error: "upgrade to tcp required" }],
    ["another upgrade", { upgrade: "websocket" }, 426, { error: "upgrade to tcp required" }],
    ["a list of upgrades", { upgrade: "tcp, websocket" }, 426, { error: "upgrade to tcp required" }],
    ["no upgrade before a bad port", { upgrade: "", port: "0" }, 426, { error: "upgrade to tcp required" }],
    ["port 0", { port: "0" }, 400, { error: "port must be 1-65535" }],
    ["port 65536", { port: "65536" }, 400, { error: "port must be 1-65535" }],
    ["a named port", { port: "http" }, 400, { error: "port must be 1-65535" }],
    ["a negative port", { port: "-1" }, 400, { error: "port must be 1-65535" }],
    ["a signed port", { port: "+22" }, 400, { error: "port must be 1-65535" }],
    ["a bad port before a wrong token", { port: "0", bearer: "wrong" }, 400, { error: "port must be 1-65535" }],
    ["a wrong token", { bearer: "wrong" }, 404, { error: "unknown sandbox" }],
    ["a port nobody listens on", { port: "81" }, 502, { error: "guest port unreachable" }],
  ])(
    "refuses %s",
    async (
      _,
      { bearer, upgrade = "tcp", port = "3000" }: { bearer?: string; upgrade?: string; port?: string },
      status,
      body,
    ) => {
      await using node = await startFakeNode({ token: TOKEN });
      const sandbox = await claimed(node, 1);
      const reply = await node.api.relay(sandbox.id, port, bearer ?? sandbox.token, { upgrade });
      expect(reply.status).toBe(status);
      expect(reply.head.includes("\r\nUpgrade: tcp\r\n")).toBe(status === 426);
      reply.socket.end();
      expect(JSON.parse(await readAll(reply.socket))).toEqual(body);
    },
  );

  test("passes each direction's end on alone", async () => {
    await using answering = await service((socket) => {
      let text = "";
      socket.on("data", (chunk: Buffer) => {
        text += chunk.toString();
      });
      socket.on("end", () => socket.end(`got ${text}`));
    });
    await using ending = await service((socket) => {
      socket.end("bye");
    });
    await using node = await startFakeNode({ token: TOKEN });
    const sandbox = await claimed(node, answering.port);
    const first = await node.api.relay(sandbox.id, 3000, sandbox.token);
    first.socket.end("question");
    expect(await readAll(first.socket)).toBe("got question");

    node.guest(sandbox.id).ports.set(3001, ending.port);
    const second = await node.api.relay(sandbox.id, 3001, sandbox.token);
    expect(await readAll(second.socket)).toBe("bye");
    const [guestSide] = ending.sockets;
    const received = readAll(guestSide as Socket);
    second.socket.end("still there");
    expect(await received).toBe("still there");
  });

  test("carries megabytes both ways unchanged", async () => {
    await using echo = await service((socket) => socket.pipe(socket));
    await using node = await startFakeNode({ token: TOKEN });
    const sandbox = await claimed(node, echo.port);
    const { socket } = await node.api.relay(sandbox.id, 3000, sandbox.token);
    const sent = Buffer.alloc(8 * 1024 * 1024, Buffer.from(Array.from({ length: 256 }, (_, index) => index)));
    const back = readAll(socket);
    socket.end(sent);
    expect(Buffer.from(await back, "latin1").equals(sent)).toBe(true);
  });

  test("wakes a paused sandbox once for any number of active dials, and never for passive ones", async () => {
    await using echo = await service((socket) => socket.pipe(socket));
    await using node = await startFakeNode({ token: TOKEN });
    const sandbox = await claimed(node, echo.port);
    const path = `/v1/sandboxes/${sandbox.id}`;
    await node.api.call("POST", `${path}/hibernate`);
    for (const upgrade of ["", "tcp"]) {
      const passive = await node.api.relay(sandbox.id, 3000, upgrade === "" ? sandbox.token : TOKEN, { upgrade });
      expect(passive.status).toBe(upgrade === "" ? 426 : 409);
      passive.socket.destroy();
      expect((await node.api.rows())[0]?.hibernated).toBe(true);
    }
    const active = await Promise.all(Array.from({ length: 20 }, () => node.api.relay(sandbox.id, 3000, sandbox.token)));
    expect(active.map((reply) => reply.status)).toEqual(active.map(() => 101));
    expect((await node.api.rows())[0]?.hibernated).toBe(false);
    expect((await node.api.call("GET", "/metrics")).text).toContain("sandboxd_wakes_total 1\n");
    const passive = await node.api.relay(sandbox.id, 3000, TOKEN);
    expect(passive.status).toBe(101);
    for (const { socket } of [...active, passive]) {
      socket.destroy();
    }
  });

  test("serves dials, wakes and pauses that arrive at the same instant, round after round", async () => {
    await using echo = await service((socket) => socket.pipe(socket));
    await using node = await startFakeNode({ token: TOKEN });
    const sandbox = await claimed(node, echo.port);
    const path = `/v1/sandboxes/${sandbox.id}`;
    for (let round = 0; round < 20; round += 1) {
      const verbs = ["hibernate", "wake", "hibernate"].map((verb) => node.api.call("POST", `${path}/${verb}`));
      const dials = Array.from({ length: 5 }, () => node.api.relay(sandbox.id, 3000, sandbox.token));
      expect((await Promise.all(verbs)).map((reply) => reply.status)).toEqual([204, 204, 204]);
      for (const { status, socket } of await Promise.all(dials)) {
        expect(status).toBe(101);
        socket.on("error", () => undefined).destroy();
      }
    }
  });

  test.each(["hibernate", "release"])("is cut by %s", async (verb) => {
    await using echo = await service((socket) => socket.pipe(socket));
    await using node = await startFakeNode({ token: TOKEN });
    const sandbox = await claimed(node, echo.port);
    const { socket } = await node.api.relay(sandbox.id, 3000, sandbox.token);
    const closed = new Promise((resolve) => {
      socket.once("close", resolve);
    });
    socket.on("error", () => undefined).resume();
    await node.api.call("POST", `/v1/sandboxes/${sandbox.id}/${verb}`);
    socket.on("end", () => socket.end());
    await closed;
  });

  test("survives clients that leave at every step, and keeps none of them", async () => {
    await using echo = await service((socket) => socket.pipe(socket));
    await using node = await startFakeNode({ token: TOKEN });
    const sandbox = await claimed(node, echo.port);
    for (let round = 0; round < 50; round += 1) {
      const { socket } = await node.api.relay(sandbox.id, round % 3 === 0 ? 81 : 3000, sandbox.token, {
        pipelined: "x",
      });
      socket.on("error", () => undefined);
      if (round % 2 === 0) {
        socket.resetAndDestroy();
      } else {
        socket.destroy();
      }
    }
    while (echo.sockets.size > 0) {
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    expect((await node.api.info()).claimed).toBe(1);
  });
});
