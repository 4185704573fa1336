import assert from "node:assert/strict";
import { connect, constants } from "node:http2";
import type { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

import type { HostileRig } from "../../src/hostile-rig.ts";
import { waitFor } from "../../src/polling.ts";
import { each, open, upTo } from "../../src/raw-talk.ts";
import { type HostileContext, type HostileRow, rigRow, times } from "./context.ts";

const AT_ONCE = 32;
const FIRST_BLOCK_MS = 20;
const DOWNLOAD_BYTES = 100 * 1024 * 1024;
/** What is said of every close is a second; a machine with other work gets some more. */
const CLOSE_MS = 1_000;
const SLOWEST_CLOSE_MS = 5_000;

/** Clients that ask and leave, ten thousand of them. */
export function hangupRows(context: HostileContext): readonly HostileRow[] {
  const many = times(context, 10_000, 250);
  const some = times(context, 2_000, 100);
  const few = times(context, 600, 60);
  return [
    rigRow(
      context,
      "H40",
      `${many} clients read the head of a download of 100 MB and hang up: the guest sees each close within 1 s, nothing stays`,
      (rig) => downloads(rig, many, (index) => leaveHttp1(rig, index)),
    ),
    rigRow(
      context,
      "H41",
      `${some} streams of HTTP/2 read the head of a download of 100 MB and cancel: the same`,
      (rig) => downloads(rig, some, cancelHttp2(rig)),
    ),
    rigRow(context, "H42", `${many} clients of the control plane leave before, in and behind the answer`, (rig) =>
      control(rig, many),
    ),
    rigRow(context, "H43", `${few} uploads end in the middle, by their clients or by their guests`, (rig) =>
      uploads(rig, few),
    ),
    rigRow(
      context,
      "H44",
      `${some} streams are cut by the guest, with FIN and RST: each client is told within 1 s`,
      (rig) => cuts(rig, some),
    ),
  ];
}

async function downloads(rig: HostileRig, count: number, leave: (index: number) => Promise<number>): Promise<void> {
  const block = Buffer.alloc(64 * 1024, 7);
  const left = new Map<string, number>();
  const lasted: number[] = [];
  let seen = 0;
  rig.guest.on("download", {
    onEnd: (request, { socket, gone }) => {
      seen += 1;
      let sent = block.length;
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${DOWNLOAD_BYTES}\r\n\r\n`);
      const more = (): void => {
        while (sent < DOWNLOAD_BYTES && !socket.destroyed) {
          sent += block.length;
          if (!socket.write(block)) {
            return;
          }
        }
      };
      // Most have left by ending: without the wait, buffers of the system would take megabytes for each of them.
      socket.write(block);
      setTimeout(() => {
        socket.on("drain", more);
        more();
      }, FIRST_BLOCK_MS);
      const closed = (at: number): void => {
        const id = request.target.split("/")[2] ?? "";
        const since = left.get(id);
        left.delete(id);
        if (since !== undefined) {
          lasted.push(at - since);
        }
        socket.destroy();
      };
      void gone.then(closed);
    },
  });
  // A round that leaves memory behind is gone through once more.
  let asked = 0;
  const once = async (index: number): Promise<void> => {
    asked += 1;
    left.set(String(index), await leave(index));
  };
  rig.guest.recording = false;
  try {
    await rig.flat(
      () => each(upTo(100), AT_ONCE, once),
      () => each(upTo(count), AT_ONCE, (index) => once(1_000 + index)),
    );
  } finally {
    rig.guest.recording = true;
  }
  assert.equal(seen, asked, "downloads that the guest began");
  lasted.sort((a, b) => a - b);
  // Closes that came before the client had noted its own are none of these.
  const most = lasted[Math.floor(lasted.length * 0.99)] ?? 0;
  assert.ok(most < CLOSE_MS, `the guest saw one close in a hundred later than after ${Math.round(most)} ms`);
  const slowest = lasted.at(-1) ?? 0;
  assert.ok(slowest < SLOWEST_CLOSE_MS, `the guest saw a close after ${Math.round(slowest)} ms`);
}

/** Reads a head over HTTP/1.1 and hangs up. Answers when. */
async function leaveHttp1(rig: HostileRig, index: number): Promise<number> {
  const socket = await open(rig.proxyPort);
  socket.write(`GET /download/${index} HTTP/1.1\r\nHost: ${rig.host()}\r\n\r\n`);
  await headOf(socket);
  if (index % 2 === 0) {
    socket.resetAndDestroy();
  } else {
    socket.destroy();
  }
  return performance.now();
}

function headOf(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once("data", (bytes: Buffer) => {
      socket.pause();
      if (bytes.toString("latin1", 0, 12) === "HTTP/1.1 200") {
        resolve();
      } else {
        reject(new Error(`the answer begins with ${JSON.stringify(bytes.toString("latin1", 0, 200))}`));
      }
    });
    socket.once("close", () => reject(new Error("closed without an answer")));
  });
}

function cancelHttp2(rig: HostileRig): (index: number) => Promise<number> {
  return async (index) => {
    const session = connect(rig.front.facts.proxyUrl);
    session.on("error", () => undefined);
    const stream = session.request({ ":path": `/download/${index}`, ":authority": rig.host() });
    stream.on("error", () => undefined);
    const status = await new Promise<unknown>((resolve) => {
      stream.once("response", (headers) => resolve(headers[":status"]));
      stream.once("close", () => resolve("closed"));
    });
    assert.equal(status, 200);
    if (index % 2 === 0) {
      stream.close(constants.NGHTTP2_CANCEL);
      await new Promise<void>((resolve) => stream.once("close", () => resolve()));
      setTimeout(() => session.destroy(), 20);
    } else {
      session.destroy();
    }
    return performance.now();
  };
}

async function control(rig: HostileRig, count: number): Promise<void> {
  const { keys } = rig.front.facts;
  const head = `Host: x\r\nX-API-Key: ${keys.one}\r\n`;
  const requests = [
    `GET /v2/sandboxes HTTP/1.1\r\n${head}\r\n`,
    `GET /v2/sandboxes HTTP/1.1\r\n${head}`,
    `GET /sandboxes/${rig.sandbox.sandboxID} HTTP/1.1\r\n${head}\r\n`,
    `POST /sandboxes/${rig.sandbox.sandboxID}/timeout HTTP/1.1\r\n${head}Content-Type: application/json\r\nContent-Length: 400\r\n\r\n{"time`,
    `POST /sandboxes/${rig.sandbox.sandboxID}/timeout HTTP/1.1\r\n${head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"t`,
    `GET /templates HTTP/1.1\r\n${head}\r\n`,
  ];
  const once = async (index: number): Promise<void> => {
    const socket = await open(rig.apiPort);
    socket.write(requests[index % requests.length] ?? "");
    if (index % 4 > 1) {
      await Promise.race([new Promise((resolve) => socket.once("data", resolve)), delay(30)]);
    }
    if (index % 2 === 0) {
      socket.resetAndDestroy();
    } else {
      socket.destroy();
    }
  };
  await rig.flat(
    () => each(upTo(500), AT_ONCE, once),
    () => each(upTo(count), AT_ONCE, once),
  );
}

async function uploads(rig: HostileRig, count: number): Promise<void> {
  rig.guest.on("upload", {
    onHead: (request, { socket }) => {
      const how = request.target.split("/")[2];
      if (how === "answer") {
        socket.write("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n");
        setTimeout(() => socket.destroy(), 20);
      } else if (how === "reset") {
        setTimeout(() => socket.resetAndDestroy(), 5);
      }
    },
  });
  const block = Buffer.alloc(32 * 1024, 1);
  const once = async (index: number): Promise<void> => {
    const how = ["client", "answer", "reset"][index % 3] ?? "";
    const socket = await open(rig.proxyPort);
    const framing = index % 2 === 0 ? "Content-Length: 100000000" : "Transfer-Encoding: chunked";
    socket.write(`POST /upload/${how} HTTP/1.1\r\nHost: ${rig.host()}\r\n${framing}\r\n\r\n`);
    if (index % 2 === 1) {
      socket.write("5f5e100\r\n");
    }
    socket.write(block);
    socket.resume();
    if (how === "client") {
      await delay(10);
    } else {
      await Promise.race([new Promise((resolve) => socket.once("close", resolve)), delay(3_000)]);
    }
    socket.destroy();
  };
  rig.guest.recording = false;
  try {
    await rig.flat(
      () => each(upTo(60), AT_ONCE, once),
      () => each(upTo(count), AT_ONCE, once),
    );
  } finally {
    rig.guest.recording = true;
  }
}

async function cuts(rig: HostileRig, count: number): Promise<void> {
  const cutAt = new Map<string, number>();
  rig.guest.on("cut", {
    onEnd: (request, { socket }) => {
      const [, , how, id = ""] = request.target.split("/");
      socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
      setTimeout(() => {
        cutAt.set(id, performance.now());
        if (how === "fin") {
          socket.end();
        } else {
          socket.resetAndDestroy();
        }
      }, 10);
    },
  });
  const told: number[] = [];
  const once = async (index: number): Promise<void> => {
    const how = index % 2 === 0 ? "fin" : "rst";
    const socket = await open(rig.proxyPort);
    socket.write(`GET /cut/${how}/${index} HTTP/1.1\r\nHost: ${rig.host()}\r\n\r\n`);
    let text = "";
    socket.on("data", (bytes: Buffer) => (text += bytes.toString("latin1")));
    await Promise.race([new Promise((resolve) => socket.once("close", resolve).once("end", resolve)), delay(8_000)]);
    told.push(performance.now() - (cutAt.get(String(index)) ?? 0));
    assert.ok(!text.includes("\r\n0\r\n"), `a stream that was cut with ${how} looks complete`);
    socket.destroy();
  };
  await rig.flat(
    () => each(upTo(60), AT_ONCE, once),
    () => each(upTo(count), AT_ONCE, (index) => once(1_000 + index)),
  );
  told.sort((a, b) => a - b);
  const most = told[Math.floor(told.length * 0.99)] ?? 0;
  assert.ok(most < CLOSE_MS, `one client in a hundred was told later than after ${Math.round(most)} ms`);
  await waitFor("an end of the guest's connections", () => rig.guest.open < 8, 5_000);
}
