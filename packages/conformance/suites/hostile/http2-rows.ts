import assert from "node:assert/strict";

import type { HostileRig } from "../../src/hostile-rig.ts";
import { block, frame, PREFACE, requestFrames, talkHttp2 } from "../../src/raw-http2.ts";
import { bytewise, each, open } from "../../src/raw-talk.ts";
import type { SeenRequest } from "../../src/strict-request.ts";
import { Findings, type HostileContext, type HostileRow, rigRow } from "./context.ts";

const AT_ONCE = 8;

/** A stream of HTTP/2 that is not what it seems. */
interface StreamCase {
  readonly name: string;
  /** Pseudo fields that differ from those of a good POST; an empty value leaves one out. */
  readonly pseudo?: Readonly<Record<string, string>>;
  readonly fields?: readonly (readonly [string, string])[];
  readonly body?: string;
  /** Statuses that are fine. Resets and the end of the connection always are, unless it must be served. */
  readonly statuses: readonly number[];
  readonly served?: boolean;
}

const BODY = "0123456789";
const SMUGGLED = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";

/** The HTTP/2 library drops fields that are none, and serves the rest: the guest's own reader judges that they are gone. */
const DROPPED: readonly number[] = [200, 400];

const CASES: readonly StreamCase[] = [
  { name: "a good one", body: BODY, statuses: [200], served: true },
  { name: "a length that is right", fields: [["content-length", "10"]], body: BODY, statuses: [200], served: true },
  { name: "a length that is too short", fields: [["content-length", "5"]], body: BODY, statuses: [400] },
  { name: "a length that is too long", fields: [["content-length", "50"]], body: BODY, statuses: [400] },
  { name: "a length of 0 with a body", fields: [["content-length", "0"]], body: SMUGGLED, statuses: [400] },
  { name: "a length that is signed", fields: [["content-length", "+10"]], body: BODY, statuses: [400] },
  {
    name: "two lengths",
    fields: [
      ["content-length", "10"],
      ["content-length", "10"],
    ],
    body: BODY,
    statuses: [400],
  },
  { name: "a transfer encoding", fields: [["transfer-encoding", "chunked"]], body: SMUGGLED, statuses: [400, 501] },
  { name: "a connection field", fields: [["connection", "close"]], body: BODY, statuses: [400] },
  { name: "an upgrade", fields: [["upgrade", "websocket"]], body: BODY, statuses: [400] },
  { name: "te other than trailers", fields: [["te", "gzip"]], body: BODY, statuses: [400] },
  { name: "a name in capitals", fields: [["X-Upper", "x"]], body: BODY, statuses: [400] },
  { name: "a name with a blank", fields: [["x y", "x"]], body: BODY, statuses: DROPPED },
  { name: "a name with a colon", fields: [["x:y", "x"]], body: BODY, statuses: DROPPED },
  { name: "a name with a line end", fields: [["x\r\nhost: evil\r\ny", "x"]], body: BODY, statuses: DROPPED },
  { name: "an empty name", fields: [["", "x"]], body: BODY, statuses: DROPPED },
  { name: "a value with a line end", fields: [["x", "y\r\nX-API-Key: z"]], body: BODY, statuses: DROPPED },
  { name: "a value with a bare LF", fields: [["x", "y\nz: a"]], body: BODY, statuses: DROPPED },
  { name: "a value with a bare CR", fields: [["x", "y\rz: a"]], body: BODY, statuses: DROPPED },
  { name: "a value with a NUL", fields: [["x", "y\0z"]], body: BODY, statuses: DROPPED },
  { name: "a path with a blank", pseudo: { ":path": "/a b HTTP/1.1" }, body: BODY, statuses: [400] },
  { name: "a path with a line end", pseudo: { ":path": "/a HTTP/1.1\r\nX: y" }, body: BODY, statuses: [400] },
  { name: "a path that is a word", pseudo: { ":path": "word" }, body: BODY, statuses: [400] },
  { name: "an absolute path", pseudo: { ":path": "ftp://x/y" }, body: BODY, statuses: [400] },
  { name: "no path", pseudo: { ":path": "" }, body: BODY, statuses: [400] },
  { name: "no method", pseudo: { ":method": "" }, body: BODY, statuses: [400] },
  { name: "a method with a blank", pseudo: { ":method": "GET /x HTTP/1.1\r\nX:" }, body: BODY, statuses: [400] },
  { name: "CONNECT", pseudo: { ":method": "CONNECT" }, body: BODY, statuses: [400] },
  { name: "an authority with a line end", pseudo: { ":authority": "a\r\nx: y" }, body: BODY, statuses: [400] },
  { name: "an authority and another host", fields: [["host", "evil.example.test"]], body: BODY, statuses: [200, 400] },
  { name: "a pseudo field of answers", fields: [[":status", "200"]], body: BODY, statuses: [400] },
  { name: "a pseudo field nobody knows", fields: [[":x", "y"]], body: BODY, statuses: [400] },
  {
    name: "a pseudo field behind others",
    fields: [
      ["x", "y"],
      [":path", "/z"],
    ],
    body: BODY,
    statuses: [400],
  },
];

/** HTTP/2 that no library would send. */
export function http2Rows(context: HostileContext): readonly HostileRow[] {
  return [
    rigRow(
      context,
      "H4",
      `${CASES.length} streams of HTTP/2 with fields and lengths that would be others in HTTP/1.1: refused, or passed as what they are`,
      (rig) => streams(rig),
      true,
    ),
    rigRow(context, "H5", "HTTP/2 byte by byte, and connections that end at every byte", (rig) =>
      split(rig, context.brief ? 13 : 1),
    ),
    rigRow(context, "H6", "floods of HTTP/2 frames cost their own connection at most", (rig) => floods(rig)),
  ];
}

