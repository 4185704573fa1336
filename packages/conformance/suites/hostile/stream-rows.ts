import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { connect } from "node:http2";
import { setTimeout as delay } from "node:timers/promises";

import type { HostileRig } from "../../src/hostile-rig.ts";
import { answersIn, each, open, upTo } from "../../src/raw-talk.ts";
import { type HostileContext, type HostileRow, rigRow } from "./context.ts";

/** A head that never ends is given up after ten seconds; the machine may be busy. */
const HEAD_LIMIT_MS = 10_000;
const LATE_MS = 8_000;
const SILENT_MS = 70_000;
const SLOW_BYTES = 8 << 20;
const SLOW_PER_SECOND = 200_000;
const UPLOAD_PER_SECOND = 50_000;
const UPLOAD_MS = 75_000;

/** Rows that mostly wait: real timers, slow senders and slow readers. They share a rig and run at the same time. */
export function streamRows(context: HostileContext): readonly HostileRow[] {
  // All of them begin with the first one, since together they take no longer than the longest.
  const begun = new Map<string, Promise<void>>();
  const rows: readonly (readonly [id: string, title: string, work: (rig: HostileRig) => Promise<void>])[] = [
    ["H60", "a stream that is silent for 70 s lasts, over HTTP/1.1 and HTTP/2, and its next byte arrives", silent],
    ["H61", "8 MB reach readers that take 200 KB/s, whole: keep-alive and close, HTTP/1.1 and HTTP/2", slowReaders],
    ["H62", "an upload at 50 KB/s that takes longer than any head may arrives whole", slowUpload],
    ["H63", "300 heads that never end are answered 408 after ten seconds, while others are served", slowHeads],
    ["H64", "a head at one byte a second is no way around it, at either surface", drippingHeads],
  ];
  const start = (rig: HostileRig): void => {
    for (const [id, , work] of begun.size === 0 ? rows : []) {
      const running = work(rig);
      running.catch(() => undefined);
      begun.set(id, running);
    }
  };
  return rows.map(([id, title]) =>
    rigRow(context, id, title, async (rig) => {
      start(rig);
      await begun.get(id);
    }),
  );
}

/** Rows about what streams must not wait for. */
export function promptRows(context: HostileContext): readonly HostileRow[] {
  return [
    rigRow(
      context,
      "H65",
      "frames of one byte arrive one by one, and a head before its first byte, over HTTP/1.1 and HTTP/2",
      (rig) => prompt(rig),
    ),
    rigRow(context, "H66", "bodies are not compressed, and what is compressed stays so", (rig) => encodings(rig), true),
  ];
}

async function silent(rig: HostileRig): Promise<void> {
  rig.guest.on("silent", {
    onEnd: (_request, { socket }) => {
      socket.write(
        "HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
      );
      setTimeout(() => socket.write("1\r\nb\r\n0\r\n\r\n"), SILENT_MS);
    },
  });
  const [first, second] = await Promise.all([overHttp1(rig, "/silent"), overHttp2(rig, "/silent")]);
  for (const [protocol, stream] of [
    ["HTTP/1.1", first],
    ["HTTP/2", second],
  ] as const) {
    assert.deepEqual([stream.status, stream.body.toString(), stream.complete], [200, "ab", true], protocol);
    assert.ok(stream.ms >= SILENT_MS, `${protocol}: it took ${stream.ms} ms`);
  }
}

interface Streamed {
  readonly status: number;
  readonly body: Buffer;
  readonly complete: boolean;
  readonly ms: number;
}

