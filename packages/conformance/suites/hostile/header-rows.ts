import assert from "node:assert/strict";
import { connect } from "node:http2";

import { callProxy } from "../../src/api.ts";
import { APP_PORT, CLOSED_PORT, HostileRig } from "../../src/hostile-rig.ts";
import { answered, answersIn, talk } from "../../src/raw-talk.ts";
import type { Echo } from "../../src/scripted-guest.ts";
import { fieldOf, fieldsOf } from "../../src/strict-request.ts";
import { Findings, type HostileContext, type HostileRow, rigRow } from "./context.ts";
import { isJsonError } from "./table-rows.ts";

const ENVD_PORT = 49_983;

/** What guests are shown of a request, and which guest it is that is asked. */
export function headerRows(context: HostileContext): readonly HostileRow[] {
  return [
    rigRow(
      context,
      "H50",
      "keys, tokens, forwarding fields and what Connection names reach no guest: HTTP/1.1, HTTP/2, upgrades, trailers",
      (rig) => stripped(rig),
      true,
    ),
    {
      id: "H51",
      title: "with derived tokens the guest sees the token it must check, and no key",
      quick: false,
      run: async () => {
        const rig = await HostileRig.start({ set: context.set, programs: context.programs, mode: "secret" });
        try {
          const { headers } = await rig.echo("/well", {
            ...rig.routed(ENVD_PORT),
            "x-access-token": rig.token,
            "x-api-key": rig.front.facts.keys.one,
          });
          assert.equal(fieldOf(headers, "x-access-token"), rig.token);
          assert.equal(fieldOf(headers, "x-api-key"), undefined);
          await rig.judge();
        } finally {
          await rig.close();
        }
      },
    },
    rigRow(
      context,
      "H52",
      "a sandbox is named by host, by absolute target or by headers; headers win, and no form answers 500",
      (rig) => forms(rig),
      true,
    ),
    rigRow(
      context,
      "H53",
      "ids and ports that are no names (paths, escapes, other hosts, 100 KB) reach no other route of a node",
      (rig) => oddIds(rig),
      true,
    ),
    rigRow(
      context,
      "H54",
      "routed /metrics, /health and /envs reach the sandbox in every spelling, internal paths in none",
      (rig) => ownPaths(rig),
      true,
    ),
    rigRow(
      context,
      "H55",
      "targets arrive as they were written, on requests and upgrades",
      (rig) => targets(rig),
      true,
    ),
    rigRow(context, "H56", "a closed port is a JSON 502 for whoever asks, however", (rig) => closedPort(rig), true),
    {
      id: "H57",
      title: "nodes at IPv6 addresses are polled, claimed from and relayed through",
      quick: false,
      run: async () => {
        const rig = await HostileRig.start({ set: context.set, programs: context.programs, nodeHost: "::1" });
        try {
          assert.match(rig.sandbox.clientID, /^\[::1\]:\d+$/);
          await rig.judge();
        } finally {
          await rig.close();
        }
      },
    },
  ];
}

