import assert from "node:assert/strict";

import { createSandbox } from "../../src/api.ts";
import { APP_PORT, type HostileRig } from "../../src/hostile-rig.ts";
import { answered, answersIn, bytewise, each, open, type RawAnswer, talk } from "../../src/raw-talk.ts";
import type { SeenRequest } from "../../src/strict-request.ts";
import { Findings, type HostileContext, type HostileRow, rigRow } from "./context.ts";
import { type Ground, REQUEST_CASES, type RequestCase } from "./request-cases.ts";

const AT_ONCE = 8;

/** How long a connection is listened to after its answer, for a second one. */
const LINGER_MS = 250;

/** Requests that two readers could understand in two ways, at both surfaces. */
export function tableRows(context: HostileContext): readonly HostileRow[] {
  return [
    rigRow(
      context,
      "H1",
      `${REQUEST_CASES.length} requests of unclear framing, targets and hosts at the data plane: refused, or passed as what they are`,
      (rig) => dataPlaneTable(rig),
      true,
    ),
    rigRow(
      context,
      "H2",
      `${REQUEST_CASES.length} requests of unclear framing, targets and hosts at the control plane: none carries another one in`,
      async (rig) => {
        const findings = new Findings();
        const { sandboxID } = await createSandbox(rig.front.facts, { timeout: 3_600 });
        const host = `127.0.0.1:${rig.apiPort}`;
        const auth = `X-API-Key: ${rig.front.facts.keys.one}\r\nContent-Type: application/json\r\n`;
        await each(REQUEST_CASES, AT_ONCE, async (one) => {
          const create = JSON.stringify({ templateID: "base", metadata: { hidden: one.name } });
          const ground: Ground = {
            host,
            target: `/sandboxes/${sandboxID}/timeout`,
            auth,
            body: '{"timeout":3600}',
            ok: 204,
            smuggled: `POST /v2/sandboxes HTTP/1.1\r\nHost: ${host}\r\n${auth}Content-Length: ${create.length}\r\n\r\n${create}`,
          };
          judgeAnswer(findings, one, ground, await send(rig.apiPort, one, ground));
        });
        for (const claim of rig.node.claims()) {
          const hidden = Object.entries(claim.metadata ?? {}).find(([name]) => name.includes("hidden"))?.[1];
          if (hidden !== undefined) {
            findings.add(hidden, "the request behind it was carried out");
          }
        }
        findings.settle();
      },
      true,
    ),
    rigRow(
      context,
      "H3",
      "requests in one packet are answered in their order, and a broken one among them ends the connection",
      (rig) => pipelined(rig),
      true,
    ),
  ];
}

/** Sends every case to the data plane, and judges answers and what the guest saw. */
export async function dataPlaneTable(rig: HostileRig, via: typeof open = open): Promise<void> {
  const findings = new Findings();
  await each(REQUEST_CASES.entries(), AT_ONCE, async ([index, one]) => {
    const tag = `case-${index}-`;
    const ground: Ground = {
      host: rig.host(),
      target: `/${tag}?a=b`,
      auth: "",
      body: "0123456789abcdef",
      ok: 200,
      smuggled: `GET /smuggled-${tag} HTTP/1.1\r\nHost: ${rig.host()}\r\n\r\n`,
    };
    const answers = await send(rig.proxyPort, one, ground, via);
    judgeAnswer(findings, one, ground, answers);
    if (rig.guest.saw(`smuggled-${tag}`)) {
      findings.add(one.name, "the guest saw the request behind it");
    }
    const served = answers[0]?.status === ground.ok;
    const wrong = wrongSight(one, ground, served, rig.guest.seen(`/${tag}`));
    if (wrong !== undefined) {
      findings.add(one.name, wrong);
    }
  });
  findings.settle();
}

async function send(
  port: number,
  one: RequestCase,
  ground: Ground,
  via: typeof open = open,
): Promise<readonly RawAnswer[]> {
  const enough = answered(one.behind === undefined || one.behind.length === 0 ? 1 : 2);
  const { bytes, end } = await talk(port, [Buffer.from(one.bytes(ground), "latin1")], {
    enough,
    lingerMs: LINGER_MS,
    via,
  });
  if (end === "open" && !enough(bytes)) {
    return [{ status: -1, headers: new Map(), head: bytes.toString("latin1"), body: Buffer.alloc(0), complete: false }];
  }
  return answersIn(bytes);
}

