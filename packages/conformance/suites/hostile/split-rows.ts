import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import type { HostileRig } from "../../src/hostile-rig.ts";
import { waitFor } from "../../src/polling.ts";
import { answersIn, bytewise, each, open, talk, upTo } from "../../src/raw-talk.ts";
import type { Echo } from "../../src/scripted-guest.ts";
import { type HostileContext, type HostileRow, rigRow } from "./context.ts";
import { clientFrame, SPLIT_ANSWERS, splitMessages } from "./split-messages.ts";

const AT_ONCE = 24;
const CUT_PAUSE_MS = 3;

/** Messages that come one byte at a time, in two pieces cut at every byte, or not to their end. */
export function splitRows(context: HostileContext): readonly HostileRow[] {
  const stride = context.brief ? 17 : 1;
  return [
    rigRow(
      context,
      "H20",
      "requests, chunked bodies and Connect envelopes byte by byte and cut at every byte arrive as they were written",
      (rig) => splitRequests(rig, stride),
      true,
    ),
    rigRow(context, "H21", "answers byte by byte and cut at every byte arrive as they were written", (rig) =>
      splitAnswers(rig, stride),
    ),
    rigRow(
      context,
      "H22",
      "clients that leave at every byte of a request, closing or resetting: no guest takes a part for the whole, no relay stays",
      (rig) => brokenRequests(rig, stride),
    ),
    rigRow(
      context,
      "H23",
      "guests that leave at every byte of an answer: no client takes a part for the whole",
      (rig) => brokenAnswers(rig, stride),
    ),
    rigRow(context, "H24", "WebSocket frames byte by byte and cut at every byte, either way", (rig) =>
      splitFrames(rig, stride),
    ),
    rigRow(
      context,
      "H25",
      "WebSockets that break at every byte, by either side and in either way: the other side ends within 1 s",
      (rig) => brokenFrames(rig, stride),
    ),
  ];
}

/** A message whole in bytes of its own, and in two pieces with the cut at every `stride`th byte. */
function* splittings(bytes: Buffer, stride: number): Generator<readonly Buffer[]> {
  yield bytewise(bytes);
  for (let cut = 1; cut < bytes.length; cut += stride) {
    yield [bytes.subarray(0, cut), bytes.subarray(cut)];
  }
}

async function splitRequests(rig: HostileRig, stride: number): Promise<void> {
  for (const kind of [0, 1, 2, 3]) {
    const whole = splitMessages(rig, "split")[kind];
    assert.ok(whole !== undefined);
    let wanted: string | undefined;
    await each([[whole.bytes], ...splittings(whole.bytes, stride)], AT_ONCE, async (pieces) => {
      const { bytes } = await talk(rig.proxyPort, pieces, { pauseMs: pieces.length === 2 ? CUT_PAUSE_MS : 0 });
      const where = `${whole.name} in ${pieces.length} pieces, the first of ${pieces[0]?.length}`;
      const [answer] = answersIn(bytes);
      assert.equal(answer?.status, 200, `${where}: ${bytes.toString("latin1").slice(0, 200)}`);
      const seen = JSON.parse(answer.body.toString()) as Echo;
      assert.equal(seen.body, whole.body, where);
      wanted ??= answer.body.toString();
      assert.equal(answer.body.toString(), wanted, where);
    });
  }
}

async function splitAnswers(rig: HostileRig, stride: number): Promise<void> {
  for (const { name, bytes: whole, body } of SPLIT_ANSWERS) {
    const cuts = [...splittings(whole, stride)];
    rig.guest.on("pieces", {
      onEnd: (request, { socket }) => {
        void (async () => {
          for (const piece of cuts[Number(request.target.split("/")[2])] ?? []) {
            socket.write(piece);
            await (cuts[0]?.includes(piece) === true ? new Promise((next) => setImmediate(next)) : delay(CUT_PAUSE_MS));
          }
        })();
      },
    });
    await each(cuts.keys(), AT_ONCE, async (index) => {
      const request = `GET /pieces/${index} HTTP/1.1\r\nHost: ${rig.host()}\r\nConnection: close\r\n\r\n`;
      const { bytes } = await talk(rig.proxyPort, [Buffer.from(request)]);
      const [answer] = answersIn(bytes);
      assert.equal(answer?.status, 200, `${name}, cut ${index}`);
      assert.ok(answer.complete && answer.body.toString() === body, `${name}, cut ${index}: ${answer.body.toString()}`);
    });
  }
}

async function brokenRequests(rig: HostileRig, stride: number): Promise<void> {
  await rig.flat(
    () => each(upTo(40), AT_ONCE, () => rig.echo().then(() => undefined)),
    async () => {
      for (const ending of ["fin", "reset"] as const) {
        for (const kind of [0, 1, 2, 3]) {
          const length = splitMessages(rig, "x")[kind]?.bytes.length ?? 0;
          const cuts = Array.from({ length: Math.floor((length - 1) / stride) }, (_cut, index) => 1 + index * stride);
          await each(cuts, AT_ONCE, async (cut) => {
            const tag = `left-${ending}-${kind}-${cut}-`;
            const one = splitMessages(rig, tag)[kind];
            assert.ok(one !== undefined);
            await talk(rig.proxyPort, [one.bytes.subarray(0, cut)], { ending, limitMs: 4_000 });
            const seen = rig.guest.seen(`/${tag}`);
            assert.ok(
              !seen.some((request) => request.complete),
              `${one.name} cut at ${cut} reached the guest as a whole`,
            );
          });
        }
      }
    },
  );
}