/** Reads an answer, at so many bytes a second when that is given. */
async function overHttp1(rig: HostileRig, path: string, perSecond = 0, close = true): Promise<Streamed> {
  const begun = performance.now();
  const socket = await open(rig.proxyPort);
  socket.write(`GET ${path} HTTP/1.1\r\nHost: ${rig.host()}\r\n${close ? "Connection: close\r\n" : ""}\r\n`);
  const chunks: Buffer[] = [];
  let length = 0;
  const timer = perSecond === 0 ? undefined : setInterval(() => socket.resume(), 100);
  await new Promise<void>((resolve) => {
    let budget = perSecond / 10;
    socket.on("data", (bytes: Buffer) => {
      chunks.push(bytes);
      length += bytes.length;
      budget -= bytes.length;
      if (perSecond > 0 && budget <= 0) {
        budget += perSecond / 10;
        socket.pause();
      }
      if (!close && length >= SLOW_BYTES && answersIn(Buffer.concat(chunks), false)[0]?.complete === true) {
        resolve();
      }
    });
    socket.once("close", resolve);
    socket.once("end", resolve);
  });
  clearInterval(timer);
  socket.destroy();
  const [answer] = answersIn(Buffer.concat(chunks));
  return {
    status: answer?.status ?? 0,
    body: answer?.body ?? Buffer.alloc(0),
    complete: answer?.complete === true,
    ms: performance.now() - begun,
  };
}

async function overHttp2(rig: HostileRig, path: string, perSecond = 0): Promise<Streamed> {
  const begun = performance.now();
  const session = connect(rig.front.facts.proxyUrl);
  session.on("error", () => undefined);
  const stream = session.request({ ":path": path, ":authority": rig.host() });
  const chunks: Buffer[] = [];
  let status = 0;
  stream.on("response", (headers) => (status = Number(headers[":status"])));
  stream.on("error", () => undefined);
  let budget = perSecond / 10;
  const timer = perSecond === 0 ? undefined : setInterval(() => stream.resume(), 100);
  stream.on("data", (bytes: Buffer) => {
    chunks.push(bytes);
    budget -= bytes.length;
    if (perSecond > 0 && budget <= 0) {
      budget += perSecond / 10;
      stream.pause();
    }
  });
  let ended = false;
  stream.once("end", () => (ended = true));
  await new Promise<void>((resolve) => stream.once("close", () => resolve()));
  clearInterval(timer);
  session.destroy();
  return {
    status,
    body: Buffer.concat(chunks),
    complete: ended && stream.rstCode === 0,
    ms: performance.now() - begun,
  };
}

async function slowReaders(rig: HostileRig): Promise<void> {
  const data = randomBytes(SLOW_BYTES);
  const wanted = createHash("sha256").update(data).digest("hex");
  rig.guest.on("slow", {
    onEnd: (request, { socket }) => {
      const framing = request.target.endsWith("close") ? "Connection: close" : `Content-Length: ${data.length}`;
      socket.write(`HTTP/1.1 200 OK\r\n${framing}\r\n\r\n`);
      socket.write(data);
      if (request.target.endsWith("close")) {
        socket.end();
      }
    },
  });
  const readers: readonly (readonly [name: string, read: Promise<Streamed>])[] = [
    ["keep-alive", overHttp1(rig, "/slow/length", SLOW_PER_SECOND, false)],
    ["close", overHttp1(rig, "/slow/length", SLOW_PER_SECOND, true)],
    ["close, and no length", overHttp1(rig, "/slow/close", SLOW_PER_SECOND, true)],
    ["HTTP/2", overHttp2(rig, "/slow/length", SLOW_PER_SECOND)],
    ["HTTP/2, and no length", overHttp2(rig, "/slow/close", SLOW_PER_SECOND)],
  ];
  for (const [name, read] of readers) {
    const { status, body, complete } = await read;
    assert.equal(status, 200, name);
    assert.equal(body.length, data.length, `${name}: bytes`);
    assert.equal(createHash("sha256").update(body).digest("hex"), wanted, `${name}: sha256`);
    assert.ok(complete, `${name}: broken off`);
  }
}

