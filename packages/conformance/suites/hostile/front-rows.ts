import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";

import { callApi, expectError } from "../../src/api.ts";
import { HostileRig } from "../../src/hostile-rig.ts";
import { type Nginx, startNginx } from "../../src/nginx.ts";
import { answered, answersIn, open, talk } from "../../src/raw-talk.ts";
import { fieldOf } from "../../src/strict-request.ts";
import { type HostileContext, type HostileRow, rigRow } from "./context.ts";

const EVENTS = 20;
const FIRST_EVENT_MS = 100;
const TRIES = 3;
const HASTY_CLOCK = new URL("../../src/hasty-clock.ts", import.meta.url).href;

/** What stands in front of the data plane, and what it must not be taken for. */
export function frontRows(context: HostileContext): readonly HostileRow[] {
  let nginx: Promise<Nginx> | undefined;
  const fronted = (id: string, title: string, row: (rig: HostileRig, port: number) => Promise<void>): HostileRow =>
    rigRow(context, id, title, async (rig) => {
      nginx ??= startNginx(context.set, rig.files.dir, rig.proxyPort);
      await row(rig, (await nginx).port);
    });
  return [
    fronted(
      "H85",
      "behind nginx as Debian has it every event of a stream arrives before the next is sent, the first in 100 ms",
      (rig, port) => unbuffered(rig, port),
    ),
    fronted(
      "H86",
      "behind nginx other answers and uploads arrive whole, and only streams carry the mark against buffering",
      (rig, port) => whole(rig, port),
    ),
    rigRow(
      context,
      "H87",
      "guests see the host that the client used: absolute redirects lead back; a mask is refused",
      (rig) => hosts(rig),
      true,
    ),
  ];
}

/** Rows on services whose long limits are over after a sixtieth of their time. */
export function hastyRows(context: HostileContext): readonly HostileRow[] {
  return [
    {
      id: "H88",
      title: "a body that takes six minutes of a clock that runs sixty times as fast arrives whole",
      quick: true,
      run: async () => {
        const { set, programs } = context;
        const rig = await HostileRig.start({ set, programs, nodeOptions: `--import=${HASTY_CLOCK}` });
        try {
          await drip(rig, 6_000);
          await rig.judge();
        } finally {
          await rig.close();
        }
      },
    },
  ];
}

/** Sends a body in a piece every 100 ms. */
async function drip(rig: HostileRig, ms: number): Promise<void> {
  const pieces = ms / 100;
  const data = randomBytes(pieces * 100);
  rig.guest.on("drip", {
    onEnd: (request, { socket }) => {
      const sum = createHash("sha256").update(request.body).digest("hex");
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${sum.length}\r\n\r\n${sum}`);
    },
  });
  const socket = await open(rig.proxyPort);
  const chunks: Buffer[] = [];
  socket.on("data", (bytes: Buffer) => chunks.push(bytes));
  socket.write(
    `PUT /drip HTTP/1.1\r\nHost: ${rig.host()}\r\nConnection: close\r\nContent-Length: ${data.length}\r\n\r\n`,
  );
  for (let at = 0; at < data.length; at += 100) {
    assert.ok(chunks.length === 0 && !socket.destroyed, `ended after ${at} bytes: ${Buffer.concat(chunks).toString()}`);
    socket.write(data.subarray(at, at + 100));
    await delay(100);
  }
  await Promise.race([new Promise((resolve) => socket.once("end", resolve)), delay(10_000)]);
  socket.destroy();
  const [answer] = answersIn(Buffer.concat(chunks));
  assert.deepEqual([answer?.status, answer?.body.toString()], [200, createHash("sha256").update(data).digest("hex")]);
}

async function unbuffered(rig: HostileRig, port: number): Promise<void> {
  for (const type of ["application/connect+json", "text/event-stream"]) {
    const waits: number[] = [];
    for (let tries = 0; tries < TRIES; tries += 1) {
      waits.push(await firstEvent(rig, port, type));
    }
    const best = Math.min(...waits);
    assert.ok(best < FIRST_EVENT_MS, `${type}: the first event took ${waits.map(Math.round).join(", ")} ms`);
  }
}

/** A stream whose every event is sent only when the one before has arrived. Tells how long the first one took. */
async function firstEvent(rig: HostileRig, port: number, type: string): Promise<number> {
  let send: (event: string) => void = () => undefined;
  const ready = new Promise<void>((resolve) => {
    rig.guest.on("events", {
      onEnd: (_request, { socket }) => {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\nTransfer-Encoding: chunked\r\n\r\n`);
        send = (event) =>
          socket.write(`${event.length.toString(16)}\r\n${event}\r\n${event === "last;" ? "0\r\n\r\n" : ""}`);
        resolve();
      },
    });
  });
  const socket = await open(port);
  let text = "";
  let arrived: () => void = () => undefined;
  socket.on("data", (bytes: Buffer) => {
    text += bytes.toString("latin1");
    arrived();
  });
  const shows = (event: string): Promise<void> =>
    new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`${type}: ${event} did not arrive: ${text.slice(-300)}`)), 5_000);
      arrived = () => {
        if (text.includes(event)) {
          clearTimeout(late);
          resolve();
        }
      };
      arrived();
    });
  socket.write(`POST /events HTTP/1.1\r\nHost: ${rig.host()}\r\nContent-Length: 0\r\n\r\n`);
  await ready;
  const begun = performance.now();
  let first = 0;
  for (let index = 0; index < EVENTS; index += 1) {
    send(`event ${index};`);
    await shows(`event ${index};`);
    first ||= performance.now() - begun;
  }
  send("last;");
  await shows("last;");
  socket.destroy();
  return first;
}

