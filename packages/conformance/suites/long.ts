import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";

import { request } from "undici";

import { callProxy, type Created, createSandbox, killSandbox, runInGuest } from "../src/api.ts";
import type { HarnessRow } from "../src/harness-rows.ts";
import type { RigFacts } from "../src/rig.ts";

/** Longer than the 300 s after which Node ends a request by itself. */
const UPLOAD_MS = 370_000;
const BYTES_PER_SECOND = 50_000;
const PIECE_MS = 200;

/** How a body is framed, and what stands around the file in it. */
interface Way {
  readonly name: string;
  readonly type: string;
  readonly before: string;
  readonly after: string;
  readonly sized: boolean;
}

const WAYS: readonly Way[] = [
  { name: "octets with a length", type: "application/octet-stream", before: "", after: "", sized: true },
  { name: "octets in chunks", type: "application/octet-stream", before: "", after: "", sized: false },
  {
    name: "multipart in chunks",
    type: "multipart/form-data; boundary=frontier",
    before: '--frontier\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n',
    after: "\r\n--frontier--\r\n",
    sized: false,
  },
];

/** Rows that take as long as what they are about, through real guests. */
export function longRows(rig: RigFacts): readonly HarnessRow[] {
  let begun: ReadonlyMap<string, Promise<void>> | undefined;
  // All of them begin with the first one: together they take no longer than one.
  const start = async (): Promise<ReadonlyMap<string, Promise<void>>> => {
    const sandbox = await createSandbox(rig, { timeout: 900 });
    const works: (readonly [string, Promise<void>])[] = [
      ...WAYS.map((way, index) => [`L${index + 1}`, upload(rig, sandbox, way)] as const),
      ["L4", silence(rig, sandbox)],
    ];
    const all = Promise.allSettled(works.map(([, work]) => work));
    void all.then(() => killSandbox(rig, sandbox.sandboxID)).catch(() => undefined);
    return new Map(works);
  };
  const row = (id: string, title: string): HarnessRow => ({
    id,
    title,
    run: async () => {
      begun ??= await start();
      await begun.get(id);
    },
  });
  return [
    ...WAYS.map(({ name }, index) =>
      row(`L${index + 1}`, `a file that is sent for more than six minutes arrives whole: ${name}`),
    ),
    row("L4", "a command that is silent for more than six minutes ends with its output"),
  ];
}

async function upload(rig: RigFacts, sandbox: Created, way: Way): Promise<void> {
  const path = `/home/user/${way.name.replaceAll(" ", "-")}`;
  const piece = Buffer.alloc((BYTES_PER_SECOND * PIECE_MS) / 1_000, way.name);
  const pieces = UPLOAD_MS / PIECE_MS;
  const hash = createHash("sha256");
  async function* body(): AsyncGenerator<Buffer> {
    yield Buffer.from(way.before);
    for (let count = 0; count < pieces; count += 1) {
      hash.update(piece);
      yield piece;
      await delay(PIECE_MS);
    }
    yield Buffer.from(way.after);
  }
  const length = way.before.length + pieces * piece.length + way.after.length;
  const { statusCode, body: answer } = await request(`${rig.proxyUrl}/files?path=${encodeURIComponent(path)}`, {
    method: "POST",
    headers: {
      "e2b-sandbox-id": sandbox.sandboxID,
      "e2b-sandbox-port": "49983",
      "x-access-token": sandbox.envdAccessToken ?? "",
      "content-type": way.type,
      ...(way.sized ? { "content-length": String(length) } : {}),
    },
    body: Readable.from(body()),
    headersTimeout: 2 * UPLOAD_MS,
  });
  const text = await answer.text();
  assert.equal(statusCode, 200, text);
  const sum = await runInGuest(rig, sandbox, `sha256sum < ${path}`);
  assert.equal(sum.split(" ")[0], hash.digest("hex"), "what arrived");
}

async function silence(rig: RigFacts, sandbox: Created): Promise<void> {
  const seconds = UPLOAD_MS / 1_000;
  assert.equal(await runInGuest(rig, sandbox, `sleep ${seconds}; echo awake`), "awake\n");
  const health = await callProxy(rig.proxyUrl, "GET", "/health", {
    "e2b-sandbox-id": sandbox.sandboxID,
    "e2b-sandbox-port": "49983",
    "x-access-token": sandbox.envdAccessToken ?? "",
  });
  assert.equal(health.status, 204);
}
