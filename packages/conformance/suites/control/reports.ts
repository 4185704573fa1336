import assert from "node:assert/strict";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

import { callApi, callProxy, type Created, createSandbox, expectError, runInGuest } from "../../src/api.ts";
import type { Front } from "../../src/front.ts";
import { type GuestMesh, restock } from "../../src/guest-mesh.ts";
import type { HarnessRow } from "../../src/harness-rows.ts";
import { waitFor } from "../../src/polling.ts";
import { IMAGE, RIG } from "../../src/rig.ts";
import { pool } from "../../src/scripted-node.ts";
import { rigRow, send, verb } from "../faults/context.ts";
import { type ControlContext, type HeldRows, laneMesh } from "./context.ts";

/** Ways to say nothing, or as good as nothing, in the body of a request. */
const EMPTY_BODIES: readonly (readonly [what: string, head: string, body: string])[] = [
  ["no body and no content type", "", ""],
  ["a length of 0", "Content-Length: 0\r\n", ""],
  ["a content type and a length of 0", "Content-Type: application/json\r\nContent-Length: 0\r\n", ""],
  ["chunks of nothing", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"],
  [
    "a content type and chunks of nothing",
    "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n",
    "0\r\n\r\n",
  ],
  ["an empty object", "Content-Type: application/json\r\nContent-Length: 2\r\n", "{}"],
  [
    "an empty object in chunks",
    "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n",
    "2\r\n{}\r\n0\r\n\r\n",
  ],
  ["null", "Content-Type: application/json\r\nContent-Length: 4\r\n", "null"],
];

/** Sends a POST as it stands and answers its status. */
async function post(front: Front, path: string, head: string, body: string): Promise<number> {
  const { hostname, port } = new URL(front.facts.apiUrl);
  const text = await new Promise<string>((resolve, reject) => {
    let seen = "";
    const socket = connect(Number(port), hostname, () =>
      socket.write(
        `POST ${path} HTTP/1.1\r\nHost: ${hostname}\r\nX-API-Key: ${front.facts.keys.one}\r\nConnection: close\r\n${head}\r\n${body}`,
      ),
    );
    socket.setEncoding("utf8").on("data", (part: string) => {
      seen += part;
    });
    socket.once("error", reject);
    socket.once("close", () => resolve(seen));
  });
  return Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? 0);
}

interface Detail {
  readonly state: string;
  readonly startedAt: string;
  readonly endAt: string;
}

async function detail(front: Front, id: string): Promise<Detail> {
  const reply = await send(front, verb("get"), id);
  assert.equal(reply.status, 200, reply.text);
  return JSON.parse(reply.text) as Detail;
}

async function kill(front: Front, { sandboxID }: Created, key?: string): Promise<void> {
  const reply = await callApi(front.facts, "DELETE", `/sandboxes/${sandboxID}`, key === undefined ? {} : { key });
  assert.equal(reply.status, 204, reply.text);
}