async function whole(rig: HostileRig, port: number): Promise<void> {
  const data = randomBytes(2 << 20);
  const sum = createHash("sha256").update(data).digest("hex");
  rig.guest.on("bulk", {
    onEnd: (request, { socket }) => {
      assert.equal(createHash("sha256").update(request.body).digest("hex"), sum, "the upload");
      socket.write(
        `HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: ${data.length}\r\n\r\n`,
      );
      socket.write(data);
    },
  });
  const head = `PUT /bulk HTTP/1.1\r\nHost: ${rig.host()}\r\nContent-Length: ${data.length}\r\n\r\n`;
  // nginx refuses bodies beyond one megabyte unless it is told otherwise; that is its owner's choice.
  const refused = await talk(port, [Buffer.from(head), data], { enough: answered() });
  assert.equal(answersIn(refused.bytes)[0]?.status, 413);
  const small = data.subarray(0, 512 << 10);
  rig.guest.on("small", {
    onEnd: (request, { socket }) => {
      assert.ok(request.body.equals(small), "the upload");
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${data.length}\r\n\r\n`);
      socket.write(data);
    },
  });
  const { bytes } = await talk(
    port,
    [Buffer.from(`PUT /small HTTP/1.1\r\nHost: ${rig.host()}\r\nContent-Length: ${small.length}\r\n\r\n`), small],
    { enough: answered(), limitMs: 20_000 },
  );
  const [answer] = answersIn(bytes);
  assert.equal(
    createHash("sha256")
      .update(answer?.body ?? "")
      .digest("hex"),
    sum,
    "the download",
  );
  const marks = new Map<string, string | undefined>();
  rig.guest.on("typed", {
    onEnd: (request, { socket }) => {
      const type = request.target.slice("/typed/".length);
      socket.write(`HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\nContent-Length: 2\r\n\r\n{}`);
    },
  });
  for (const type of ["application/json", "text/html", "application/connect+json", "text/event-stream"]) {
    const get = `GET /typed/${type} HTTP/1.1\r\nHost: ${rig.host()}\r\n\r\n`;
    const reply = await talk(rig.proxyPort, [Buffer.from(get)], { enough: answered() });
    marks.set(type, answersIn(reply.bytes)[0]?.headers.get("x-accel-buffering"));
  }
  assert.deepEqual(Object.fromEntries(marks), {
    "application/json": undefined,
    "text/html": undefined,
    "application/connect+json": "no",
    "text/event-stream": "no",
  });
}

async function hosts(rig: HostileRig): Promise<void> {
  rig.guest.on("here", {
    onEnd: (request, { socket }) => {
      const host = fieldOf(request.headers, "host");
      socket.write(`HTTP/1.1 302 Found\r\nLocation: http://${host}/there\r\nContent-Length: 0\r\n\r\n`);
    },
  });
  const get = (line: string, host: string, more = ""): string => `GET ${line} HTTP/1.1\r\nHost: ${host}\r\n${more}\r\n`;
  const { sandboxID } = rig.sandbox;
  const routed = `E2b-Sandbox-Id: ${sandboxID}\r\nE2b-Sandbox-Port: 3000\r\n`;
  for (const request of [
    get("/here", rig.host()),
    get("/here", `${rig.host()}:8443`),
    get("/here", "localhost", routed),
    get("/here", `127.0.0.1:${rig.proxyPort}`, routed),
  ]) {
    const { bytes } = await talk(rig.proxyPort, [Buffer.from(request)], { enough: answered() });
    const [answer] = answersIn(bytes);
    assert.equal(answer?.status, 302, request);
    // The name under which the sandbox is reached, however the request came.
    const location = new URL(answer.headers.get("location") ?? "");
    assert.equal(location.hostname, rig.host(), request);
    const again = await talk(rig.proxyPort, [Buffer.from(get(location.pathname, location.host))], {
      enough: answered(),
    });
    assert.equal(answersIn(again.bytes)[0]?.status, 200, "the redirect leads back");
  }
  const before = rig.delivered();
  for (const mask of ["localhost:${PORT}", "example.test"]) {
    const reply = await callApi(rig.front.facts, "POST", "/v2/sandboxes", {
      body: { templateID: "base", network: { maskRequestHost: mask } },
    });
    assert.match(expectError(reply, 400, "a masked host"), /^network\b/);
  }
  assert.equal(rig.delivered(), before, "sandboxes made");
}