async function stripped(rig: HostileRig): Promise<void> {
  const { keys } = rig.front.facts;
  const hostile: Record<string, string> = {
    "X-API-Key": keys.one,
    "x-api-KEY": keys.two,
    "X-Access-Token": rig.token,
    "X-Secret": "named by Connection",
    "Proxy-Authorization": "Basic cHJveHk6c2VjcmV0",
    "Proxy-Connection": "keep-alive",
    "Keep-Alive": "timeout=5",
    Forwarded: "for=203.0.113.66",
    "X-Forwarded-For": "203.0.113.66",
    "X-Forwarded-Host": "evil.example.test",
    "X-Forwarded-Proto": "gopher",
    TE: "trailers, deflate",
    "HTTP2-Settings": "AAMAAABkAAQAoAAAAAIAAAAA",
    Authorization: "Basic dXNlcjo=",
    Cookie: "a=b",
  };
  const lines = Object.entries(hostile)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("");
  const rest =
    "4\r\nbody\r\n0\r\nX-API-Key: " +
    `${keys.one}\r\nX-Access-Token: ${rig.token}\r\nAuthorization: x\r\nX-Sum: 1\r\n\r\n`;
  const plain = `POST /strip-a HTTP/1.1\r\nHost: ${rig.host()}\r\n${lines}Connection: close, X-Secret, Cookie2\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n${rest}`;
  const upgrade = `GET /strip-b HTTP/1.1\r\nHost: ${rig.host()}\r\n${lines}Connection: Upgrade, X-Secret\r\nUpgrade: websocket\r\n\r\n`;
  await talk(rig.proxyPort, [Buffer.from(plain)]);
  await talk(rig.proxyPort, [Buffer.from(upgrade)], { enough: answered() });
  const session = connect(rig.front.facts.proxyUrl);
  await new Promise<void>((resolve, reject) => {
    session.once("error", reject);
    const allowed = Object.entries(hostile).filter(
      ([name]) => !["Proxy-Connection", "Keep-Alive", "TE", "HTTP2-Settings", "x-api-KEY"].includes(name),
    );
    const stream = session.request({
      ":path": "/strip-c",
      ":authority": rig.host(),
      te: "trailers",
      ...Object.fromEntries(allowed.map(([name, value]) => [name.toLowerCase(), value])),
    });
    stream.once("error", reject);
    stream.resume();
    stream.once("close", resolve);
  }).finally(() => session.destroy());

  for (const tag of ["strip-a", "strip-b", "strip-c"]) {
    const [request] = rig.guest.seen(`/${tag}`);
    assert.ok(request !== undefined, `${tag} reached the guest`);
    const { headers } = request;
    const named = tag === "strip-c" ? [] : ["x-secret"];
    const gone = [
      "x-api-key",
      "x-access-token",
      "proxy-authorization",
      "proxy-connection",
      "keep-alive",
      "forwarded",
      "http2-settings",
      ...named,
    ];
    for (const name of gone) {
      assert.equal(fieldOf(headers, name), undefined, `${tag}: the guest saw ${name}`);
    }
    assert.deepEqual(fieldsOf(headers, "x-forwarded-for"), ["127.0.0.1"], `${tag}: X-Forwarded-For`);
    assert.deepEqual(fieldsOf(headers, "x-forwarded-host"), [rig.host()], `${tag}: X-Forwarded-Host`);
    assert.deepEqual(fieldsOf(headers, "x-forwarded-proto"), ["http"], `${tag}: X-Forwarded-Proto`);
    assert.deepEqual(fieldsOf(headers, "host"), [rig.host()], `${tag}: Host`);
    assert.deepEqual(fieldsOf(headers, "authorization"), ["Basic dXNlcjo="], `${tag}: Authorization`);
    assert.deepEqual(fieldsOf(headers, "cookie"), ["a=b"], `${tag}: Cookie`);
    assert.deepEqual(fieldsOf(headers, "te"), ["trailers"], `${tag}: TE`);
  }
  const [chunked] = rig.guest.seen("/strip-a");
  assert.deepEqual(chunked?.trailers, ["X-Sum", "1"], "the trailers that the guest saw");
}