function fieldsOf(rig: HostileRig, path: string, one?: StreamCase): (readonly [string, string])[] {
  const pseudo = { ":method": "POST", ":scheme": "http", ":authority": rig.host(), ":path": path, ...one?.pseudo };
  return [...Object.entries(pseudo).filter(([, value]) => value !== ""), ...(one?.fields ?? [])];
}

async function streams(rig: HostileRig): Promise<void> {
  const findings = new Findings();
  await each(CASES.entries(), AT_ONCE, async ([index, one]) => {
    const tag = `/h2-${index}-`;
    const bytes = requestFrames(fieldsOf(rig, tag, one), one.body);
    const { status, reset, goneAway, closed } = await talkHttp2(rig.proxyPort, [PREFACE, bytes]);
    const refused = one.served !== true && (reset || goneAway || closed) && status === 0;
    if (!one.statuses.includes(status) && !refused) {
      findings.add(one.name, `answered ${status}, reset ${reset}, gone ${goneAway}, closed ${closed}`);
    }
    const whole = rig.guest.seen(tag).filter((request: SeenRequest) => request.complete);
    if (whole.length !== (status === 200 ? 1 : 0)) {
      findings.add(one.name, `the guest saw ${whole.length} whole requests`);
    }
    if (status === 200 && whole[0]?.body.toString() !== one.body) {
      findings.add(one.name, `the guest saw the body ${JSON.stringify(whole[0]?.body.toString())}`);
    }
  });
  if (rig.guest.seen("/smuggled").length > 0) {
    findings.add("bodies with requests in them", "the guest saw one of those requests");
  }
  findings.settle();
}

async function split(rig: HostileRig, stride: number): Promise<void> {
  const whole = (tag: string): Buffer => Buffer.concat([PREFACE, requestFrames(fieldsOf(rig, tag), BODY)]);
  const slow = await talkHttp2(rig.proxyPort, bytewise(whole("/h2-bytes")));
  assert.equal(slow.status, 200, "byte by byte");
  const { length } = whole("/h2-cut-000-");
  const cuts = Array.from({ length: Math.floor((length - 1) / stride) }, (_cut, index) => 1 + index * stride);
  await rig.flat(
    async () => undefined,
    () =>
      each(cuts, AT_ONCE, async (cut) => {
        const bytes = whole(`/h2-cut-${String(cut).padStart(3, "0")}-`);
        const halves = await talkHttp2(rig.proxyPort, [bytes.subarray(0, cut), bytes.subarray(cut)]);
        assert.equal(halves.status, 200, `cut at ${cut}`);
        const tag = `/h2-gone-${String(cut).padStart(2, "0")}-`;
        const socket = await open(rig.proxyPort);
        socket.write(whole(tag).subarray(0, cut));
        await new Promise((resolve) => setTimeout(resolve, 5));
        if (cut % 2 === 0) {
          socket.end();
        } else {
          socket.resetAndDestroy();
        }
        socket.destroy();
        assert.ok(!rig.guest.seen(tag).some((request) => request.complete), `a stream cut at ${cut} came whole`);
      }),
  );
}

async function floods(rig: HostileRig): Promise<void> {
  const get = fieldsOf(rig, "/flood").map(([name, value]) => [name, name === ":method" ? "GET" : value] as const);
  const many = (one: (index: number) => Buffer, count: number): Buffer =>
    Buffer.concat([PREFACE, ...Array.from({ length: count }, (_one, index) => one(index))]);
  const reset = Buffer.from([0, 0, 0, 8]);
  const kinds: readonly (readonly [name: string, bytes: Buffer])[] = [
    ["settings", many(() => frame(4, 0, 0, Buffer.from([0, 3, 0, 0, 0, 1])), 20_000)],
    ["pings", many(() => frame(6, 0, 0, Buffer.alloc(8)), 20_000)],
    [
      "empty data",
      many((index) => (index === 0 ? frame(1, 4, 1, block(get)) : frame(0, 0, 1, Buffer.alloc(0))), 20_000),
    ],
    ["priorities", many(() => frame(2, 0, 3, Buffer.from([0, 0, 0, 0, 16])), 20_000)],
    [
      "continuations",
      many((index) => (index === 0 ? frame(1, 1, 1, block(get)) : frame(9, 0, 1, block([["x", "y"]]))), 20_000),
    ],
    [
      "streams that are reset at once",
      many(
        (index) => Buffer.concat([frame(1, 5, index * 2 + 1, block(get)), frame(3, 0, index * 2 + 1, reset)]),
        // Each opens a relay, and the scripted node takes note of them one by one.
        2_000,
      ),
    ],
    ["a frame of 16 MB that does not come", Buffer.concat([PREFACE, Buffer.from([255, 255, 255, 0, 0, 0, 0, 0, 1])])],
    ["a window of 2^31", Buffer.concat([PREFACE, frame(8, 0, 0, Buffer.from([127, 255, 255, 255]))])],
  ];
  rig.guest.recording = false;
  try {
    await rig.flat(
      () => each(kinds, 2, async ([, bytes]) => void (await talkHttp2(rig.proxyPort, [bytes], 1_500))),
      () =>
        each(kinds, 2, async ([name, bytes]) => {
          await talkHttp2(rig.proxyPort, [bytes], 3_000);
          await rig.echo(`/behind-${encodeURIComponent(name)}`);
        }),
    );
  } finally {
    rig.guest.recording = true;
  }
}
