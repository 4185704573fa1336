// A node of the mesh without guests that does what a script says. Arguments: its folder, the port it listens at, and the
// host of the listener.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";

import { type Fault, type FaultRoute, infoText, rowOf, type ScriptedClaim, wireTime } from "./scripted-node-script.ts";
import { ScriptedRelays } from "./scripted-node-relay.ts";
import { type ClaimBody, ScriptedState } from "./scripted-node-state.ts";

const [dir = "", portText = "0", host = "127.0.0.1"] = process.argv.slice(2);
const state = new ScriptedState(dir);
const relays = new ScriptedRelays(state);

/** What the node would answer, were there no fault. */
interface Result {
  readonly status: number;
  readonly body: string;
  readonly claim?: ScriptedClaim | undefined;
}

const json = (status: number, body: unknown, claim?: ScriptedClaim): Result => ({
  status,
  body: JSON.stringify(body),
  claim,
});
const problem = (status: number, error: string): Result => json(status, { error });
const done: Result = { status: 204, body: "" };
const unknown = problem(404, "unknown sandbox");

const VERBS: Readonly<Record<string, FaultRoute>> = {
  release: "release",
  renew: "renew",
  hibernate: "hibernate",
  wake: "wake",
};

interface Target {
  readonly route: FaultRoute | undefined;
  readonly id: string;
}

const targetOf = (method: string, path: string): Target => {
  const [, version, first = "", id = "", verb = "", more] = path.split("/");
  if (version !== "v1" || more !== undefined) {
    return { route: undefined, id: "" };
  }
  if (method === "POST") {
    return { route: first === "claim" && id === "" ? "claim" : VERBS[verb], id };
  }
  const reads: FaultRoute | undefined =
    first === "info" ? "info" : first !== "sandboxes" || verb !== "" ? undefined : id === "" ? "index" : "sandbox";
  return { route: method === "GET" ? reads : undefined, id };
};

const claim = (body: ClaimBody): Result => {
  const delivered = state.deliver(body);
  const { advertise, redirect } = state.script;
  if (delivered !== undefined) {
    const { id, token, deadlineMs } = delivered;
    const owner = advertise === "" ? {} : { owner_addr: advertise };
    const deadline = wireTime(deadlineMs, state.script.zoneMinutes);
    return json(200, { id, token, deadline, ...owner, net_route: "none" }, delivered);
  }
  return redirect.length > 0 && body.no_redirect !== true
    ? json(200, { redirect })
    : problem(429, "node claim quota reached: 0 live claims, cap 0");
};

const perform = (route: FaultRoute, id: string, query: URLSearchParams, body: string): Result => {
  if (route === "info") {
    return { status: 200, body: infoText(state.script, state.pools, [...state.claims.values()]) };
  }
  if (route === "index") {
    const ref = query.get("claim_ref") ?? "";
    const rows = [...state.claims.values()].filter((one) => ref === "" || one.claimRef === ref);
    return json(200, { sandboxes: rows.map((row) => rowOf(row, state.script.zoneMinutes)) });
  }
  if (route === "claim") {
    return claim(JSON.parse(body) as ClaimBody);
  }
  const known = state.claims.get(id);
  if (known === undefined) {
    return unknown;
  }
  if (route === "sandbox") {
    return json(200, { ...rowOf(known, state.script.zoneMinutes), token: known.token }, known);
  }
  if (route === "renew") {
    state.renew(known, body === "" ? 0 : (JSON.parse(body) as ClaimBody).ttl_seconds);
    return json(200, { deadline: wireTime(known.deadlineMs, state.script.zoneMinutes) });
  }
  if (route === "release") {
    state.end(id, "released");
    relays.end(id);
  } else {
    known.hibernated = route === "hibernate";
    state.save();
  }
  return done;
};

const refusal = (incoming: IncomingMessage): Result | undefined => {
  const bearer = (incoming.headers.authorization ?? "").replace(/^Bearer /, "");
  if (bearer === state.script.token) {
    return undefined;
  }
  return state.script.tenantTokens.includes(bearer)
    ? problem(403, "operator token required")
    : problem(401, "invalid api token");
};