/** One answer, with a status that is allowed; an error says in JSON what it is. */
function judgeAnswer(findings: Findings, one: RequestCase, ground: Ground, answers: readonly RawAnswer[]): void {
  const { name } = one;
  const [first] = answers;
  const status = first?.status ?? 0;
  const allowed = one.statuses.map((wanted) => (wanted === "ok" ? ground.ok : wanted));
  if (!allowed.includes(status)) {
    const shown = first === undefined ? "" : ` ${JSON.stringify(first.head.slice(0, 120))}`;
    findings.add(name, `answered ${status}, want ${allowed.join(" or ")}${shown}`);
  }
  const behind = answers.slice(1).map((answer) => answer.status);
  const wanted = one.behind ?? [];
  if (behind.length !== Math.min(1, wanted.length) || !behind.every((other) => wanted.includes(other))) {
    findings.add(name, `answers behind it: ${behind.join(", ") || "none"}`);
  }
  for (const answer of answers) {
    if (answer.status >= 400 && !isJsonError(answer)) {
      findings.add(name, `the error is no JSON of ours: ${JSON.stringify(answer.body.toString("latin1"))}`);
    }
  }
}

/** Whether an answer is an error in the words of our surfaces. */
export function isJsonError({ status, headers, body, complete }: RawAnswer): boolean {
  try {
    const error = JSON.parse(body.toString()) as { code?: unknown; message?: unknown };
    const typed = headers.get("content-type")?.startsWith("application/json") === true;
    return complete && typed && error.code === status && typeof error.message === "string" && error.message !== "";
  } catch {
    return false;
  }
}

/** What is wrong with what the guest saw of a case. */
function wrongSight(
  one: RequestCase,
  ground: Ground,
  served: boolean,
  seen: readonly SeenRequest[],
): string | undefined {
  if (seen.length > 1) {
    return `the guest saw it ${seen.length} times`;
  }
  const [request] = seen;
  const told =
    request === undefined ? "nothing" : request.complete ? JSON.stringify(request.body.toString()) : "a part";
  // A case that may be refused as well as served is seen only when it is served.
  const wanted = served || one.sees === "a part" ? one.sees : "nothing";
  if (wanted === "nothing") {
    return request === undefined ? undefined : `the guest saw ${told}`;
  }
  if (wanted === "a part") {
    return request?.complete === true ? `the guest saw all of it: ${told}` : undefined;
  }
  if (wanted === "anything whole") {
    return request?.complete === false ? "the guest saw a part" : undefined;
  }
  const whole = request?.complete === true && request.body.toString() === (wanted === "the body" ? ground.body : "");
  return whole ? undefined : `the guest saw ${told}`;
}

async function pipelined(rig: HostileRig): Promise<void> {
  const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: ${rig.host()}\r\n\r\n`;
  // The first one takes longest, so that an answer that does not wait for its turn would come first.
  rig.guest.on("slowly", {
    onEnd: (request, { socket }) => {
      const text = request.target;
      const ms = Number(text.slice(-1)) * 40;
      setTimeout(() => socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`), ms);
    },
  });
  const paths = ["/slowly/5", "/slowly/3", "/slowly/0", "/slowly/1"];
  const whole = await talk(rig.proxyPort, [Buffer.from(paths.map(get).join(""))], { enough: answered(4) });
  const answers = answersIn(whole.bytes);
  assert.deepEqual(
    answers.map((answer) => `${answer.status} ${answer.body.toString()}`),
    paths.map((path) => `200 ${path}`),
  );
  // What is broken behind requests that are being served changes nothing about their answers.
  const closing = get("/slowly/3").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
  for (const [bytes, wanted] of [
    [`${get("/slowly/4")}${get("/slowly/0")}GET / HTTQ/1.1\r\n\r\n`, "200,200,400"],
    [`${get("/slowly/4")}${get("/slowly/0")}CONNECT x:1 HTTP/1.1\r\n\r\n`, "200,200,400"],
    [`${get("/slowly/4")}${get("/slowly/0")}\0`, "200,200,400"],
    [`${get("/slowly/4")}${get("/slowly/0")}${closing}GET / HTTQ/1.1\r\n\r\n`, "200,200,200"],
    [`${get("/slowly/4")}${get("/slowly/0")}${closing}${get("/")}`, "200,200,200"],
  ] as const) {
    for (const pieces of [[Buffer.from(bytes)], bytewise(Buffer.from(bytes))]) {
      const broken = await talk(rig.proxyPort, pieces);
      assert.notEqual(broken.end, "open", `stays open: ${JSON.stringify(bytes)}`);
      const statuses = answersIn(broken.bytes).map((answer) => answer.status);
      assert.equal(statuses.join(), wanted, `answers to ${JSON.stringify(bytes)}`);
    }
  }
  assert.equal(rig.guest.seen(`${APP_PORT}-`).filter((request) => request.target === "/").length, 0);
}
