import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import { callApi, callProxy, createSandbox, type Created, expectError, killSandbox, runInGuest } from "../src/api.ts";
import type { Front } from "../src/front.ts";
import type { HarnessRow } from "../src/harness-rows.ts";
import { type Mesh, type MeshNode, startMesh } from "../src/mesh-rig.ts";
import { type ClaimCounts, totalClaims } from "../src/node-admin.ts";
import { waitFor } from "../src/polling.ts";
import type { ProcessSet } from "../src/processes.ts";
import type { Programs } from "../src/programs.ts";
import { IMAGE, poolsFull, RIG } from "../src/rig.ts";

const WARM = 10;
const POLL_MS = 1_000;
const REDIRECT = /claim followed a redirect from=(\S+) node=(\S+) id=(sb_[0-9a-f]+)/g;

/** Rows over nodes in processes of their own. They run in order: the last one ends a node. */
export function meshRows(
  set: ProcessSet,
  programs: Programs,
  isolation: string | undefined,
): { rows: readonly HarnessRow[]; close: () => Promise<void> } {
  let mesh: Promise<Mesh> | undefined;
  let front: Promise<Front> | undefined;
  const nodes = (): Promise<Mesh> => (mesh ??= startMesh(set, programs, { warm: WARM, isolation }));
  /** The front that polls every second, in the mode with derived tokens. */
  const shortPoll = async (): Promise<Front> => {
    const over = await nodes();
    return (front ??= over.front({ mode: "secret", pollMs: POLL_MS }));
  };
  const onNode = async (wanted: MeshNode, other: MeshNode): Promise<Created> => {
    const { facts } = await shortPoll();
    await other.admin.drain(true);
    try {
      await delay(POLL_MS * 2 + 300);
      const sandbox = await createSandbox(facts);
      assert.equal(sandbox.clientID, wanted.key, "the node that owns it");
      return sandbox;
    } finally {
      await other.admin.drain(false);
      await poolsFull([wanted.admin, other.admin]);
    }
  };
  const restock = async (): Promise<void> => {
    const { a, b } = await nodes();
    await poolsFull([a.admin, b.admin]);
  };

  const rows: HarnessRow[] = [
    {
      id: "M1",
      title: "a front told of one node logs both",
      run: async () => {
        const { a, b } = await nodes();
        const text = (await shortPoll()).log();
        const both = [a.key, b.key].toSorted().join(" ");
        assert.ok(
          text.includes(`mesh inventory up seeds=[${a.key}] nodes=[${both}] poll=1s`) ||
            text.includes(`mesh inventory up seeds=[${a.key}] nodes=[${both}] poll=1000ms`),
          /mesh inventory up[^"]*/.exec(text)?.[0] ?? "no such line",
        );
      },
    },
    {
      id: "M2",
      title: "a sandbox on the second node works through the embedded and a stand-alone data plane",
      run: async () => {
        const { a, b, dataPlane } = await nodes();
        const { facts } = await shortPoll();
        const sandbox = await onNode(b, a);
        const alone = await dataPlane("secret");
        try {
          for (const origin of [facts.proxyUrl, alone.origin]) {
            assert.equal(
              await runInGuest(facts, sandbox, `echo ${origin} >> seen; wc -l < seen`, { origin }),
              origin === facts.proxyUrl ? "1\n" : "2\n",
            );
            const missing = await callProxy(origin, "GET", "/health", {
              "e2b-sandbox-id": sandbox.sandboxID,
              "e2b-sandbox-port": "49983",
            });
            expectError(missing, 401, `${origin} without a token`);
            const byHost = await callProxy(origin, "GET", "/health", {
              host: `49983-${sandbox.sandboxID}.${RIG.domain}`,
              "x-access-token": sandbox.envdAccessToken ?? "",
            });
            assert.equal(byHost.status, 204, `${origin} by host: ${byHost.text}`);
          }
        } finally {
          await alone.process.stop();
          await killSandbox(facts, sandbox.sandboxID);
        }
      },
    },
    {
      id: "M3",
      title: "paused through one process, woken through another",
      run: async () => {
        const { a, b, dataPlane } = await nodes();
        const { facts } = await shortPoll();
        const alone = await dataPlane("secret");
        try {
          const sandbox = await onNode(b, a);
          await runInGuest(facts, sandbox, "echo before > note");
          assert.equal(
            (await callApi(facts, "POST", `/sandboxes/${sandbox.sandboxID}/pause`, { body: {} })).status,
            204,
          );
          const headers = {
            "e2b-sandbox-id": sandbox.sandboxID,
            "e2b-sandbox-port": "49983",
            "x-access-token": sandbox.envdAccessToken ?? "",
          };
          for (const origin of [facts.proxyUrl, alone.origin]) {
            expectError(await callProxy(origin, "GET", "/health", headers), 502, `health of a paused one at ${origin}`);
          }
          assert.equal(await runInGuest(facts, sandbox, "cat note", { origin: alone.origin }), "before\n");
          const info = await callApi(facts, "GET", `/sandboxes/${sandbox.sandboxID}`);
          assert.equal((JSON.parse(info.text) as { state: string }).state, "running");
          await killSandbox(facts, sandbox.sandboxID);
          await waitFor(
            "502 for a killed sandbox at the stand-alone data plane",
            async () => (await callProxy(alone.origin, "GET", "/health", headers)).status === 502,
            2_000,
          );
        } finally {
          await alone.process.stop();
        }
      },
    },
    {
      id: "M4",
      title: "an idle tick is exactly two requests per node",
      run: async () => {
        const { a, b } = await nodes();
        await shortPoll();
        await delay(POLL_MS * 2);
        for (const node of [a, b]) {
          node.calls.reset();
        }
        await delay(POLL_MS * 5);
        for (const node of [a, b]) {
          const counts = Object.fromEntries(node.calls.counts());
          assert.deepEqual(Object.keys(counts).toSorted(), ["GET /v1/info", "GET /v1/sandboxes"], node.key);
          const [infos = 0, lists = 0] = [counts["GET /v1/info"], counts["GET /v1/sandboxes"]];
          assert.ok(Math.abs(infos - lists) <= 1, `${infos} and ${lists}`);
          assert.ok(infos >= 4 && infos <= 6, `${infos} ticks in 5 s`);
        }
      },
    },
    {
      id: "M5-01",
      title: "forced warm miss: the claim follows the redirect, a warm hit does not",
      run: async () => {
        const { a, b, front: start } = await nodes();
        await b.admin.setPools([]);
        await waitFor(
          "no warm guest on B",
          async () => (await b.admin.info()).pools.every((pool) => pool.warm === 0),
          20_000,
        );
        await restock();
        const slow = await start({ mode: "secret", pollMs: 60_000 });
        try {
          await b.admin.setPools([{ template: IMAGE, net: "none", size: "small", warm: WARM }]);
          await restock();
          await a.admin.drain(true);
          // The nodes tell each other what they keep warm once a second.
          await delay(2_500);
          const before = [await a.admin.claims(), await b.admin.claims()] as const;
          const sandbox = await createSandbox(slow.facts);
          const after = [await a.admin.claims(), await b.admin.claims()] as const;
          assert.equal(sandbox.clientID, b.key);
          assert.equal(sandbox.templateID, IMAGE);
          assert.equal(sandbox.alias, "base");
          assert.deepEqual(after[0], before[0], "A's counters");
          assert.deepEqual(after[1], { ...before[1], warm: before[1].warm + 1 } satisfies ClaimCounts, "B's counters");
          const followed = [...slow.log().matchAll(REDIRECT)];
          assert.deepEqual(
            followed.map((match) => [match[1], match[2], match[3]?.replace("sb_", "sb-")]),
            [[a.key, b.key, sandbox.sandboxID]],
          );
          assert.equal(await runInGuest(slow.facts, sandbox, "echo over there"), "over there\n");
          await killSandbox(slow.facts, sandbox.sandboxID);
          await a.admin.drain(false);
          await restock();
          const hit = await createSandbox(slow.facts);
          assert.equal(hit.clientID, a.key, "a warm hit");
          assert.equal([...slow.log().matchAll(REDIRECT)].length, 1, "no further redirect line");
          await killSandbox(slow.facts, hit.sandboxID);
        } finally {
          await slow.stop();
          await a.admin.drain(false);
          await b.admin.setPools([{ template: IMAGE, net: "none", size: "small", warm: WARM }]);
          await restock();
        }
      },
    },
    {
      id: "M6",
      title: "100 creates are exactly 100 claims and no other node call (poll 60 s, claim tokens)",
      run: async () => {
        const { a, b, front: start } = await nodes();
        // The other front's polls would be counted too.
        await (await shortPoll()).stop();
        front = undefined;
        await restock();
        const slow = await start({ mode: "seed", pollMs: 60_000 });
        try {
          const counted = new Map<string, number>();
          const claimsBefore = totalClaims(await a.admin.claims()) + totalClaims(await b.admin.claims());
          for (let batch = 0; batch < 10; batch += 1) {
            await restock();
            for (const node of [a, b]) {
              node.calls.reset();
            }
            const made = await Promise.all(Array.from({ length: 10 }, () => createSandbox(slow.facts)));
            for (const node of [a, b]) {
              for (const [kind, count] of node.calls.counts()) {
                counted.set(kind, (counted.get(kind) ?? 0) + count);
              }
            }
            await Promise.all(made.map((sandbox) => killSandbox(slow.facts, sandbox.sandboxID)));
          }
          assert.deepEqual(Object.fromEntries(counted), { "POST /v1/claim": 100 });
          const claimsAfter = totalClaims(await a.admin.claims()) + totalClaims(await b.admin.claims());
          assert.equal(claimsAfter - claimsBefore, 100);
        } finally {
          await slow.stop();
        }
      },
    },
    {
      id: "M7",
      title: "a restarted front serves the sandboxes of the last one at once",
      run: async () => {
        const { a, b } = await nodes();
        const first = await shortPoll();
        const sandbox = await onNode(b, a);
        await runInGuest(first.facts, sandbox, "echo kept > note");
        await first.stop();
        front = undefined;
        const { facts } = await shortPoll();
        const reply = await callApi(facts, "POST", `/v2/sandboxes/${sandbox.sandboxID}/connect`, { body: {} });
        assert.equal(reply.status, 200, reply.text);
        const again = JSON.parse(reply.text) as Created;
        assert.equal(again.envdAccessToken, sandbox.envdAccessToken, "the same token");
        assert.equal(await runInGuest(facts, again, "cat note"), "kept\n");
        await killSandbox(facts, sandbox.sandboxID);
      },
    },
    {
      id: "F4",
      title: "a node that is down leaves the list after its grace; the other goes on",
      run: async () => {
        const { a, b } = await nodes();
        const { facts } = await shortPoll();
        const lost = await onNode(b, a);
        const kept = await onNode(a, b);
        await delay(POLL_MS + 300);
        b.process.signal("SIGKILL", true);
        await b.process.ended;
        const listed = async (): Promise<string[]> => {
          const reply = await callApi(facts, "GET", "/v2/sandboxes");
          assert.equal(reply.status, 200, reply.text);
          return (JSON.parse(reply.text) as { sandboxID: string }[]).map((item) => item.sandboxID);
        };
        await waitFor(
          "the lost sandbox to leave the list",
          async () => !(await listed()).includes(lost.sandboxID),
          15_000,
        );
        assert.ok((await listed()).includes(kept.sandboxID), "the other one stays");
        expectError(await callApi(facts, "GET", `/sandboxes/${lost.sandboxID}`), 404, "its detail");
        assert.equal(await runInGuest(facts, kept, "echo still"), "still\n");
        const created = await createSandbox(facts);
        assert.equal(created.clientID, a.key);
        for (const sandbox of [kept, created]) {
          await killSandbox(facts, sandbox.sandboxID);
        }
      },
    },
  ];

  const close = async (): Promise<void> => {
    await (await front?.catch(() => undefined))?.stop();
    await (await mesh?.catch(() => undefined))?.[Symbol.asyncDispose]();
  };
  return { rows, close };
}
