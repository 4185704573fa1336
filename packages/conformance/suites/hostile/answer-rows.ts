import assert from "node:assert/strict";
import { connect, type ClientHttp2Session } from "node:http2";
import { setTimeout as delay } from "node:timers/promises";

import type { HostileRig } from "../../src/hostile-rig.ts";
import { answersIn, each, talk, upTo } from "../../src/raw-talk.ts";
import type { GuestConnection } from "../../src/scripted-guest.ts";
import { ANSWER_CASES, type AnswerCase } from "./answer-cases.ts";
import { Findings, type HostileContext, type HostileRow, rigRow } from "./context.ts";
import { isJsonError } from "./table-rows.ts";

const AT_ONCE = 8;

/** What a client made of an answer. */
interface Outcome {
  readonly status: number;
  readonly complete: boolean;
  readonly body: string;
}

/** Guests whose answers are broken, dishonest or none. */
export function answerRows(context: HostileContext): readonly HostileRow[] {
  return [
    rigRow(
      context,
      "H10",
      `${ANSWER_CASES.length} answers of guests over HTTP/1.1: 502 when they are none, broken off when they break off`,
      (rig) => judgeCases(rig, (path) => askHttp1(rig, path)),
      true,
    ),
    rigRow(context, "H11", `${ANSWER_CASES.length} answers of guests over HTTP/2: the same`, async (rig) => {
      const session = connect(rig.front.facts.proxyUrl);
      session.on("error", () => undefined);
      try {
        await judgeCases(rig, (path) => askHttp2(rig, session, path));
        assert.ok(!session.closed && !session.destroyed, "a guest's answer ended the connection of all streams");
      } finally {
        session.destroy();
      }
    }),
    rigRow(
      context,
      "H12",
      "what a guest sends behind its answer, at once or later, is nobody else's answer",
      (rig) => poison(rig),
      true,
    ),
  ];
}

async function judgeCases(rig: HostileRig, ask: (path: string) => Promise<Outcome>): Promise<void> {
  const findings = new Findings();
  rig.guest.on("answer", {
    onEnd: (request, connection) => {
      const one = ANSWER_CASES[Number(request.target.slice("/answer/".length))];
      if (one !== undefined) {
        act(one, connection);
      }
    },
  });
  await each(ANSWER_CASES.entries(), AT_ONCE, async ([index, one]) => {
    const { status, complete, body } = await ask(`/answer/${index}`);
    if (!one.statuses.includes(status)) {
      findings.add(one.name, `the client saw ${status}, want ${one.statuses.join(" or ")}`);
    } else if (status !== 502 && complete !== one.complete) {
      findings.add(one.name, `the client took the answer for ${complete ? "complete" : "broken off"}`);
    } else if (one.body !== undefined && body !== one.body) {
      findings.add(one.name, `the client read ${JSON.stringify(body.slice(0, 100))}`);
    }
  });
  findings.settle();
}

function act(one: AnswerCase, { socket }: GuestConnection): void {
  socket.write(one.bytes, "latin1", () => {
    if (one.ending === "end") {
      socket.end();
    } else if (one.ending === "reset") {
      setTimeout(() => socket.resetAndDestroy(), 10);
    }
  });
}

async function askHttp1(rig: HostileRig, path: string): Promise<Outcome> {
  const request = `GET ${path} HTTP/1.1\r\nHost: ${rig.host()}\r\nConnection: close\r\n\r\n`;
  const { bytes, end } = await talk(rig.proxyPort, [Buffer.from(request)]);
  const [answer] = answersIn(bytes, end === "fin");
  if (answer === undefined) {
    return { status: 0, complete: false, body: "" };
  }
  const { status, complete, body } = answer;
  assert.ok(status !== 502 || isJsonError(answer), `${path}: a 502 without a JSON error`);
  return { status, complete: complete && end !== "open", body: body.toString("latin1") };
}

function askHttp2(rig: HostileRig, session: ClientHttp2Session, path: string): Promise<Outcome> {
  return new Promise((resolve) => {
    const stream = session.request({ ":path": path, ":authority": rig.host() });
    let status = 0;
    let body = "";
    let failed = false;
    stream.on("response", (headers) => (status = Number(headers[":status"])));
    stream.setEncoding("latin1");
    stream.on("data", (text: string) => (body += text));
    stream.on("error", () => (failed = true));
    stream.on("close", () => resolve({ status, complete: !failed && stream.rstCode === 0, body }));
    stream.setTimeout(8_000, () => stream.close());
  });
}

async function poison(rig: HostileRig): Promise<void> {
  const extra = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";
  rig.guest.on("poison", {
    onEnd: (request, { socket }) => {
      const afterMs = Number(request.target.split("/")[2]);
      const own = `HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nown`;
      if (afterMs === 0) {
        socket.write(own + extra);
      } else {
        socket.write(own);
        setTimeout(() => socket.write(extra), afterMs);
      }
    },
  });
  const get = (path: string): Buffer[] => [
    Buffer.from(`GET ${path} HTTP/1.1\r\nHost: ${rig.host()}\r\nConnection: close\r\n\r\n`),
  ];
  // A guest that spoke out of turn once is asked over a connection of its own for each request from then on.
  await talk(rig.proxyPort, get("/poison/0"));
  await each(upTo(60), 4, async (index) => {
    const { bytes } = await talk(rig.proxyPort, get(`/poison/${(index % 6) * 3}`));
    assert.equal(answersIn(bytes)[0]?.body.toString(), "own");
    await delay(index % 4);
    const next = await talk(rig.proxyPort, get(`/clean-${index}-`));
    const [answer] = answersIn(next.bytes);
    // One that cannot be carried out since the guest spoiled its connection is refused, never mixed up.
    assert.ok(answer?.status === 200 || answer?.status === 502, `answered ${answer?.status}`);
    assert.ok(!next.bytes.includes("poison"), "a request was answered with what belonged to another one");
    if (answer.status === 200) {
      assert.ok(answer.body.includes(`/clean-${index}-`), "the answer is another request's");
    }
  });
}
