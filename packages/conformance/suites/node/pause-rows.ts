import assert from "node:assert/strict";

import { runOverRelay, guestReady } from "../../src/guest-shell.ts";
import type { Claimed } from "../../src/node-bench.ts";
import { expectJson, expectNodeError, expectStatus } from "../../src/node-client.ts";
import { openRelay } from "../../src/node-relay.ts";
import { rootOf } from "../../src/node-target.ts";
import { waitFor } from "../../src/polling.ts";
import { expectDone, expectLease, type Ground, once, type RowGroup, timed } from "./kit.ts";

const ENVD_PORT = 49_983;
/** The reaper looks every 5 s; the rest is for the end of the sandbox itself. */
const REAP_MS = 5_000 + 2_500;
const SHORT_SECONDS = 4;

/** Items 11 to 13: pause, leases and what becomes of a lease that ends. */
export function pauseRows(ground: Ground): readonly RowGroup[] {
  const { bench, target } = ground;
  const { node, template } = target;
  const verb = (claim: Claimed, name: string, text?: string) =>
    bench.call(node, "POST", `/v1/sandboxes/${claim.id}/${name}`, {
      bearer: claim.token,
      ...(text === undefined ? {} : { text }),
    });
  const paused = async (claim: Claimed): Promise<boolean> => {
    const { hibernated, archived } = await bench.row(node, claim.id);
    return hibernated || archived === true;
  };
  const sandbox = once(() => bench.claim(node, { template }));
  const hibernated = async (): Promise<Claimed> => {
    const claim = await sandbox();
    expectDone(await verb(claim, "hibernate"), "hibernate");
    return claim;
  };

  /** Three sandboxes whose leases end together, so that their rows wait together. */
  const ending = once(async () => {
    const lease = { template, ttl_seconds: SHORT_SECONDS };
    const [running, sleeping, kept] = await Promise.all([
      bench.claim(node, lease),
      bench.claim(node, lease),
      bench.claim(node, { ...lease, on_expire: "archive" }),
    ]);
    expectDone(await verb(sleeping, "hibernate"), "hibernate");
    // By our clock: the node's may be another.
    const ends = Date.now() + SHORT_SECONDS * 1000;
    return { running, sleeping, kept, ends };
  });
  const gone = async (claim: Claimed, ends: number): Promise<void> => {
    await waitFor(
      `the end of ${claim.id}`,
      async () => (await bench.call(node, "GET", `/v1/sandboxes/${claim.id}`)).status === 404,
      ends + REAP_MS - Date.now(),
    );
    expectStatus(await verb(claim, "release"), 404, "release of one that has ended");
  };
  const archived = once(async () => {
    const { kept, ends } = await ending();
    await waitFor(
      "the archive (a real node needs a checkpoint store for it)",
      async () => (await bench.row(node, kept.id)).archived === true,
      ends + 40_000 - Date.now(),
    );
    return kept;
  });

  return [
    [
      {
        id: "N11a",
        title: "hibernate: 204 and hibernated:true; again: 204",
        run: async () => {
          const claim = await hibernated();
          assert.equal((await bench.row(node, claim.id)).hibernated, true);
          expectDone(await verb(claim, "hibernate"), "hibernate again");
          assert.equal((await bench.row(node, claim.id)).hibernated, true);
        },
      },
      {
        id: "N11b",
        title: "reads and the owner probe do not wake",
        run: async () => {
          const claim = await hibernated();
          const path = `/v1/sandboxes/${claim.id}`;
          expectStatus(await bench.call(node, "GET", `${path}/owner`, { bearer: claim.token }), 200, "owner");
          const stats = expectJson(await bench.call(node, "GET", `${path}/stats`), 200, "stats");
          assert.deepEqual([stats["id"], stats["hibernated"]], [claim.id, true]);
          assert.equal((await bench.row(node, claim.id)).hibernated, true);
        },
      },
      {
        id: "N11c",
        title: "a passive relay is 409 and it stays hibernated",
        run: async () => {
          const root = rootOf(target);
          const claim = await hibernated();
          const reply = await openRelay(node, claim.id, ENVD_PORT, { bearer: root });
          assert.equal(reply.status, 409, reply.head + reply.body);
          assert.equal((await bench.row(node, claim.id)).hibernated, true);
        },
      },
      {
        id: "N11d",
        title: "an active relay wakes it",
        run: async () => {
          const claim = await hibernated();
          const { status, head, socket } = await openRelay(node, claim.id, ENVD_PORT, { bearer: claim.token });
          socket.destroy();
          // Without an envd the port is closed, and the sandbox was woken all the same.
          assert.ok(status === 101 || status === 502, head);
          assert.equal(await paused(claim), false);
        },
      },
      {
        id: "N11e",
        title: "wake: 204 on a hibernated and on a running sandbox; the deadline stays",
        run: async () => {
          const claim = await hibernated();
          const { deadline } = await bench.row(node, claim.id);
          expectDone(await verb(claim, "wake"), "wake");
          const row = await bench.row(node, claim.id);
          assert.deepEqual([row.hibernated, Date.parse(row.deadline)], [false, Date.parse(deadline)]);
          expectDone(await verb(claim, "wake"), "wake again");
        },
      },
      {
        id: "N11f",
        title: "what ran in the guest runs on after a pause",
        run: async () => {
          const claim = await sandbox();
          expectDone(await verb(claim, "wake"), "wake");
          await guestReady(node, claim);
          const pid = (await runOverRelay(node, claim, "setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $!")).trim();
          await hibernated();
          // The relay wakes it.
          assert.equal(await runOverRelay(node, claim, `kill -0 ${pid} && echo alive`), "alive\n");
        },
      },
      {
        id: "N11g",
        title: "the verbs of a sandbox want its token or the root token",
        run: async () => {
          const claim = await sandbox();
          for (const name of ["hibernate", "wake", "renew"]) {
            const path = `/v1/sandboxes/${claim.id}/${name}`;
            expectNodeError(await bench.call(node, "POST", path, { bearer: null }), 401, name, /^missing bearer token/);
            expectNodeError(
              await bench.call(node, "POST", path, { bearer: "f".repeat(32) }),
              404,
              name,
              /^unknown sandbox/,
            );
          }
          if (target.guarded) {
            for (const name of ["hibernate", "wake"]) {
              expectDone(await bench.call(node, "POST", `/v1/sandboxes/${claim.id}/${name}`), `${name} by root`);
            }
          }
        },
      },
      {
        id: "N12a",
        title: "renew without a body is the default lease",
        run: async () => {
          const claim = await sandbox();
          const { reply, elapsedMs } = await timed(() => verb(claim, "renew"));
          expectLease(reply, expectJson(reply, 200, "renew")["deadline"], 300, elapsedMs);
        },
      },
      {
        id: "N12b",
        title: "renew shortens, clamps, and the row tells the deadline it answered",
        run: async () => {
          const claim = await sandbox();
          for (const [asked, granted] of [
            [999_999, 86_400],
            [90, 90],
          ] as const) {
            const { reply, elapsedMs } = await timed(() => verb(claim, "renew", `{"ttl_seconds":${asked}}`));
            const { deadline } = expectJson(reply, 200, "renew");
            expectLease(reply, deadline, granted, elapsedMs);
            assert.equal(Date.parse((await bench.row(node, claim.id)).deadline), Date.parse(String(deadline)));
          }
        },
      },
      {
        id: "N12c",
        title: "renew of a hibernated sandbox does not wake it",
        run: async () => {
          const claim = await hibernated();
          expectStatus(await verb(claim, "renew", '{"ttl_seconds":100}'), 200, "renew");
          assert.equal(await paused(claim), true);
          expectDone(await verb(claim, "wake"), "wake");
        },
      },
    ],
    [
      {
        id: "N13a",
        title: "a hibernated sandbox is gone within 5 s of its deadline",
        run: async () => {
          const { sleeping, ends } = await ending();
          assert.equal((await bench.row(node, sleeping.id)).hibernated, true, "before its deadline");
          await gone(sleeping, ends);
        },
      },
      {
        id: "N13b",
        title: "so is a running one",
        run: async () => {
          const { running, ends } = await ending();
          await gone(running, ends + 1_000);
        },
      },
      {
        id: "N13c",
        title: "with on_expire=archive it is archived instead, and its lease is over",
        run: async () => {
          const { id } = await archived();
          const row = await bench.row(node, id);
          assert.equal(row.on_expire, "archive");
          const end = Date.parse(row.deadline);
          assert.ok(
            row.deadline.startsWith("0001-01-01T00:00:00") || end > Date.now(),
            `no expiry, or a retention: ${row.deadline}`,
          );
        },
      },
      {
        id: "N12d",
        title: "renew of an archived sandbox is 409",
        run: async () => {
          const claim = await archived();
          expectNodeError(await verb(claim, "renew", '{"ttl_seconds":60}'), 409, "renew");
          assert.equal((await bench.row(node, claim.id)).archived, true);
        },
      },
      {
        id: "N13d",
        title: "an archived sandbox wakes with a fresh lease of its length",
        run: async () => {
          const claim = await archived();
          const { reply, elapsedMs } = await timed(() => verb(claim, "wake"));
          expectDone(reply, "wake");
          const row = await bench.row(node, claim.id);
          assert.deepEqual([row.archived ?? false, row.hibernated], [false, false]);
          expectLease(reply, row.deadline, SHORT_SECONDS, elapsedMs);
        },
      },
    ],
  ];
}
