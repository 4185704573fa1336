import assert from "node:assert/strict";

import { SkipRow } from "../../src/harness-rows.ts";
import type { PoolKey } from "../../src/node-admin.ts";
import type { Claimed } from "../../src/node-bench.ts";
import { expectJson, expectNodeError, expectStatus, type NodeClient } from "../../src/node-client.ts";
import { mayChangePools, onePeer, spareKey } from "../../src/node-target.ts";
import { claimsOf, type Ground, notRedirected, once, redirected, type RowGroup, warmDefault, warmPool } from "./kit.ts";

/** Items 4 to 7: redirects, drain, limits and promoted templates. */
export function meshClaimRows(ground: Ground): readonly RowGroup[] {
  const { bench, target } = ground;
  const { node, template } = target;
  const ask = (at: NodeClient, body: object) =>
    bench.call(at, "POST", "/v1/claim", { body: { ttl_seconds: 60, claim_ref: bench.label, ...body } });

  /** A key that only the peer has a warm guest for, and the node knows it. */
  const warmPeer = once(async (): Promise<{ key: PoolKey; peerAddress: string }> => {
    const peer = onePeer(target);
    const key = await spareKey(bench, target);
    await warmPool(ground, peer.node, key);
    const { redirect } = await redirected("a claim that the peer has a warm guest for", () => ask(node, key));
    assert.ok(redirect.length >= 1 && redirect.length <= 2, `one or two targets: ${redirect.join(", ")}`);
    const address = peer.clientAddress ?? peer.node.address;
    assert.ok(redirect.includes(address), `${address} is a target: ${redirect.join(", ")}`);
    return { key, peerAddress: address };
  });
  const drained = once(async () => {
    const reply = await bench.call(node, "POST", "/v1/drain");
    assert.equal(expectJson(reply, 200, "drain")["draining"], true, "the reply tells the drain");
  });
  const full = once(async (): Promise<{ limited: NodeClient; claims: readonly Claimed[] }> => {
    if (target.limited === undefined) {
      throw new SkipRow("no limit is known: start the node with a small max_claims and say so with --max-claims");
    }
    const { node: limited, maxClaims } = target.limited;
    const { claimed } = await bench.info(limited);
    if (maxClaims - claimed > 32 || claimed >= maxClaims) {
      throw new SkipRow(
        `${claimed} of ${maxClaims} claims are live: the row fills the node, which takes 1 to 32 claims`,
      );
    }
    const claims: Claimed[] = [];
    for (let live = claimed; live < maxClaims; live += 1) {
      claims.push(await bench.claim(limited, { template }));
    }
    return { limited, claims };
  });

  return [
    [
      {
        id: "N4a",
        title: "cold node, warm peer: 200 with a redirect to it, and no counter moves",
        run: async () => {
          const { key, peerAddress } = await warmPeer();
          const nodes = [node, ...target.peers.map((peer) => peer.node)];
          const before = await Promise.all(nodes.map((one) => claimsOf(bench, one)));
          const { claimed } = await bench.info(node);
          const reply = expectJson(await ask(node, key), 200, "claim");
          assert.deepEqual(Object.keys(reply), ["redirect"], "nothing but the redirect");
          assert.ok((reply["redirect"] as string[]).includes(peerAddress));
          assert.deepEqual(await Promise.all(nodes.map((one) => claimsOf(bench, one))), before, "claims by tier");
          assert.equal((await bench.info(node)).claimed, claimed, "live claims");
        },
      },
      {
        id: "N4b",
        title: "with no_redirect it is delivered by the node itself",
        run: async () => {
          const { key } = await warmPeer();
          const reply = expectJson(await ask(node, { ...key, no_redirect: true }), 200, "claim");
          assert.ok(!("redirect" in reply), JSON.stringify(reply));
          assert.equal(reply["owner_addr"], target.clientAddress);
          assert.equal((await bench.row(node, String(reply["id"]))).key.size, key.size);
        },
      },
      {
        id: "N5a",
        title: "drained node, warm peer: 200 with a redirect",
        run: async () => {
          const { key, peerAddress } = await warmPeer();
          await drained();
          const reply = expectJson(await ask(node, key), 200, "claim");
          assert.deepEqual(Object.keys(reply), ["redirect"], "nothing but the redirect");
          assert.ok((reply["redirect"] as string[]).includes(peerAddress));
        },
      },
    ],
    [
      {
        id: "N5b",
        title: "drained node, no warm peer: 429, with and without no_redirect",
        run: async () => {
          const key = await spareKey(bench, target);
          const again = await bench.call(node, "POST", "/v1/drain");
          expectStatus(again, 200, "drain");
          expectNodeError(await notRedirected(() => ask(node, key)), 429, "claim", /^node claim quota reached/);
          expectNodeError(await ask(node, { ...key, no_redirect: true }), 429, "claim with no_redirect", /draining/);
        },
      },
      {
        id: "N5c",
        title: "drain is idempotent and shows; live claims go on; lifting it is idempotent too",
        run: async () => {
          expectStatus(await bench.call(node, "DELETE", "/v1/drain"), 200, "undrain");
          const live = await bench.claim(node, { template });
          for (let time = 0; time < 2; time += 1) {
            expectStatus(await bench.call(node, "POST", "/v1/drain"), 200, "drain");
          }
          const info = await bench.info(node);
          assert.equal(info.draining, true);
          assert.ok(
            (info.pools ?? []).every((pool) => pool.warm === 0),
            "no warm guest is kept",
          );
          assert.equal((await bench.row(node, live.id)).hibernated, false);
          const path = `/v1/sandboxes/${live.id}/renew`;
          expectStatus(await bench.call(node, "POST", path, { bearer: live.token }), 200, "renew");
          for (let time = 0; time < 2; time += 1) {
            expectStatus(await bench.call(node, "DELETE", "/v1/drain"), 200, "undrain");
          }
          assert.ok(!("draining" in (await bench.info(node))), "draining is left out when there is no drain");
        },
      },
    ],
    [
      {
        id: "N6a",
        title: "at its limit: 429 when no peer is warm, and with no_redirect",
        run: async () => {
          const { limited } = await full();
          const key = await spareKey(bench, target);
          expectNodeError(await notRedirected(() => ask(limited, key)), 429, "claim", /^node claim quota reached/);
          expectNodeError(await ask(limited, { template, no_redirect: true }), 429, "claim with no_redirect", /cap/);
        },
      },
      {
        id: "N6b",
        title: "at its limit: a redirect when a peer is warm",
        run: async () => {
          onePeer(target);
          const { limited } = await full();
          const warm = limited === node ? onePeer(target).node : node;
          await warmDefault(ground, warm);
          const { redirect } = await redirected("a claim at a full node", () => ask(limited, { template }));
          assert.ok(redirect.length > 0);
        },
      },
      {
        id: "N6c",
        title: "paused claims count",
        run: async () => {
          const { limited, claims } = await full();
          const [claim] = claims;
          const path = `/v1/sandboxes/${claim?.id}/hibernate`;
          expectStatus(await bench.call(limited, "POST", path, { bearer: claim?.token ?? null }), 204, "hibernate");
          expectNodeError(await ask(limited, { template, no_redirect: true }), 429, "claim", /cap/);
        },
      },
      {
        id: "N6d",
        title: "a released claim makes room",
        run: async () => {
          const { limited, claims } = await full();
          const claim = claims.at(-1);
          const path = `/v1/sandboxes/${claim?.id}/release`;
          expectStatus(await bench.call(limited, "POST", path, { bearer: claim?.token ?? null }), 204, "release");
          await bench.claim(limited, { template });
        },
      },
    ],
    [
      {
        id: "N7a",
        title: "require_promoted without the template: 404, though a pool serves the key",
        run: async () => {
          const body = { template, no_redirect: true, require_promoted: true };
          const templates = (await bench.info(node)).templates ?? [];
          if (templates.some(({ key }) => key.template === template && key.net === "none" && key.size === "small")) {
            throw new SkipRow(`${template} is promoted on the node: name another --template`);
          }
          if (!target.keepPools) {
            await warmDefault(ground);
          }
          expectNodeError(await ask(node, body), 404, "claim", /^unknown template/);
          const unknown = { ...body, template: bench.templateName() };
          expectNodeError(await ask(node, unknown), 404, "claim of an unknown template", /^unknown template/);
        },
      },
    ],
    promotedElsewhere(ground),
    [
      {
        id: "N7e",
        title: "a lane that the node has not is 409, for claims and for pools",
        run: async () => {
          const without = target.withoutEgress;
          const body = { template, net: "egress", no_redirect: true, ttl_seconds: 60 };
          const reply = await bench.call(without, "POST", "/v1/claim", { body });
          if (reply.status === 200) {
            throw new SkipRow("the node has an egress lane: start it without one");
          }
          expectNodeError(reply, 409, "claim", /^node has no egress attachment/);
          mayChangePools(target);
          const pools = await bench.info(without).then((info) => info.pools ?? []);
          const all = [
            ...pools.map((pool) => ({ ...pool.key, warm: pool.target })),
            { template, net: "egress", warm: 1 },
          ];
          expectNodeError(await bench.call(without, "PUT", "/v1/pools", { body: { pools: all } }), 409, "set pools");
        },
      },
    ],
  ];
}