async function slowUpload(rig: HostileRig): Promise<void> {
  const socket = await open(rig.proxyPort);
  const total = (UPLOAD_PER_SECOND * UPLOAD_MS) / 1_000;
  const data = randomBytes(total);
  rig.guest.on("upload", {
    onEnd: (request, { socket: guest }) => {
      const sum = createHash("sha256").update(request.body).digest("hex");
      guest.write(`HTTP/1.1 200 OK\r\nContent-Length: ${sum.length}\r\n\r\n${sum}`);
    },
  });
  const chunks: Buffer[] = [];
  socket.on("data", (bytes: Buffer) => chunks.push(bytes));
  socket.write(`PUT /upload HTTP/1.1\r\nHost: ${rig.host()}\r\nConnection: close\r\nContent-Length: ${total}\r\n\r\n`);
  for (let at = 0; at < total; at += UPLOAD_PER_SECOND / 10) {
    assert.ok(chunks.length === 0 && !socket.destroyed, `ended after ${at} bytes: ${Buffer.concat(chunks).toString()}`);
    socket.write(data.subarray(at, at + UPLOAD_PER_SECOND / 10));
    await delay(100);
  }
  await Promise.race([new Promise((resolve) => socket.once("end", resolve)), delay(10_000)]);
  socket.destroy();
  const [answer] = answersIn(Buffer.concat(chunks));
  assert.equal(answer?.body.toString(), createHash("sha256").update(data).digest("hex"));
}

async function slowHeads(rig: HostileRig): Promise<void> {
  const ends: number[] = [];
  const statuses = new Map<number, number>();
  const half = [
    { port: rig.proxyPort, bytes: `GET /x HTTP/1.1\r\nHost: ${rig.host()}\r\nX: ` },
    { port: rig.proxyPort, bytes: "G" },
    { port: rig.proxyPort, bytes: "PRI * HTTP/2" },
    { port: rig.proxyPort, bytes: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" },
    { port: rig.proxyPort, bytes: "" },
    { port: rig.apiPort, bytes: "GET /health HTTP/1.1\r\nHost: x\r\nX: " },
  ];
  const waiting = each(upTo(300), 300, async (index) => {
    const { port, bytes } = half[index % half.length] ?? { port: 0, bytes: "" };
    const begun = performance.now();
    const socket = await open(port);
    let text = "";
    socket.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
    socket.write(bytes);
    await Promise.race([
      new Promise((resolve) => socket.once("end", resolve).once("close", resolve)),
      delay(HEAD_LIMIT_MS + LATE_MS),
    ]);
    socket.destroy();
    ends.push(performance.now() - begun);
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0);
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
  });
  for (let served = 0; served < 8; served += 1) {
    await delay(1_000);
    await rig.echo("/meanwhile");
  }
  await waiting;
  // What has not sent a byte of a request is closed without an answer, or kept by the control plane's own limit.
  assert.ok(
    [...statuses.keys()].every((status) => [0, 408].includes(status)),
    `statuses ${[...statuses].join(" ")}`,
  );
  assert.ok((statuses.get(408) ?? 0) >= 100, `408s: ${statuses.get(408)}`);
  assert.ok(Math.max(...ends) < HEAD_LIMIT_MS + LATE_MS, `the last one lasted ${Math.max(...ends)} ms`);
}

async function drippingHeads(rig: HostileRig): Promise<void> {
  for (const port of [rig.proxyPort, rig.apiPort]) {
    const socket = await open(port);
    const begun = performance.now();
    const seen = { end: false };
    socket.once("end", () => (seen.end = true));
    socket.once("close", () => (seen.end = true));
    socket.resume();
    socket.write("GET / HTTP/1.1\r\n");
    while (!seen.end && performance.now() - begun < HEAD_LIMIT_MS + LATE_MS) {
      socket.write("X");
      await delay(1_000);
    }
    socket.destroy();
    assert.ok(seen.end, `a dripping head lasts at port ${port}`);
  }
}

