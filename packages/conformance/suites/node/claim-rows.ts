import assert from "node:assert/strict";

import type { Claimed, InfoPool } from "../../src/node-bench.ts";
import { expectJson, expectNodeError, expectStatus } from "../../src/node-client.ts";
import { waitFor } from "../../src/polling.ts";
import { claimsOf, expectLease, type Ground, poolOf, type RowGroup, timed, WARM_MS, warmDefault } from "./kit.ts";

const REPEATED = '{"pools":[],"Pools":[]}';

/** Items 1 to 3: claims, leases and bodies. */
export function claimRows(ground: Ground): readonly RowGroup[] {
  const { bench, target } = ground;
  const { node, template } = target;

  /** A body that must be refused, and must claim nothing. */
  const refused = async (text: string, message?: RegExp): Promise<void> => {
    const before = (await bench.info(node)).claimed;
    expectNodeError(await bench.call(node, "POST", "/v1/claim", { text }), 400, `claim ${text.slice(0, 40)}`, message);
    assert.equal((await bench.info(node)).claimed, before, "live claims");
  };
  const accepted = async (body: object): Promise<Claimed> => {
    const reply = await bench.call(node, "POST", "/v1/claim", {
      body: { ttl_seconds: 60, no_redirect: true, ...body },
    });
    const claim = expectJson(reply, 200, "claim") as unknown as Claimed;
    assert.match(claim.id, /^sb_[0-9a-f]{16}$/);
    return claim;
  };
  const pools = async (text: string, message?: RegExp): Promise<void> => {
    const keys = (list: readonly InfoPool[] | null): string[] =>
      (list ?? []).map(({ key }) => JSON.stringify(key)).toSorted();
    const before = keys((await bench.info(node)).pools);
    expectNodeError(await bench.call(node, "PUT", "/v1/pools", { text }), 400, `pools ${text}`, message);
    assert.deepEqual(keys((await bench.info(node)).pools), before, "the pools stay as they were");
  };

  return [
    [
      {
        id: "N1a",
        title: "a claim of a warm pool: key defaults, ids, a lease of 300 s",
        run: async () => {
          await warmDefault(ground);
          const { reply, elapsedMs } = await timed(() => bench.call(node, "POST", "/v1/claim", { body: { template } }));
          const claim = expectJson(reply, 200, "claim") as unknown as Claimed;
          assert.match(claim.id, /^sb_[0-9a-f]{16}$/, "id");
          assert.match(claim.token, /^[0-9a-f]{32}$/, "token");
          expectLease(reply, claim.deadline, 300, elapsedMs);
          assert.equal(claim.owner_addr, target.clientAddress, "owner_addr is the node's client address");
          const row = await bench.row(node, claim.id);
          assert.deepEqual(row.key, { template, net: "none", size: "small" });
          assert.equal(row.hibernated, false);
          assert.equal(Date.parse(row.deadline), Date.parse(claim.deadline), "the row tells the same deadline");
        },
      },
      {
        id: "N1b",
        title: "it counts as warm and nothing else, the pool has one less and is refilled",
        run: async () => {
          const key = await warmDefault(ground);
          const goal = (await poolOf(bench, node, key))?.target ?? 1;
          await waitFor("a full pool", async () => ((await poolOf(bench, node, key))?.warm ?? 0) >= goal, WARM_MS, 100);
          const before = await claimsOf(bench, node);
          const taken = (await poolOf(bench, node, key))?.warm ?? 0;
          await bench.claim(node, { template });
          const pool = await poolOf(bench, node, key);
          assert.deepEqual(await claimsOf(bench, node), { ...before, warm: before.warm + 1 }, "claims by tier");
          assert.ok(
            pool !== undefined && (pool.warm === taken - 1 || pool.refilling > 0),
            `the pool held ${taken}, and holds ${JSON.stringify(pool)}`,
          );
          await waitFor("the refill", async () => ((await poolOf(bench, node, key))?.warm ?? 0) >= goal, WARM_MS, 100);
        },
      },
    ],
    [
      {
        id: "N2a",
        title: "ttl_seconds -5 is the default, 300 s",
        run: async () => {
          const body = { template, ttl_seconds: -5, no_redirect: true };
          const { reply, elapsedMs } = await timed(() => bench.call(node, "POST", "/v1/claim", { body }));
          expectLease(reply, expectJson(reply, 200, "claim")["deadline"], 300, elapsedMs);
        },
      },
      {
        id: "N2b",
        title: "ttl_seconds 999999 is clamped to a day",
        run: async () => {
          const body = { template, ttl_seconds: 999_999, no_redirect: true };
          const { reply, elapsedMs } = await timed(() => bench.call(node, "POST", "/v1/claim", { body }));
          const { id, deadline, token } = expectJson(reply, 200, "claim") as unknown as Claimed;
          // At once: nobody may be there later to end a lease of a day.
          const path = `/v1/sandboxes/${id}/release`;
          expectStatus(await bench.call(node, "POST", path, { bearer: token }), 204, "release");
          expectLease(reply, deadline, 86_400, elapsedMs);
        },
      },
    ],
    [
      { id: "N3a", title: "an empty claim body is 400", run: () => refused("", /^invalid request body/) },
      {
        id: "N3b",
        title: "a claim body of 2 MiB is 400",
        run: () => refused(JSON.stringify({ template, claim_ref: "x".repeat(2 << 20) }), /^invalid request body/),
      },
      {
        id: "N3c",
        title: "no template, and an unknown size, are 400",
        run: async () => {
          await refused("{}", /^invalid pool key/);
          await refused(JSON.stringify({ template, size: "enormous" }), /^invalid pool key/);
        },
      },
      {
        id: "N3d",
        title: "member names match in any case",
        run: async () => {
          const { id } = await accepted({ Template: template, Claim_Ref: bench.label });
          assert.equal((await bench.row(node, id)).claim_ref, bench.label);
        },
      },
      {
        id: "N3e",
        title: "an unknown member of a claim is ignored",
        run: async () => void (await accepted({ template, colour: "red" })),
      },
      {
        id: "N3f",
        title: "an unknown member of PUT /v1/pools is 400 and changes nothing",
        run: async () => {
          await pools('{"pools":[],"colour":"red"}', /^invalid request body/);
          await pools(JSON.stringify({ pools: [{ template, warm: 0, colour: "red" }] }), /^invalid request body/);
        },
      },
      {
        id: "N3g",
        title: "a repeated member of PUT /v1/pools is 400",
        run: () => pools(REPEATED, /^invalid request body/),
      },
      {
        id: "N3h",
        title: "bad pools are 400: a key, a negative count, a key twice",
        run: async () => {
          await pools(JSON.stringify({ pools: [{ template: "", warm: 0 }] }));
          await pools(JSON.stringify({ pools: [{ template, warm: -1 }] }));
          await pools(
            JSON.stringify({
              pools: [
                { template, warm: 0 },
                { template, net: "none", warm: 0 },
              ],
            }),
          );
        },
      },
    ],
  ];
}