/** What a node says of a template that only its peer holds. */
function promotedElsewhere({ bench, target }: Ground): RowGroup {
  const { node, template } = target;
  const promoted = once(async () => {
    const peer = onePeer(target);
    const source = await bench.claim(peer.node, { template });
    const name = bench.templateName();
    const body = { token: source.token, template: name };
    const path = `/v1/sandboxes/${source.id}/promote`;
    expectStatus(await bench.call(peer.node, "POST", path, { body }), 200, "promote at the peer");
    return { peer, name, address: peer.clientAddress ?? peer.node.address };
  });
  const claim = (at: NodeClient, body: object) =>
    bench.call(at, "POST", "/v1/claim", { body: { ttl_seconds: 60, ...body } });
  return [
    {
      id: "N7b",
      title: "require_promoted on a node without it: a redirect to the owner, with require_promoted",
      run: async () => {
        const { name, address } = await promoted();
        const { redirect, body } = await redirected("a claim of a peer's template", () =>
          claim(node, { template: name, require_promoted: true }),
        );
        assert.ok(redirect.includes(address), `${address} is a target: ${redirect.join(", ")}`);
        assert.equal(body["require_promoted"], true);
      },
    },
    {
      id: "N7c",
      title: "a plain claim of it is redirected with require_promoted as well",
      run: async () => {
        const { name, address } = await promoted();
        const { redirect, body } = await redirected("a plain claim of a peer's template", () =>
          claim(node, { template: name }),
        );
        assert.ok(redirect.includes(address), `${address} is a target: ${redirect.join(", ")}`);
        assert.equal(body["require_promoted"], true);
      },
    },
    {
      id: "N7d",
      title: "the owner delivers it as a clone, and the node itself says 404 to require_promoted with no_redirect",
      run: async () => {
        const { peer, name } = await promoted();
        const wish = { template: name, require_promoted: true, no_redirect: true };
        const before = await claimsOf(bench, peer.node);
        const reply = expectJson(await claim(peer.node, wish), 200, "claim at the owner");
        assert.match(String(reply["template_digest"]), /^sha256:[0-9a-f]+$/);
        assert.deepEqual(await claimsOf(bench, peer.node), { ...before, clone: before.clone + 1 }, "claims by tier");
        expectNodeError(await claim(node, wish), 404, "claim at the node", /^unknown template/);
      },
    },
  ];
}