async function prompt(rig: HostileRig): Promise<void> {
  const steps = 40;
  const everyMs = 25;
  const sent: number[] = [];
  rig.guest.on("drops", {
    onEnd: (_request, { socket }) => {
      sent.length = 0;
      socket.write("HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\nTransfer-Encoding: chunked\r\n\r\n");
      void (async () => {
        for (let step = 0; step < steps; step += 1) {
          await delay(step === 0 ? 300 : everyMs);
          sent.push(performance.now());
          socket.write("1\r\nx\r\n");
        }
        socket.write("0\r\n\r\n");
      })();
    },
  });
  const judge = (name: string, headAt: number, seen: readonly number[]): void => {
    assert.equal(seen.length, steps, `${name}: bytes`);
    assert.ok(headAt < (sent[0] ?? 0), `${name}: the head came with the first byte`);
    const late = seen.map((at, index) => at - (sent[index] ?? 0)).toSorted((a, b) => a - b);
    const median = late[steps >> 1] ?? 0;
    assert.ok(median < 50, `${name}: half of the bytes took more than ${median.toFixed(0)} ms`);
  };
  const socket = await open(rig.proxyPort);
  socket.write(`GET /drops HTTP/1.1\r\nHost: ${rig.host()}\r\nConnection: close\r\n\r\n`);
  let headAt = 0;
  let all: Buffer = Buffer.alloc(0);
  const seen: number[] = [];
  await new Promise<void>((resolve) => {
    socket.on("data", (bytes: Buffer) => {
      headAt ||= performance.now();
      all = Buffer.concat([all, bytes]);
      const come = answersIn(all, false)[0]?.body.length ?? 0;
      while (seen.length < come) {
        seen.push(performance.now());
      }
    });
    socket.once("end", resolve);
  });
  socket.destroy();
  judge("HTTP/1.1", headAt, seen);

  const session = connect(rig.front.facts.proxyUrl);
  const stream = session.request({ ":path": "/drops", ":authority": rig.host() });
  const seen2: number[] = [];
  let headAt2 = 0;
  stream.once("response", (headers) => {
    headAt2 = performance.now();
    assert.equal(headers["x-accel-buffering"], "no", "a stream is not marked for balancers that buffer");
  });
  stream.on("data", (bytes: Buffer) => seen2.push(...Array.from(bytes, () => performance.now())));
  await new Promise<void>((resolve) => stream.once("close", () => resolve()));
  session.destroy();
  judge("HTTP/2", headAt2, seen2);
}

async function encodings(rig: HostileRig): Promise<void> {
  const text = "x".repeat(20_000);
  const gzip = Buffer.from("1f8b0800000000000003abe0020032c4f1dd02000000", "hex");
  rig.guest.on("encoded", {
    onEnd: (request, { socket }) => {
      const packed = request.target.endsWith("gzip");
      const body = packed ? gzip : Buffer.from(text);
      const coding = packed ? "Content-Encoding: gzip\r\n" : "";
      socket.write(
        `HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\n${coding}Content-Length: ${body.length}\r\n\r\n`,
      );
      socket.write(body);
    },
  });
  for (const accept of ["gzip, deflate, br, zstd", "identity", ""]) {
    for (const kind of ["gzip", "plain"]) {
      const socket = await open(rig.proxyPort);
      const line = accept === "" ? "" : `Accept-Encoding: ${accept}\r\n`;
      socket.write(`GET /encoded/${kind} HTTP/1.1\r\nHost: ${rig.host()}\r\n${line}Connection: close\r\n\r\n`);
      const chunks: Buffer[] = [];
      socket.on("data", (bytes: Buffer) => chunks.push(bytes));
      await new Promise((resolve) => socket.once("end", resolve));
      socket.destroy();
      const [answer] = answersIn(Buffer.concat(chunks));
      assert.equal(
        answer?.headers.get("content-encoding"),
        kind === "gzip" ? "gzip" : undefined,
        `${kind} for ${accept}`,
      );
      assert.ok(answer?.body.equals(kind === "gzip" ? gzip : Buffer.from(text)), `${kind} for ${accept}: the body`);
      const [request] = rig.guest.seen(`/encoded/${kind}`).slice(-1);
      const asked = request?.headers.find((_value, index, all) => all[index - 1]?.toLowerCase() === "accept-encoding");
      assert.equal(asked ?? "", accept, "what the guest was asked to do");
    }
  }
}