async function brokenAnswers(rig: HostileRig, stride: number): Promise<void> {
  for (const { name, bytes: whole } of SPLIT_ANSWERS) {
    for (const ending of ["end", "reset"] as const) {
      rig.guest.on("broken", {
        onEnd: (request, { socket }) => {
          socket.write(whole.subarray(0, Number(request.target.split("/")[2])), () => {
            if (ending === "end") {
              socket.end();
            } else {
              setTimeout(() => socket.resetAndDestroy(), 5);
            }
          });
        },
      });
      const cuts = Array.from({ length: Math.floor((whole.length - 1) / stride) }, (_cut, index) => 1 + index * stride);
      await each(cuts, AT_ONCE, async (cut) => {
        const request = `GET /broken/${cut} HTTP/1.1\r\nHost: ${rig.host()}\r\nConnection: close\r\n\r\n`;
        const { bytes, end, ms } = await talk(rig.proxyPort, [Buffer.from(request)]);
        const where = `${name} cut at ${cut}, then ${ending}`;
        assert.notEqual(end, "open", `${where}: the client still waits after ${ms} ms`);
        const [answer] = answersIn(bytes, end === "fin");
        assert.ok(answer?.status === 502 || answer?.complete !== true, `${where}: the client took it for complete`);
      });
    }
  }
}

const HANDSHAKE = (rig: HostileRig, path: string): string =>
  `GET ${path} HTTP/1.1\r\nHost: ${rig.host()}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`;
const SWITCH =
  "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

async function splitFrames(rig: HostileRig, stride: number): Promise<void> {
  // The guest's side returns what it gets, so each byte crosses twice.
  rig.guest.on("frames", {
    onHead: (_request, connection) => {
      connection.socket.write(SWITCH);
      connection.take((bytes) => connection.socket.write(bytes));
      connection.socket.once("end", () => connection.socket.end());
    },
  });
  const frames = Buffer.concat([
    clientFrame(Buffer.from("hello")),
    clientFrame(Buffer.alloc(0), 9),
    clientFrame(Buffer.alloc(60, 7)),
  ]);
  const whole = Buffer.concat([Buffer.from(HANDSHAKE(rig, "/frames")), frames]);
  await each(splittings(whole, stride), AT_ONCE, async (pieces) => {
    const { bytes } = await talk(rig.proxyPort, pieces, {
      pauseMs: pieces.length === 2 ? CUT_PAUSE_MS : 0,
      enough: (seen) => seen.length >= SWITCH.length && seen.subarray(-frames.length).equals(frames),
    });
    const [answer] = answersIn(bytes);
    assert.equal(answer?.status, 101);
    assert.ok(answer.body.equals(frames), `frames in ${pieces.length} pieces, the first of ${pieces[0]?.length}`);
  });
}

async function brokenFrames(rig: HostileRig, stride: number): Promise<void> {
  const frame = clientFrame(Buffer.from("hello, world"));
  const lasting: number[] = [];
  rig.guest.on("breaks", {
    onHead: (request, connection) => {
      const [, , who, how, cut] = request.target.split("/");
      const { socket } = connection;
      socket.write(SWITCH);
      connection.take(() => undefined);
      if (who === "guest") {
        socket.write(frame.subarray(0, Number(cut)), () => {
          setTimeout(() => (how === "fin" ? socket.end() : socket.resetAndDestroy()), 5);
        });
      }
      const begun = performance.now();
      const closed = (at: number): void => {
        lasting.push(at - begun);
        socket.end();
      };
      void connection.gone.then(closed);
    },
  });
  const cuts = Array.from({ length: Math.ceil(frame.length / stride) }, (_cut, index) => index * stride);
  await rig.flat(
    async () => undefined,
    async () => {
      for (const who of ["client", "guest"]) {
        for (const how of ["fin", "reset"]) {
          await each(cuts, AT_ONCE, async (cut) => {
            const socket = await open(rig.proxyPort);
            let end = 0;
            const over = new Promise<void>((resolve) => {
              socket.once("end", resolve);
              socket.once("close", () => resolve());
            }).then(() => (end = performance.now()));
            socket.once("end", () => socket.end());
            socket.write(HANDSHAKE(rig, `/breaks/${who}/${how}/${cut}`));
            await new Promise<void>((resolve) => socket.once("data", () => resolve()));
            socket.resume();
            const begun = performance.now();
            if (who === "client") {
              socket.write(frame.subarray(0, cut));
              await delay(2);
              if (how === "fin") {
                socket.end();
              } else {
                socket.resetAndDestroy();
              }
            }
            await Promise.race([over, delay(8_000)]);
            socket.destroy();
            assert.ok(
              end > 0 && end - begun < 2_500,
              `${who} ${how} at ${cut}: the client's side ended after ${end - begun} ms`,
            );
          });
        }
      }
      await waitFor("an end of every connection at the guest", () => lasting.length === cuts.length * 4, 5_000);
      const slowest = Math.max(...lasting);
      assert.ok(slowest < 2_500, `a guest waited ${slowest} ms for the end`);
    },
  );
}