/** Faults that users of such servers met, each by the kind of it. */
export function reportLanes(context: ControlContext): readonly HeldRows[] {
  const held = laneMesh(context, "reports", { nodes: 1, warm: 4 });
  let started: Promise<Front> | undefined;
  const ready = async (): Promise<{ front: Front; mesh: GuestMesh }> => {
    const mesh = await held.mesh();
    const front = await (started ??= mesh.front());
    await restock(mesh, front.facts.pollMs);
    return { mesh, front };
  };

  const rows: HarnessRow[] = [
    {
      id: "FR1",
      title: "both versions of create and connect, what a field cannot be is 400, an unknown path is a JSON 404",
      run: async () => {
        const { front } = await ready();
        const made = await createSandbox(front.facts);
        for (const path of ["/sandboxes", "/v2/sandboxes"]) {
          for (const body of [{ autoPauseMemory: true }, { autoPauseMemory: false }, { iam: { tokens: {} } }]) {
            const reply = await callApi(front.facts, "POST", path, { body: { templateID: "base", ...body } });
            const [name = ""] = Object.keys(body);
            assert.ok(expectError(reply, 400, `${path} ${name}`).includes(name));
          }
          const memory = { body: { memory: false } };
          const reply = await callApi(front.facts, "POST", `${path}/${made.sandboxID}/connect`, memory);
          assert.match(expectError(reply, 400, `${path} connect`), /memory/);
          const good = await callApi(front.facts, "POST", `${path}/${made.sandboxID}/connect`, {
            body: { memory: true },
          });
          assert.equal(good.status, 200, good.text);
        }
        for (const path of ["/v3/sandboxes", `/v3/sandboxes/${made.sandboxID}/connect`, "/v2/nothing"]) {
          expectError(await callApi(front.facts, "POST", path, { body: {} }), 404, path);
        }
        await kill(front, made);
      },
    },
    {
      id: "FR7",
      title: "resume, connect, pause and refreshes take every empty body there is",
      run: async () => {
        const { front } = await ready();
        const made = await createSandbox(front.facts);
        const path = `/sandboxes/${made.sandboxID}`;
        for (const [what, head, body] of EMPTY_BODIES) {
          assert.equal(await post(front, `${path}/pause`, head, body), 204, `pause with ${what}`);
          assert.equal(await post(front, `${path}/resume`, head, body), 201, `resume with ${what}`);
          assert.equal(await post(front, `${path}/pause`, head, body), 204, `a second pause with ${what}`);
          assert.equal(await post(front, `/v2${path}/connect`, head, body), 201, `connect with ${what}`);
          assert.equal(await post(front, `${path}/refreshes`, head, body), 204, `refreshes with ${what}`);
        }
        await kill(front, made);
      },
    },
    {
      id: "FR13a",
      title: "a resume and a connect with a second left, and for a second, end in the future",
      run: async () => {
        const { front } = await ready();
        for (const wake of ["resume", "connect"]) {
          for (const timeout of [1, 30]) {
            const made = await createSandbox(front.facts, { autoPause: true });
            const path = `/sandboxes/${made.sandboxID}`;
            await callApi(front.facts, "POST", `${path}/timeout`, { body: { timeout: 1 } });
            assert.equal((await send(front, verb("pause"), made.sandboxID)).status, 204);
            const asked = Date.now();
            const reply = await callApi(front.facts, "POST", `${path}/${wake}`, { body: { timeout } });
            assert.equal(reply.status, 201, reply.text);
            const { startedAt, endAt } = await detail(front, made.sandboxID);
            // Times are told in whole seconds.
            assert.ok(Date.parse(endAt) >= asked + (timeout - 1) * 1_000, `${wake} ${timeout}: it ends at ${endAt}`);
            assert.ok(startedAt <= endAt);
            await kill(front, made);
          }
        }
      },
    },
    {
      id: "FR13b",
      title: "a create that takes seven seconds is answered",
      run: async () => {
        const { front, mesh } = await ready();
        await mesh.nodes[0]?.admin.faults([
          { kind: "delay", method: "POST", path: "/v1/claim", delay_ms: 7_000, times: 1 },
        ]);
        const begun = performance.now();
        const made = await createSandbox(front.facts, { timeout: 60 });
        assert.ok(performance.now() - begun >= 6_900, "it took its time");
        const left = Date.parse((await detail(front, made.sandboxID)).endAt) - Date.now();
        assert.ok(left > 50_000 && left <= 61_000, `${left} ms are left`);
        await kill(front, made);
        await mesh.nodes[0]?.admin.faults([]);
      },
    },
    {
      id: "FR31",
      title: "a key at its limit: a create is 429, and waking what is paused needs no room, since it counts already",
      run: async () => {
        const { front } = await ready();
        const key = RIG.keys.limited;
        const made = await createSandbox(front.facts, {}, key);
        const path = `/sandboxes/${made.sandboxID}`;
        const refused = async (what: string): Promise<void> => {
          const reply = await callApi(front.facts, "POST", "/v2/sandboxes", { key, body: { templateID: "base" } });
          assert.match(expectError(reply, 429, what), /max_sandboxes=1\b.*--e2b-api-key-file/);
          assert.match(String(reply.headers["retry-after"]), /^[1-9]\d*$/);
        };
        const pause = async (): Promise<void> =>
          assert.equal((await callApi(front.facts, "POST", `${path}/pause`, { key })).status, 204);
        await refused("beside a running one");
        await pause();
        await refused("beside a paused one");
        assert.equal(await runInGuest(front.facts, made, "echo woken"), "woken\n");
        await refused("beside one that a command has woken");
        for (const wake of ["connect", "resume"]) {
          await pause();
          const reply = await callApi(front.facts, "POST", `${path}/${wake}`, { key, body: { timeout: 60 } });
          assert.equal(reply.status, 201, reply.text);
          await refused(`behind a ${wake}`);
        }
        const forked = await callApi(front.facts, "POST", `${path}/fork`, { key, body: { count: 1 } });
        expectError(forked, 429, "a fork");
        await kill(front, made, key);
        await kill(front, await createSandbox(front.facts, {}, key), key);
      },
    },
    {
      id: "FR37",
      title: "a kill that its node refuses is no 204: the sandbox is there and says so, until a kill succeeds",
      run: async () => {
        const { front, mesh } = await ready();
        const node = mesh.nodes[0];
        const made = await createSandbox(front.facts);
        await node?.admin.faults([
          {
            kind: "status",
            method: "POST",
            path: "/v1/sandboxes/*/release",
            status: 500,
            body: '{"error":"release failed"}',
          },
        ]);
        for (let count = 0; count < 3; count += 1) {
          expectError(await send(front, verb("kill"), made.sandboxID), 500, "a kill that fails");
          assert.equal((await detail(front, made.sandboxID)).state, "running");
        }
        await node?.admin.faults([]);
        await kill(front, made);
        assert.deepEqual(await mesh.sandboxes("ns1"), []);
      },
    },
    {
      id: "FR47",
      title: "no key of the control plane reaches what runs in a sandbox, a caller's other headers do",
      run: async () => {
        const { front } = await ready();
        const made = await createSandbox(front.facts);
        const server = [
          "import http.server as h",
          "class R(h.BaseHTTPRequestHandler):",
          "    def do_GET(self):",
          "        self.send_response(200); self.end_headers(); self.wfile.write(str(self.headers).encode())",
          "h.HTTPServer(('127.0.0.1', 3333), R).serve_forever()",
        ].join("\n");
        await runInGuest(
          front.facts,
          made,
          `cat > s.py <<'X'\n${server}\nX\nnohup python3 s.py > out 2>&1 &\nsleep 0.1`,
        );
        for (const key of [RIG.keys.one, RIG.keys.two, "a-key-of-the-app"]) {
          const seen = await waitFor(
            "an answer of the server",
            async () => {
              const reply = await callProxy(front.facts.proxyUrl, "GET", "/", {
                "e2b-sandbox-id": made.sandboxID,
                "e2b-sandbox-port": "3333",
                "x-access-token": made.envdAccessToken ?? "",
                "x-api-key": key,
                "x-of-the-app": "kept",
              });
              return reply.status === 200 ? reply.text.toLowerCase() : undefined;
            },
            15_000,
            200,
          );
          assert.ok(seen.includes("x-of-the-app: kept"), seen);
          assert.ok(!seen.includes("x-api-key") && !seen.includes(key), "the key");
        }
        await kill(front, made);
      },
    },
  ];

  const alone: readonly HarnessRow[] = [
    rigRow(
      context,
      "FR139",
      "without a limit in the key file there is none: sixty sandboxes of one key",
      async (rig) => {
        await rig.node({ pools: [pool(IMAGE, 100)] });
        const front = await rig.front();
        const made = await Promise.all(Array.from({ length: 60 }, () => rig.created(front)));
        assert.equal(new Set(made.map(({ sandboxID }) => sandboxID)).size, 60);
        const reply = await rig.create(front);
        assert.deepEqual([reply.headers["ratelimit"], reply.headers["ratelimit-policy"]], [undefined, undefined]);
        await Promise.all(rig.answered.map(({ sandboxID }) => send(front, verb("kill"), sandboxID)));
      },
    ),
    rigRow(context, "M5-01b", "a redirect to a node that the front does not know is passed over: 503", async (rig) => {
      const dry = [pool(IMAGE, 0, { says: "3" })];
      const a = await rig.node({ pools: dry, redirect: ["203.0.113.7:7777"] });
      const front = await rig.front();
      const message = await rig.refused(front, 503);
      assert.match(message, /"base".*retry/);
      assert.equal(rig.requests(a, "claim").length, 1, "claims at the node");
      assert.ok(!front.log().includes("claim followed a redirect"), "no redirect was followed");
      // Beside one that it knows, that one is used.
      const b = await rig.node({ pools: [pool(IMAGE, 2, { says: "0" })] });
      await a.say({ redirect: ["203.0.113.7:7777", b.address], peers: [b.address] });
      await waitFor("the other node", async () => (await rig.create(front)).status === 201, 10_000, 200);
      assert.equal(rig.answered.at(-1)?.clientID, b.address);
    }),
    rigRow(
      context,
      "M5-01c",
      "a redirect target that answers 429 is passed over: the next one delivers",
      async (rig) => {
        const a = await rig.node({ pools: [pool(IMAGE, 0, { says: "3" })] });
        const full = await rig.node({ pools: [pool(IMAGE, 0)] });
        const warm = await rig.node({ pools: [pool(IMAGE, 3, { says: "0" })] });
        await a.say({ redirect: [full.address, warm.address] });
        const front = await rig.front();
        const made = await rig.created(front);
        assert.equal(made.clientID, warm.address);
        for (const [node, hop] of [
          [a, undefined],
          [full, true],
          [warm, true],
        ] as const) {
          const claims = rig.requests(node, "claim");
          assert.equal(claims.length, 1, `claims at node ${node.name}`);
          assert.equal(claims[0]?.noRedirect, hop, `whether node ${node.name} may name another`);
        }
        await delay(50);
        assert.match(
          front.log(),
          new RegExp(
            `claim followed a redirect from=${a.address} node=${warm.address} id=${made.sandboxID.replace("sb-", "sb_")}`,
          ),
        );
        await a.say({ redirect: [full.address] });
        await rig.refused(front, 503);
      },
    ),
  ];
  return [
    { rows, close: held.close },
    { rows: alone, close: async () => undefined },
  ];
}