async function forms(rig: HostileRig): Promise<void> {
  const { sandboxID } = rig.sandbox;
  const pair = (id: string, port: string): string => `E2b-Sandbox-Id: ${id}\r\nE2b-Sandbox-Port: ${port}\r\n`;
  const app = String(APP_PORT);
  const elsewhere = `${APP_PORT}-sb-elsewhere.sandbox.example.test`;
  const cases: readonly (readonly [name: string, status: number, target: string, host: string, headers: string])[] = [
    ["the host", 200, "/f", rig.host(), ""],
    ["the host in capitals, with a port and a dot", 200, "/f", `${rig.host().toUpperCase()}.:8443`, ""],
    ["the pair on the stable host", 200, "/f", "sandbox.sandbox.example.test", pair(sandboxID, app)],
    ["the pair on any host", 200, "/f", "127.0.0.1", pair(sandboxID, app)],
    ["the pair without a host", 200, "/f", "", pair(sandboxID, app)],
    ["the pair against a host of another sandbox", 200, "/f", elsewhere, pair(sandboxID, app)],
    ["a pair of another sandbox against the host", 502, "/f", rig.host(), pair("sb-elsewhere", app)],
    ["a pair of a closed port against the host", 502, "/f", rig.host(), pair(sandboxID, String(CLOSED_PORT))],
    ["an id without a port", 400, "/f", rig.host(), `E2b-Sandbox-Id: ${sandboxID}\r\n`],
    ["an id with an empty port", 400, "/f", rig.host(), pair(sandboxID, "")],
    ["an id with a port that is a word", 400, "/f", rig.host(), pair(sandboxID, "http")],
    ["an id with port 0", 400, "/f", rig.host(), pair(sandboxID, "0")],
    ["an id with a negative port", 400, "/f", rig.host(), pair(sandboxID, "-1")],
    ["an id with port 65536", 400, "/f", rig.host(), pair(sandboxID, "65536")],
    ["an id with a signed port", 400, "/f", rig.host(), pair(sandboxID, "+3000")],
    ["an id with a hexadecimal port", 400, "/f", rig.host(), pair(sandboxID, "0xbb8")],
    ["two ids, of which the first counts", 200, "/f", "x", `${pair(sandboxID, app)}E2b-Sandbox-Id: sb-elsewhere\r\n`],
    ["a port alone, which is ignored", 200, "/f", rig.host(), "E2b-Sandbox-Port: 9\r\n"],
    ["an empty id, which is ignored", 200, "/f", rig.host(), "E2b-Sandbox-Id:  \r\n"],
    ["an absolute target against the host", 200, `http://${rig.host()}/f`, elsewhere, ""],
    ["an absolute target of another sandbox", 502, `http://${elsewhere}/f`, rig.host(), ""],
    ["an absolute target with a user", 200, `http://me:secret@${rig.host()}/f`, "x", ""],
    ["an absolute target without a host", 400, "http:///f", rig.host(), ""],
    ["no host at all", 400, "/f", "", ""],
    ["files without any name of a sandbox", 400, "/files?path=/etc/hosts", "127.0.0.1", ""],
    ["a host that is an address", 400, "/f", "[::1]:8443", ""],
  ];
  const findings = new Findings();
  for (const [name, status, target, host, headers] of cases) {
    const request = `GET ${target} HTTP/1.1\r\n${host === "" ? "" : `Host: ${host}\r\n`}${headers}Connection: close\r\n\r\n`;
    const [answer] = answersIn((await talk(rig.proxyPort, [Buffer.from(request)])).bytes);
    if (answer?.status !== status) {
      findings.add(name, `answered ${answer?.status} ${answer?.body.toString()}, want ${status}`);
    } else if (status !== 200 && !isJsonError(answer)) {
      findings.add(name, "no JSON error");
    } else if (status === 200) {
      const seen = JSON.parse(answer.body.toString()) as Echo;
      if (fieldOf(seen.headers, "host") !== rig.host()) {
        findings.add(name, `the guest saw the host ${fieldOf(seen.headers, "host")}`);
      }
    }
  }
  findings.settle();
}

async function oddIds(rig: HostileRig): Promise<void> {
  const ids = [
    "../../v1/claim",
    "..",
    ".",
    "/",
    "a/b",
    "a/ports/22",
    "?x=y",
    "#",
    "%2e%2e%2f",
    "%0d%0aX:%20y",
    "sb_%00",
    "sb;x",
    "sb x",
    "é",
    "ÿ",
    "*",
    "sb_a@203.0.113.1",
    "203.0.113.1:80",
    "[::1]",
    "__proto__",
    "constructor",
    "sb_".padEnd(1e5, "a"),
    rig.sandbox.sandboxID.toUpperCase(),
    ` 	 x`,
  ];
  const routes = (): string[] =>
    rig.node
      .journal()
      .filter((line) => line.kind === "request")
      .map((line) => line.route);
  const before = routes().length;
  for (const id of ids) {
    const request = `GET /f HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: ${id}\r\nE2b-Sandbox-Port: ${APP_PORT}\r\nConnection: close\r\n\r\n`;
    const { bytes } = await talk(rig.proxyPort, [Buffer.from(request, "latin1")]);
    const [answer] = answersIn(bytes);
    assert.ok([400, 502].includes(answer?.status ?? 0), `id ${id.slice(0, 40)} answered ${answer?.status}`);
    assert.ok(answer !== undefined && isJsonError(answer), `id ${id.slice(0, 40)}: no JSON error`);
    assert.ok(id.length < 4 || !answer.body.includes(id), `id ${id.slice(0, 40)} is in the answer`);
  }
  const asked = new Set(routes().slice(before));
  for (const route of asked) {
    assert.ok(
      ["info", "index", "sandbox", "relay"].includes(route) || /^GET \/v1\/sandboxes\/[^/]+(?:\/owner)?$/.test(route),
      `an id led to ${route} of the node`,
    );
  }
}