const send = (answer: ServerResponse, status: number, body: string, type = "application/json"): void => {
  answer.writeHead(status, { "content-type": type, "content-length": Buffer.byteLength(body) }).end(body);
};

/** One byte per period. */
const trickle = async (answer: ServerResponse, body: string, everyMs: number): Promise<void> => {
  answer.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  for (const byte of Buffer.from(body)) {
    if (answer.destroyed) {
      return;
    }
    answer.write(Buffer.from([byte]));
    await delay(everyMs);
  }
  answer.end();
};

/** Carries a fault out. Answers whether the request goes on. */
const suffer = async ({ act }: Fault, answer: ServerResponse, result: Result): Promise<boolean> => {
  if (act.kind === "delay") {
    await delay(act.ms);
    return true;
  }
  if (act.kind === "die") {
    process.kill(process.pid, "SIGKILL");
  } else if (act.kind === "cut") {
    answer.req.socket.resetAndDestroy();
  } else if (act.kind === "stall") {
    answer.writeHead(200, { "content-type": "application/json", "content-length": 100 }).write('{"id":');
  } else if (act.kind === "trickle") {
    await trickle(answer, result.body, act.everyMs);
  } else if (act.kind === "reply") {
    const body = act.body
      .replaceAll("$ID", result.claim?.id ?? "")
      .replaceAll("$TOKEN", result.claim?.token ?? "")
      .replace("$PAD", "x".repeat(act.pad ?? 0));
    send(answer, act.status, body, act.type);
  }
  return false;
};

const handle = async (incoming: IncomingMessage, answer: ServerResponse): Promise<void> => {
  const url = new URL(incoming.url ?? "/", "http://node");
  const { route, id } = targetOf(incoming.method ?? "", url.pathname);
  const body = await text(incoming);
  if (route === undefined) {
    state.journal({ at: Date.now(), kind: "request", route: `${incoming.method} ${url.pathname}` });
    send(answer, 404, "404 page not found\n", "text/plain");
    return;
  }
  const asked = route === "claim" ? (JSON.parse(body) as ClaimBody) : {};
  state.journal({
    at: Date.now(),
    kind: "request",
    route,
    id: id === "" ? undefined : id,
    claimRef: asked.claim_ref,
    noRedirect: asked.no_redirect,
  });
  const before = state.fault(route, "before");
  if (before !== undefined && !(await suffer(before, answer, { status: 0, body: "{}" }))) {
    return;
  }
  const result = refusal(incoming) ?? perform(route, id, url.searchParams, body);
  const after = result.status < 300 ? state.fault(route, "after") : undefined;
  if (after !== undefined && !(await suffer(after, answer, result))) {
    return;
  }
  if (result.status === 204) {
    answer.writeHead(204).end();
  } else {
    send(answer, result.status, result.body);
  }
};

/** Ends a connection that has had its answer and no further request for the time the script gives. */
const closeWhenIdle = (answer: ServerResponse): void => {
  const { idleMs } = state.script;
  const { socket } = answer.req;
  if (idleMs > 0) {
    const timer = setTimeout(() => socket.end(), idleMs);
    socket.once("data", () => clearTimeout(timer));
    socket.once("close", () => clearTimeout(timer));
  }
};

const server = createServer((incoming, answer) => {
  incoming.on("error", () => undefined);
  answer.on("error", () => undefined);
  answer.once("finish", () => closeWhenIdle(answer));
  handle(incoming, answer).catch((error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
    answer.destroy();
  });
});
// Clients decide how long connections are kept, unless the script closes them.
server.keepAliveTimeout = 0;
server.headersTimeout = 0;
server.requestTimeout = 0;
server.on("clientError", (_error, socket) => socket.destroy());
server.on("upgrade", (incoming: IncomingMessage, socket, head) => relays.take(incoming, socket, head));

let reaper = setInterval(() => state.reap(), state.script.reapMs);
process.on("SIGHUP", () => {
  state.reload();
  clearInterval(reaper);
  reaper = setInterval(() => state.reap(), state.script.reapMs);
  process.stdout.write(`script ${state.script.version}\n`);
});
process.on("SIGTERM", () => process.exit(0));
state.save();
server.listen(Number(portText), host, () => process.stdout.write("scripted node up\n"));
