import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import { callProxy } from "../../src/api.ts";
import { CLOSED_PORT, type HostileRig } from "../../src/hostile-rig.ts";
import { answersIn, each, open, talk, upTo } from "../../src/raw-talk.ts";
import type { ScriptedRelayPorts } from "../../src/scripted-node-script.ts";
import { type HostileContext, type HostileRow, rigRow, times } from "./context.ts";
import { isJsonError } from "./table-rows.ts";

const AT_ONCE = 32;
const SWITCH = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";

/** What a guest does with the wish for a WebSocket; `statuses` are what the client may see. */
interface UpgradeTrick {
  readonly bytes: string;
  readonly ending: "end" | "reset" | "keep";
  readonly statuses: readonly number[];
}

const GUEST_TRICKS: readonly UpgradeTrick[] = [
  { bytes: "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone", ending: "end", statuses: [404] },
  { bytes: "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone", ending: "keep", statuses: [404] },
  { bytes: "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone", ending: "reset", statuses: [404, 502] },
  {
    bytes: "HTTP/1.1 502 Bad Gateway\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nnone\r\n0\r\n\r\n",
    ending: "keep",
    statuses: [502],
  },
  { bytes: "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine", ending: "keep", statuses: [200] },
  { bytes: "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n", ending: "end", statuses: [426] },
  { bytes: "\0\x01\x02garbage\r\n\r\n", ending: "end", statuses: [502] },
  { bytes: "garbage without an end", ending: "reset", statuses: [502] },
  { bytes: "HTTP/1.1 101 Swi", ending: "end", statuses: [502] },
  { bytes: "HTTP/1.1 101 Swi", ending: "reset", statuses: [502] },
  { bytes: "", ending: "end", statuses: [502] },
  { bytes: "", ending: "reset", statuses: [502] },
  { bytes: "HTTP/1.1 404 Not Found\r\nContent-Length: 40\r\n\r\nhalf", ending: "end", statuses: [404, 502] },
  { bytes: "HTTP/1.1 404 Not Found\r\nContent-Length: 40\r\n\r\nhalf", ending: "reset", statuses: [404, 502] },
  { bytes: SWITCH, ending: "end", statuses: [101] },
  { bytes: SWITCH, ending: "reset", statuses: [101, 502] },
  { bytes: `${SWITCH}\x82\x7e`, ending: "reset", statuses: [101, 502] },
  { bytes: `${SWITCH}\x82\x05hello`, ending: "end", statuses: [101] },
  { bytes: SWITCH, ending: "keep", statuses: [101] },
];

