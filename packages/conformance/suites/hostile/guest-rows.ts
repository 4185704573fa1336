import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import { callProxy, createSandbox, guestOutput, killSandbox, runInGuest } from "../../src/api.ts";
import { answersIn, bytewise, each, open, talk } from "../../src/raw-talk.ts";
import { type Rig, startDev } from "../../src/rig.ts";
import type { HostileContext, HostileRow } from "./context.ts";
import { envelope } from "./split-messages.ts";

const ENVD_PORT = 49_983;
const AT_ONCE = 8;
/** What is said is a second; a machine with other work gets some more. */
const END_MS = 2_500;

/** Rows that need guests with a daemon in them. */
export function guestRows(context: HostileContext): readonly HostileRow[] {
  const { set, programs, isolation, brief } = context;
  const onDev = async (row: (rig: Rig) => Promise<void>): Promise<void> => {
    await using rig = await startDev(set, programs, { mode: "secret", isolation, warm: 2, warmEgress: 0, nodes: 1 });
    await row(rig);
    assert.ok(rig.front.running(), `the service ended\n${rig.front.tail()}`);
  };
  return [
    {
      id: "H80",
      title: "a kill ends the sandbox's open streams within 1 s, and /health is 502 at once",
      quick: false,
      run: () => onDev(killed),
    },
    {
      id: "H81",
      title: "Connect envelopes byte by byte, and cut off at every byte, at a guest's daemon, which goes on",
      quick: false,
      run: () => onDev((rig) => envelopes(rig, brief ? 11 : 1)),
    },
  ];
}

function startRequest(rig: Rig, sandbox: { sandboxID: string; envdAccessToken?: string }, command: string): Buffer {
  const body = envelope({ process: { cmd: "/bin/sh", args: ["-c", command] }, stdin: false });
  const head = [
    "POST /process.Process/Start HTTP/1.1",
    `Host: ${ENVD_PORT}-${sandbox.sandboxID}.${rig.facts.domain}`,
    `X-Access-Token: ${sandbox.envdAccessToken ?? ""}`,
    `Authorization: Basic ${Buffer.from("user:").toString("base64")}`,
    "Content-Type: application/connect+json",
    "Connect-Protocol-Version: 1",
    "Connection: close",
    `Content-Length: ${body.length}`,
  ];
  return Buffer.concat([Buffer.from(`${head.join("\r\n")}\r\n\r\n`), body]);
}

async function killed(rig: Rig): Promise<void> {
  const sandbox = await createSandbox(rig.facts);
  const proxyPort = Number(new URL(rig.facts.proxyUrl).port);
  const streams = await Promise.all(
    Array.from({ length: 5 }, async () => {
      const socket = await open(proxyPort);
      socket.write(startRequest(rig, sandbox, "echo up; sleep 300"));
      await new Promise<void>((resolve) => socket.once("data", () => resolve()));
      socket.resume();
      const ended = new Promise<number>((resolve) => {
        socket.once("end", () => resolve(performance.now()));
        socket.once("close", () => resolve(performance.now()));
      });
      return { socket, ended };
    }),
  );
  await delay(200);
  await killSandbox(rig.facts, sandbox.sandboxID);
  const begun = performance.now();
  const health = await callProxy(rig.facts.proxyUrl, "GET", "/health", {
    "e2b-sandbox-id": sandbox.sandboxID,
    "e2b-sandbox-port": String(ENVD_PORT),
    "x-access-token": sandbox.envdAccessToken ?? "",
  });
  assert.equal(health.status, 502, `/health answered ${health.status} ${health.text}`);
  const took = performance.now() - begun;
  assert.ok(took < END_MS, `/health took ${Math.round(took)} ms`);
  for (const { socket, ended } of streams) {
    const at = await Promise.race([ended, delay(10_000, Infinity)]);
    assert.ok(at - begun < END_MS, `a stream ended ${Math.round(at - begun)} ms after the kill`);
    socket.destroy();
  }
}

async function envelopes(rig: Rig, stride: number): Promise<void> {
  const sandbox = await createSandbox(rig.facts);
  const proxyPort = Number(new URL(rig.facts.proxyUrl).port);
  const whole = startRequest(rig, sandbox, "echo hello");
  const headEnd = whole.indexOf("\r\n\r\n") + 4;
  const run = async (pieces: readonly Buffer[], what: string): Promise<void> => {
    const { bytes } = await talk(proxyPort, pieces, { limitMs: 30_000 });
    const [answer] = answersIn(bytes);
    assert.equal(answer?.status, 200, `${what}: ${bytes.toString("latin1").slice(0, 200)}`);
    assert.equal(guestOutput(answer.body), "hello\n", what);
  };
  await run(bytewise(whole), "byte by byte");
  const cuts = Array.from(
    { length: Math.ceil((whole.length - headEnd) / stride) },
    (_cut, index) => headEnd + index * stride,
  );
  await each(cuts, AT_ONCE, async (cut) => {
    await talk(proxyPort, [whole.subarray(0, cut)], { ending: cut % 2 === 0 ? "fin" : "reset", limitMs: 2_000 });
  });
  await run([whole.subarray(0, headEnd + 3), whole.subarray(headEnd + 3)], "cut in an envelope's head");
  assert.equal(await runInGuest(rig.facts, sandbox, "echo alive"), "alive\n");
  await killSandbox(rig.facts, sandbox.sandboxID);
}