async function ownPaths(rig: HostileRig): Promise<void> {
  const { proxyUrl } = rig.front.facts;
  for (const path of ["/metrics", "/health", "/envs", "/healthz/", "/init/x", "/initx", "/files", "/openapi.json"]) {
    const seen = await rig.echo(path);
    assert.equal(seen.target, path);
  }
  const internal = [
    "/init",
    "/INIT",
    "/init/",
    "//init",
    "/./init",
    "/x/../init",
    "/%69nit",
    "/init%2F",
    "/%2e/init",
    "/init?x=y",
    "/freeze",
    "/unfreeze",
    "/fsfreeze",
    "/fsthaw",
    "/collapse",
    "/upgrade",
    "/Upgrade//",
    "/x/%2e%2e/upgrade",
  ];
  for (const path of internal) {
    for (const method of ["GET", "POST"]) {
      const request = `${method} ${path} HTTP/1.1\r\nHost: ${rig.host()}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`;
      const [answer] = answersIn((await talk(rig.proxyPort, [Buffer.from(request)])).bytes);
      assert.equal(answer?.status, 404, `${method} ${path}`);
      assert.ok(isJsonError(answer), `${method} ${path}: no JSON error`);
    }
  }
  const health = await callProxy(proxyUrl, "GET", "/healthz", {});
  assert.equal(health.status, 204);
  assert.ok(
    !rig.guest.seen("").some((request) => /^\/+(?:init|upgrade)\/*$/i.test(request.target)),
    "an internal path came through",
  );
}

async function targets(rig: HostileRig): Promise<void> {
  const raw = [
    "/t?t=a%2Bb%3D%3D",
    "/t?a=1&a=2;b=3",
    "/t?%zz&=&&",
    "/t%2Fu/%7e?x=%00",
    "//t//u/../v/./w",
    "/t/%E4%B8%AD?%F0%9F%99%82",
    "/t?redirect=https://evil.example.test/?a=b",
    "/t\\u?'\"<>[]{}|^`",
    `/t?${"x".repeat(100_000)}`,
  ];
  for (const target of raw) {
    for (const upgrade of [false, true]) {
      const wish = upgrade ? "Connection: Upgrade\r\nUpgrade: websocket\r\n" : "Connection: close\r\n";
      const request = `GET ${target} HTTP/1.1\r\nHost: ${rig.host()}\r\n${wish}\r\n`;
      const [answer] = answersIn((await talk(rig.proxyPort, [Buffer.from(request)], { enough: answered() })).bytes);
      assert.equal(answer?.status, 200, `${target.slice(0, 60)}: ${answer?.head}`);
      assert.equal((JSON.parse(answer.body.toString()) as Echo).target, target);
    }
  }
}

async function closedPort(rig: HostileRig): Promise<void> {
  const host = rig.host(CLOSED_PORT);
  const cases: readonly (readonly [name: string, lines: string])[] = [
    ["text/html", "Accept: text/html,application/xhtml+xml\r\n"],
    ["*/*", "Accept: */*\r\n"],
    ["application/json", "Accept: application/json\r\n"],
    ["no Accept", ""],
    ["a WebSocket", "Connection: Upgrade\r\nUpgrade: websocket\r\n"],
    ["a body", "Expect: 100-continue\r\nContent-Length: 5\r\n"],
  ];
  for (const [name, lines] of cases) {
    const request = `GET / HTTP/1.1\r\nHost: ${host}\r\nOrigin: https://a.example.test\r\n${lines}\r\n`;
    const { bytes } = await talk(rig.proxyPort, [Buffer.from(request)], { enough: answered() });
    const [answer] = answersIn(bytes);
    assert.equal(answer?.status, 502, name);
    assert.ok(isJsonError(answer), `${name}: no JSON error`);
    assert.match(answer.body.toString(), /running but port is not open/, name);
    assert.equal(answer.headers.get("access-control-allow-origin"), "*", name);
    assert.ok(!bytes.includes("100 Continue"), `${name}: a body was asked for that nobody takes`);
  }
}