/** What a node does with the wish for a relay, by the guest port that a request is for. */
const NODE_TRICKS: readonly (readonly [statuses: readonly number[], trick: ScriptedRelayPorts["tricks"][string]])[] = (
  [
    [[502], "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\n{}", "end"],
    [[500], "HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\n{}", "end"],
    [[400], "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}", "end"],
    [[401, 500, 502], "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}", "end"],
    [[500], "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}", "end"],
    [[500, 502], "HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\n{}", "end"],
    [[500], "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\n{}", "end"],
    [[500], "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "end"],
    [[500], "HTTP/1.1 302 Found\r\nLocation: http://203.0.113.1/\r\nContent-Length: 0\r\n\r\n", "end"],
    [[500], "HTTP/1.1 404 Not Found\r\nContent-Length: 4000\r\n\r\nhalf", "reset"],
    [[500], "garbage\0\x01\r\n\r\n", "end"],
    [[500], "garbage without an end", "reset"],
    [[500], `HTTP/1.1 500 ${"x".repeat(100_000)}\r\n\r\n`, "end"],
    [[500], "HTTP/1.1 101 Swi", "end"],
    [[500], "HTTP/1.1 101 Swi", "reset"],
    [[500], "", "end"],
    [[500], "", "reset"],
    [[502], "HTTP/1.1 101 Switching Protocols\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\n", "end"],
    [[502], "HTTP/1.1 101 Switching Protocols\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\n", "reset"],
    [
      [502],
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\nearly garbage\r\n\r\n",
      "reset",
    ],
  ] as const
).map(([statuses, bytes, ending]) => [statuses, { bytes, ending }]);

const FIRST_TRICK = 6_000;

/** Port at which the node takes the wish for a relay and never answers. */
const HANGING_PORT = 6_999;

/** Tricks of the rig's node, by port. */
export const NODE_TRICK_PORTS: ScriptedRelayPorts["tricks"] = {
  ...Object.fromEntries(NODE_TRICKS.map(([, trick], index) => [FIRST_TRICK + index, trick])),
  [HANGING_PORT]: { bytes: "", ending: "hang" },
};

/** Upgrades that are refused, garbled or reset, by guests and by nodes. */
export function upgradeRows(context: HostileContext): readonly HostileRow[] {
  const cycles = times(context, 1_000, 60);
  return [
    rigRow(
      context,
      "H30",
      `${cycles} WebSockets that the guest answers with 404, 502, 200, garbage, half an answer, an end or a reset at each step, each way in`,
      (rig) => guestTricks(rig, cycles),
    ),
    rigRow(
      context,
      "H31",
      `${cycles} relays that the node refuses, garbles, cuts or resets at each step, under requests and WebSockets`,
      (rig) => nodeTricks(rig, cycles),
    ),
    rigRow(context, "H32", "a refused WebSocket is told why in JSON that browsers of any origin may read", (rig) =>
      refusals(rig),
    ),
    rigRow(context, "H33", "clients that leave while the node has not answered free its relay within 1 s", (rig) =>
      hanging(rig, times(context, 200, 20)),
    ),
  ];
}

function handshake(host: string, path: string, more = ""): Buffer {
  return Buffer.from(
    `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${more}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
  );
}

async function guestTricks(rig: HostileRig, cycles: number): Promise<void> {
  rig.guest.on("tricks", {
    onHead: (request, connection) => {
      const { socket } = connection;
      const trick = GUEST_TRICKS[Number(request.target.split("/")[2])];
      connection.take(() => undefined);
      socket.once("end", () => socket.end());
      socket.write(trick?.bytes ?? "", "latin1", () => {
        if (trick?.ending === "end") {
          socket.end();
        } else if (trick?.ending === "reset") {
          setTimeout(() => socket.resetAndDestroy(), 5);
        }
      });
    },
  });
  const once = async (index: number): Promise<void> => {
    const at = index % GUEST_TRICKS.length;
    const trick = GUEST_TRICKS[at];
    assert.ok(trick !== undefined);
    // The client ends in one of three ways, with a frame under way or not.
    const ending = (["wait", "fin", "reset"] as const)[Math.floor(index / GUEST_TRICKS.length) % 3] ?? "wait";
    const { bytes } = await talk(rig.proxyPort, [handshake(rig.host(), `/tricks/${at}`), Buffer.from("\x82\x85")], {
      ending,
      pauseMs: 5,
      enough: () => trick.ending === "keep",
      lingerMs: 5,
    });
    const [answer] = answersIn(bytes);
    if (ending === "wait") {
      assert.ok(trick.statuses.includes(answer?.status ?? 0), `trick ${at}: the client saw ${answer?.status}`);
      assert.ok(answer?.status !== 502 || at === 3 || isJsonError(answer), `trick ${at}: a 502 without a JSON error`);
    }
  };
  await rig.flat(
    () => each(upTo(GUEST_TRICKS.length * 3), AT_ONCE, once),
    () => each(upTo(cycles), AT_ONCE, once),
  );
}

async function nodeTricks(rig: HostileRig, cycles: number): Promise<void> {
  const once = async (index: number): Promise<void> => {
    const at = index % NODE_TRICKS.length;
    const [statuses = []] = NODE_TRICKS[at] ?? [];
    const host = rig.host(FIRST_TRICK + at);
    const upgrade = Math.floor(index / NODE_TRICKS.length) % 2 === 0;
    const plain = Buffer.from(
      `POST /x HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody`,
    );
    const { bytes, end } = await talk(rig.proxyPort, [upgrade ? handshake(host, "/x") : plain]);
    const [answer] = answersIn(bytes);
    const where = `node trick ${at} (${JSON.stringify(NODE_TRICKS[at]?.[1].bytes.slice(0, 30))}, ${NODE_TRICKS[at]?.[1].ending}), ${upgrade ? "upgrade" : "request"}`;
    assert.notEqual(end, "open", `${where}: the connection stays open`);
    assert.ok(statuses.includes(answer?.status ?? 0), `${where}: the client saw ${answer?.status}`);
    assert.ok(answer !== undefined && isJsonError(answer), `${where}: no JSON error`);
    assert.ok(!bytes.includes(rig.node.address), `${where}: the answer names the node`);
  };
  await rig.flat(
    () => each(upTo(NODE_TRICKS.length * 2), AT_ONCE, once),
    () => each(upTo(cycles), AT_ONCE, once),
  );
}

async function refusals(rig: HostileRig): Promise<void> {
  const origin = "Origin: https://app.example.test\r\n";
  const envd = rig.host(49_983);
  const cases: readonly (readonly [name: string, status: number, host: string, path: string, more: string])[] = [
    ["without a token", 401, envd, "/x", origin],
    ["with a wrong token", 401, envd, "/x", `${origin}X-Access-Token: wrong\r\n`],
    ["to no sandbox", 400, "nothing.example.test", "/x", origin],
    ["to an internal path", 404, rig.host(), "/init", origin],
    ["to a sandbox that is not there", 502, rig.host().replace("sb-", "sb-0"), "/x", origin],
    ["to a closed port", 502, rig.host(CLOSED_PORT), "/x", origin],
  ];
  for (const [name, status, host, path, more] of cases) {
    const { bytes, end } = await talk(rig.proxyPort, [handshake(host, path, more)]);
    const [answer] = answersIn(bytes);
    assert.equal(answer?.status, status, `an upgrade ${name}`);
    assert.ok(isJsonError(answer), `an upgrade ${name}: ${answer.body.toString()}`);
    assert.equal(answer.headers.get("access-control-allow-origin"), "*", `an upgrade ${name}: allowed origin`);
    assert.equal(end, "fin", `an upgrade ${name}: the connection`);
  }
  // The control plane upgrades nothing; it answers as if nobody had asked.
  const api = await talk(rig.apiPort, [handshake(`127.0.0.1:${rig.apiPort}`, "/v2/sandboxes", origin)]);
  const [answer] = answersIn(api.bytes);
  assert.equal(answer?.status, 401, "an upgrade at the control plane without a key");
  assert.ok(isJsonError(answer), "an upgrade at the control plane: no JSON error");
  assert.notEqual(
    answer.headers.get("access-control-allow-origin"),
    undefined,
    "an upgrade at the control plane: CORS",
  );
  const closed = await callProxy(rig.front.facts.proxyUrl, "GET", "/x", {
    ...rig.routed(CLOSED_PORT),
    accept: "text/html",
  });
  assert.match(closed.text, /running but port is not open/);
}

async function hanging(rig: HostileRig, cycles: number): Promise<void> {
  const relays = (): number =>
    rig.node.journal().filter((line) => line.kind === "request" && line.route === "relay").length;
  const once = async (index: number): Promise<void> => {
    const host = rig.host(HANGING_PORT);
    const socket = await open(rig.proxyPort);
    socket.write(index % 2 === 0 ? handshake(host, "/x") : `GET /x HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    await delay(40);
    if (index % 3 === 0) {
      socket.end();
    } else if (index % 3 === 1) {
      socket.resetAndDestroy();
    }
    socket.destroy();
  };
  const before = relays();
  await rig.flat(
    () => each(upTo(20), 10, once),
    () => each(upTo(cycles), 10, once),
  );
  assert.equal(relays() - before, 20 + cycles, "relays that were asked for");
}
