import assert from "node:assert/strict";

import { SkipRow } from "../../src/harness-rows.ts";
import type { Claimed } from "../../src/node-bench.ts";
import { expectJson, expectNodeError, expectStatus } from "../../src/node-client.ts";
import { onePeer, rootOf, tenantOf } from "../../src/node-target.ts";
import { waitFor } from "../../src/polling.ts";
import { expectDone, type Ground, indexOf, once, type RowGroup } from "./kit.ts";

const WRONG = "0".repeat(32);
/** Counters and gauges that every node has. Node API §13.2. */
const FAMILIES = [
  "sandboxd_claims_total",
  "sandboxd_claimed",
  "sandboxd_hibernated",
  "sandboxd_draining",
  "sandboxd_releases_total",
  "sandboxd_reaps_total",
  "sandboxd_wakes_total",
  "sandboxd_hibernates_total",
];

const OPERATOR_ROUTES = [
  ["GET", "/v1/info"],
  ["GET", "/metrics"],
  ["PUT", "/v1/pools"],
  ["POST", "/v1/drain"],
  ["DELETE", "/v1/drain"],
] as const;

/** Items 8 to 10, 16 and 17: release, reads, the index, the owner probe and the node's own facts. */
export function readRows(ground: Ground): readonly RowGroup[] {
  const { bench, target } = ground;
  const { node, template } = target;
  const sandbox = once(() => bench.claim(node, { template }));
  const release = (claim: Claimed, bearer: string | null) =>
    bench.call(node, "POST", `/v1/sandboxes/${claim.id}/release`, { bearer });

  return [
    [
      {
        id: "N8a",
        title: "release twice with the sandbox's token: 204, then 404",
        run: async () => {
          const claim = await bench.claim(node, { template });
          expectDone(await release(claim, claim.token), "release");
          expectNodeError(await release(claim, claim.token), 404, "release again", /^unknown sandbox/);
        },
      },
      {
        id: "N8b",
        title: "release by id with the root token: 204, then 404",
        run: async () => {
          const root = rootOf(target);
          const claim = await bench.claim(node, { template });
          expectDone(await release(claim, root), "release");
          expectNodeError(await release(claim, root), 404, "release again", /^unknown sandbox/);
        },
      },
      {
        id: "N8c",
        title: "release with a tenant's token: 404, and it lives",
        run: async () => {
          const tenant = tenantOf(target);
          const claim = await sandbox();
          expectNodeError(await release(claim, tenant), 404, "a tenant's token", /^unknown sandbox/);
          await bench.row(node, claim.id);
        },
      },
      {
        id: "N8d",
        title: "release without a bearer: 401, with a wrong one: 404, and it lives",
        run: async () => {
          const claim = await sandbox();
          expectNodeError(await release(claim, null), 401, "no bearer", /^missing bearer token/);
          expectNodeError(await release(claim, WRONG), 404, "a wrong token", /^unknown sandbox/);
          await bench.row(node, claim.id);
        },
      },
      {
        id: "N9a",
        title: "a row by id has the token for the root token; an unknown id is 404",
        run: async () => {
          rootOf(target);
          const claim = await sandbox();
          const row = await bench.row(node, claim.id);
          assert.equal(row.token, claim.token);
          assert.equal(row.claim_ref, bench.label);
          assert.ok(!("sandbox" in row), "a bare row");
          const reply = await bench.call(node, "GET", "/v1/sandboxes/sb_0000000000000000");
          expectNodeError(reply, 404, "an unknown id", /^unknown sandbox/);
        },
      },
      {
        id: "N9b",
        title: "a tenant's token is 403",
        run: async () => {
          const tenant = tenantOf(target);
          const { id } = await sandbox();
          const reply = await bench.call(node, "GET", `/v1/sandboxes/${id}`, { bearer: tenant });
          expectNodeError(reply, 403, "a tenant", /^operator token required/);
        },
      },
      {
        id: "N9d",
        title: "no bearer and a wrong one are 401",
        run: async () => {
          rootOf(target);
          const { id } = await sandbox();
          for (const bearer of [null, WRONG]) {
            const reply = await bench.call(node, "GET", `/v1/sandboxes/${id}`, { bearer });
            expectNodeError(reply, 401, String(bearer), /^invalid api token/);
          }
        },
      },
      {
        id: "N9c",
        title: "an open node's row has no token, and its sandboxes want their own",
        run: async () => {
          const { open } = target;
          if (open === undefined) {
            throw new SkipRow("the node has a root token: point --url at one that has none");
          }
          const claim = await bench.claim(open, { template });
          assert.ok(!("token" in (await bench.row(open, claim.id))), "no token");
          const path = `/v1/sandboxes/${claim.id}`;
          expectStatus(await bench.call(open, "POST", `${path}/release`, { bearer: null }), 401, "release without one");
          expectStatus(
            await bench.call(open, "POST", `${path}/release`, { bearer: WRONG }),
            404,
            "release with another",
          );
          expectDone(await bench.call(open, "POST", `${path}/release`, { bearer: claim.token }), "release");
        },
      },
    ],
    [
      {
        id: "N10a",
        title: "the index never tells a token",
        run: async () => {
          const claim = await bench.claim(node, { template });
          const { rows, text } = await indexOf(bench, node);
          assert.ok(
            rows.some((row) => row.id === claim.id),
            "the sandbox is listed",
          );
          assert.ok(
            rows.every((row) => !("token" in row)),
            "no member token",
          );
          assert.ok(!text.includes(claim.token), "nor the token anywhere else");
        },
      },
      {
        id: "N10b",
        title: "claim_ref and repeated metadata filter, all together",
        run: async () => {
          const ref = `${bench.label}/filter`;
          const both = await bench.claim(node, {
            template,
            claim_ref: ref,
            metadata: { colour: "red", Size: "a b&c" },
          });
          const one = await bench.claim(node, { template, claim_ref: ref, metadata: { colour: "red" } });
          const ids = async (query: string): Promise<string[]> =>
            (await indexOf(bench, node, query)).rows.map((row) => row.id).toSorted();
          const encoded = `claim_ref=${encodeURIComponent(ref)}`;
          assert.deepEqual(await ids(`?${encoded}`), [both.id, one.id].toSorted());
          assert.deepEqual(await ids(`?${encoded}&metadata=colour%3Dred`), [both.id, one.id].toSorted());
          const pairs = `metadata=colour%3Dred&metadata=${encodeURIComponent("Size=a b&c")}`;
          assert.deepEqual(await ids(`?${encoded}&${pairs}`), [both.id]);
          assert.deepEqual(await ids(`?${encoded}&metadata=colour%3Dblue`), []);
          assert.deepEqual(await ids(`?claim_ref=${encodeURIComponent(`${ref}x`)}`), []);
          const { rows } = await indexOf(bench, node, `?${encoded}&${pairs}`);
          assert.deepEqual(rows[0]?.metadata, { colour: "red", Size: "a b&c" });
        },
      },
      {
        id: "N10c",
        title: "a malformed metadata filter is 400",
        run: async () => {
          for (const query of ["metadata=colour", "metadata=%3Dred", "metadata=a%3D1&metadata=a%3D2"]) {
            expectNodeError(await bench.call(node, "GET", `/v1/sandboxes?${query}`), 400, query);
          }
        },
      },
      {
        id: "N10d",
        title: "a tenant sees its own sandboxes only; the root token sees all, or one tenant's",
        run: async () => {
          const tenant = tenantOf(target);
          const own = await bench.claim(node, { template }, { bearer: tenant });
          const other = await bench.claim(node, { template });
          const { rows } = await indexOf(bench, node, "", tenant);
          assert.ok(
            rows.some((row) => row.id === own.id),
            "its own",
          );
          assert.ok(!rows.some((row) => row.id === other.id), "not another's");
          const all = await indexOf(bench, node);
          assert.ok(
            [own.id, other.id].every((id) => all.rows.some((row) => row.id === id)),
            "the root token sees both",
          );
          const name = all.rows.find((row) => row.id === own.id)?.tenant;
          assert.equal(typeof name, "string", "the row tells the tenant");
          const asked = await indexOf(bench, node, `?tenant=${encodeURIComponent(name ?? "")}`);
          assert.ok(asked.rows.some((row) => row.id === own.id) && !asked.rows.some((row) => row.id === other.id));
        },
      },
    ],
    [
      {
        id: "N16a",
        title: "the owner probe: 200 with the sandbox's own token alone",
        run: async () => {
          const claim = await bench.claim(node, { template });
          const probe = (bearer: string | null) =>
            bench.call(node, "GET", `/v1/sandboxes/${claim.id}/owner`, { bearer });
          const owner = expectJson(await probe(claim.token), 200, "its own token");
          assert.equal(owner["owner_addr"], target.clientAddress ?? "");
          expectNodeError(await probe(WRONG), 404, "a wrong token", /^not owned here/);
          if (target.guarded) {
            expectNodeError(await probe(rootOf(target)), 404, "the root token", /^not owned here/);
          }
        },
      },
      {
        id: "N16b",
        title: "another node of the mesh says 404 to the probe",
        run: async () => {
          const peer = onePeer(target);
          const claim = await bench.claim(node, { template });
          const path = `/v1/sandboxes/${claim.id}/owner`;
          expectNodeError(
            await bench.call(peer.node, "GET", path, { bearer: claim.token }),
            404,
            "the peer",
            /not owned/,
          );
        },
      },
      {
        id: "N17a",
        title: "advertise_addr is what claims call owner_addr",
        run: async () => {
          const claim = await bench.claim(node, { template });
          if (target.clientAddress === undefined) {
            throw new SkipRow("the node advertises no host: set advertise_addr or client_advertise");
          }
          assert.equal((await bench.info(node)).advertise_addr, claim.owner_addr);
        },
      },
      {
        id: "N17b",
        title: "peers leaves the node itself out, says the same in both places, and members call each other alike",
        run: async () => {
          onePeer(target);
          const named = [...((await bench.info(node)).peers ?? [])].toSorted();
          assert.ok(!named.includes(target.clientAddress ?? ""), `not itself: ${named.join(", ")}`);
          const peers = expectJson(await bench.call(node, "GET", "/v1/peers"), 200, "peers")["peers"] as string[];
          assert.deepEqual([...peers].toSorted(), named);
          for (const peer of target.peers) {
            const seen = await waitFor(
              "the node among its peer's peers",
              async () => (await bench.info(peer.node)).peers ?? [],
              15_000,
            );
            assert.ok(seen.includes(target.clientAddress ?? ""), `${peer.node.address} names ${seen.join(", ")}`);
          }
        },
      },
      {
        id: "N17c",
        title: "without a drain there is no draining; the lists are there",
        run: async () => {
          const info = await bench.info(node);
          assert.ok(!("draining" in info));
          for (const pool of info.pools ?? []) {
            assert.deepEqual(
              [typeof pool.key.template, pool.key.net === "none" || pool.key.net === "egress", typeof pool.key.size],
              ["string", true, "string"],
            );
            assert.deepEqual(
              [typeof pool.warm, typeof pool.refilling, typeof pool.target, typeof pool.golden],
              ["number", "number", "number", "boolean"],
            );
          }
        },
      },
      {
        id: "N17d",
        title: "info, metrics, pools and drain are 401 for strangers; /healthz is everybody's",
        run: async () => {
          rootOf(target);
          for (const [method, path] of OPERATOR_ROUTES) {
            // Straight to the node: an answer that should not be is not to be undone.
            const reply = await node.call(method, path, { bearer: WRONG });
            expectNodeError(reply, 401, `${method} ${path}`, /^invalid api token/);
          }
          const health = await node.call("GET", "/healthz", { bearer: null });
          expectStatus(health, 200, "healthz");
          assert.equal(health.text.trim(), "ok");
        },
      },
      {
        id: "N17g",
        title: "info, metrics, pools and drain are 403 for tenants",
        run: async () => {
          const tenant = tenantOf(target);
          for (const [method, path] of OPERATOR_ROUTES) {
            const reply = await node.call(method, path, { bearer: tenant });
            expectNodeError(reply, 403, `${method} ${path}`, /^operator token required/);
          }
        },
      },
      {
        id: "N17e",
        title: "metrics have their families, with help and type, and all three tiers",
        run: async () => {
          const reply = await bench.call(node, "GET", "/metrics");
          expectStatus(reply, 200, "metrics");
          assert.match(String(reply.headers["content-type"]), /^text\/plain; ?version=0\.0\.4/);
          for (const family of FAMILIES) {
            assert.match(reply.text, new RegExp(`^# HELP ${family} `, "m"), `help of ${family}`);
            assert.match(reply.text, new RegExp(`^# TYPE ${family} `, "m"), `type of ${family}`);
          }
          for (const tier of ["warm", "clone", "cold"]) {
            assert.match(reply.text, new RegExp(`^sandboxd_claims_total\\{tier="${tier}"\\} \\d+`, "m"), tier);
          }
        },
      },
      {
        id: "N17f",
        title: "an unknown path is the router's plain 404, a known one with another method its 405",
        run: async () => {
          const unknown = await bench.call(node, "GET", "/v1/nothing");
          expectStatus(unknown, 404, "an unknown path");
          assert.match(unknown.text, /^404 page not found/);
          const method = await bench.call(node, "PUT", "/v1/claim", { body: {} });
          expectStatus(method, 405, "another method");
          assert.match(String(method.headers["allow"]), /POST/);
        },
      },
    ],
  ];
}
