import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { runInGuest } from "../../src/api.ts";
import { IMAGE } from "../../src/rig.ts";
import { pool } from "../../src/scripted-node.ts";
import { startTlsFront, type TlsFront } from "../../src/tls-front.ts";
import {
  expectFailure,
  type FaultContext,
  type FaultRow,
  listed,
  rigRow,
  send,
  timed,
  verb,
  VERBS,
  BOUND_MS,
} from "./context.ts";

/** F11: nodes whose client address is an `https://` origin. The certificate is one that no system trusts by itself. */
export function tlsRows(context: FaultContext): readonly FaultRow[] {
  return [
    rigRow(context, "F11a", "an https node with a trusted certificate: claims, verbs and guests work", async (rig) => {
      let tls: TlsFront | undefined;
      try {
        const { key } = await rig.guestNode({
          warm: 3,
          isolation: context.isolation,
          advertise: async (port) => {
            tls = await startTlsFront(port);
            return tls.origin;
          },
        });
        const file = join(rig.files.dir, "node.crt");
        await writeFile(file, tls?.cert ?? "");
        const front = await rig.front({ seeds: key, mode: "secret", flags: [`--sandboxd-ca-file=${file}`] });
        assert.ok(front.log().includes(`mesh inventory up seeds=[${key}] nodes=[${key}]`), "the pinned line");
        const sandbox = await rig.created(front, { envVars: { WHO: "guest" } });
        assert.equal(sandbox.clientID, key);
        assert.equal(await runInGuest(front.facts, sandbox, "echo $WHO > note; cat note"), "guest\n");
        const big = await runInGuest(front.facts, sandbox, "head -c 3000000 /dev/zero | tr '\\0' x");
        assert.equal(big.length, 3_000_000, "bytes that came through the relay");
        await rig.ticks(2);
        assert.deepEqual(await listed(front), [sandbox.sandboxID]);
        for (const each of VERBS.filter((one) => one.name !== "kill")) {
          const reply = await send(front, each, sandbox.sandboxID);
          assert.equal(reply.status, each.good, `${each.name} answered ${reply.status} ${reply.text}`);
        }
        assert.equal(await runInGuest(front.facts, sandbox, "cat note"), "guest\n");
        assert.equal((await send(front, verb("kill"), sandbox.sandboxID)).status, 204);
        assert.ok((tls?.connections() ?? 0) > 3, "it all went through TLS");
        // The rest of the row's judgement makes a sandbox through it, too.
        await rig.judge();
        rig.fronts.length = 0;
        await front.stop();
      } finally {
        await tls?.close();
      }
    }),
    rigRow(
      context,
      "F11b",
      "an untrusted certificate stops the start by name, and costs a running fleet one node",
      async (rig) => {
        const plain = await rig.node({ pools: [pool(IMAGE, 100)] });
        const hidden = await rig.node({ peers: [], pools: [pool(IMAGE, 5)] });
        await using tls = await startTlsFront(Number(hidden.address.split(":")[1]));
        await hidden.say({ advertise: tls.origin });
        const file = join(rig.files.dir, "node.crt");
        await writeFile(file, tls.cert);

        const alone = await rig.launch({ seeds: tls.origin });
        const { value: end, ms } = await timed(() => alone.process.ended);
        assert.deepEqual(end, { code: 1, signal: null }, alone.process.tail());
        assert.ok(ms < BOUND_MS, `ended after ${Math.round(ms)} ms`);
        assert.match(alone.process.stderr(), /^sandbox-e2b: meshinventory: no seed answered: .*certificate/m);

        const front = await rig.front({
          seeds: `${plain.address},${tls.origin}`,
          env: { NODE_EXTRA_CA_CERTS: file },
        });
        await plain.say({ pools: [pool(IMAGE, 0)] });
        await rig.ticks(2);
        const there = await rig.create(front);
        assert.equal(there.status, 201, there.text);
        const { sandboxID, clientID } = JSON.parse(there.text) as { sandboxID: string; clientID: string };
        assert.equal(clientID, tls.origin);
        tls.changeCertificate();
        // Nothing is sent before the handshake: nothing can have been delivered, so others may be asked.
        assert.match(await rig.refused(front, 503), /"base".*retry/);
        expectFailure(await send(front, verb("get"), sandboxID), [500, 503], "a sandbox behind it");
        await plain.say({ pools: [pool(IMAGE, 20)] });
        await rig.ticks(2);
        for (let count = 0; count < 8; count += 1) {
          assert.equal((await rig.created(front)).clientID, plain.address);
        }
        assert.match(front.log(), /mesh member did not answer/);
        assert.match(front.log(), /certificate/, "the log says why");
        // Its address is another one than where it listens, which the judgement compares.
        const at = rig.answered.findIndex((one) => one.sandboxID === sandboxID);
        rig.answered.splice(at, 1, { sandboxID, clientID: hidden.address, templateID: IMAGE });
      },
    ),
  ];
}
