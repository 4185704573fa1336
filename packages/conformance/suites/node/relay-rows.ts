import assert from "node:assert/strict";
import type { Socket } from "node:net";

import { type GuestServer, startGuestServer } from "../../src/guest-shell.ts";
import { SkipRow } from "../../src/harness-rows.ts";
import type { Claimed } from "../../src/node-bench.ts";
import { expectStatus } from "../../src/node-client.ts";
import { openRelay, readToEnd, type RelayChoices, type RelayReply } from "../../src/node-relay.ts";
import { waitFor } from "../../src/polling.ts";
import { type Ground, once, type RowGroup } from "./kit.ts";

const ENVD_PORT = 49_983;
/** A port of the guest that nothing listens at. */
const CLOSED_PORT = 4;
const SERVER_PORT = 23_456;
const SWITCHING = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\n";

/** Items 14 and 15: the relay to a guest's port. */
export function relayRows(ground: Ground): readonly RowGroup[] {
  const { bench, target } = ground;
  const { node, template } = target;
  const sandbox = once(() => bench.claim(node, { template }));
  const refused = async (
    claim: Claimed,
    port: number | string,
    status: number,
    message: RegExp,
    choices: Partial<RelayChoices> = {},
  ): Promise<RelayReply> => {
    const reply = await openRelay(node, claim.id, port, { bearer: claim.token, ...choices });
    reply.socket.destroy();
    assert.equal(reply.status, status, `port ${port}: ${reply.head}${reply.body}`);
    assert.match(reply.headers.get("content-type") ?? "", /^application\/json/);
    assert.match(String((JSON.parse(reply.body) as { error?: unknown }).error), message);
    return reply;
  };
  const server = once(async (): Promise<GuestServer> => {
    const claim = await sandbox();
    return await startGuestServer(bench, node, claim, SERVER_PORT, "first");
  });

  return [
    [
      {
        id: "N14a",
        title: "without Upgrade: 426 with Upgrade: tcp, and no wake",
        run: async () => {
          const claim = await sandbox();
          const path = `/v1/sandboxes/${claim.id}`;
          const { token } = claim;
          expectStatus(await bench.call(node, "POST", `${path}/hibernate`, { bearer: token }), 204, "hibernate");
          for (const upgrade of [null, "websocket", "tcp, websocket"]) {
            const reply = await refused(claim, ENVD_PORT, 426, /^upgrade to tcp required/, { upgrade });
            assert.equal(reply.headers.get("upgrade"), "tcp");
          }
          assert.equal((await bench.row(node, claim.id)).hibernated, true);
        },
      },
      {
        id: "N14b",
        title: "ports 0, 65536, http, -1 and +22 are 400, and wake nothing",
        run: async () => {
          const claim = await sandbox();
          for (const port of ["0", "65536", "http", "-1", "+22"]) {
            await refused(claim, port, 400, /^port must be 1-65535/);
          }
          assert.equal((await bench.row(node, claim.id)).hibernated, true);
        },
      },
      {
        id: "N14c",
        title: "a wrong token and an unknown sandbox are 404, no bearer is 401, and wake nothing",
        run: async () => {
          const claim = await sandbox();
          await refused(claim, ENVD_PORT, 404, /^unknown sandbox/, { bearer: "f".repeat(32) });
          await refused({ ...claim, id: "sb_0000000000000000" }, ENVD_PORT, 404, /^unknown sandbox/);
          await refused(claim, ENVD_PORT, 401, /^missing bearer token/, { bearer: null });
          assert.equal((await bench.row(node, claim.id)).hibernated, true);
        },
      },
      {
        id: "N14d",
        title: "the checks come in order: bearer, upgrade, port, sandbox",
        run: async () => {
          const claim = await sandbox();
          await refused(claim, "0", 401, /^missing bearer token/, { bearer: null, upgrade: null });
          await refused(claim, "0", 426, /^upgrade to tcp required/, { bearer: "f".repeat(32), upgrade: null });
          await refused(claim, "0", 400, /^port must be 1-65535/, { bearer: "f".repeat(32) });
        },
      },
      {
        id: "N14e",
        title: "a port that nothing listens at is 502",
        run: async () => void (await refused(await sandbox(), CLOSED_PORT, 502, /^guest port unreachable/)),
      },
      {
        id: "N14f",
        title: "101 is exactly its three lines, in any case of Upgrade, and for the root token as well",
        run: async () => {
          await server();
          const claim = await sandbox();
          for (const upgrade of ["tcp", "TCP"]) {
            const { head, socket } = await openRelay(node, claim.id, SERVER_PORT, { bearer: claim.token, upgrade });
            socket.destroy();
            assert.equal(head, SWITCHING);
          }
          if (target.guarded) {
            const passive = await openRelay(node, claim.id, SERVER_PORT, { bearer: target.token ?? "" });
            passive.socket.destroy();
            assert.equal(passive.head, SWITCHING);
          }
        },
      },
      {
        id: "N14g",
        title: "two sandboxes listen at the same port, and each relay reaches its own",
        run: async () => {
          if (target.sharedPorts) {
            throw new SkipRow(
              "guests of isolation process share one port space: start the node with another isolation",
            );
          }
          const first = await server();
          const other = await bench.claim(node, { template });
          let second: GuestServer;
          try {
            second = await startGuestServer(bench, node, other, SERVER_PORT, "second");
          } catch (error) {
            throw error instanceof SkipRow ? error : new Error("no second server at the same port", { cause: error });
          }
          assert.deepEqual([await first.ask("N"), await second.ask("N")], ["first", "second"]);
        },
      },
      {
        id: "N15a",
        title: "after the client's end the guest's answer still comes, byte for byte",
        run: async () => {
          const bytes = Buffer.alloc(512 * 1024, Buffer.from(Array.from({ length: 256 }, (_, value) => value)));
          const socket = await (await server()).connect("");
          try {
            socket.write("X");
            socket.end(bytes);
            assert.ok((await readToEnd(socket)).equals(bytes), "what came back is what was sent");
          } finally {
            socket.destroy();
          }
        },
      },
      {
        id: "N15b",
        title: "bytes sent behind the request's head reach the guest",
        run: async () => {
          const socket = await (await server()).connect("Xearly ");
          try {
            socket.end("and late");
            assert.equal((await readToEnd(socket)).toString(), "early and late");
          } finally {
            socket.destroy();
          }
        },
      },
      {
        id: "N15c",
        title: "after the guest's end it still takes the client's bytes, and the relay ends with both",
        run: async () => {
          const guest = await server();
          const socket = await guest.connect("E");
          try {
            assert.equal((await readToEnd(socket)).toString(), "early");
            assert.equal(socket.destroyed, false, "the client's side is open");
            socket.write(Buffer.alloc(100_000));
            await new Promise((resolve) => setTimeout(resolve, 300));
            socket.end(Buffer.alloc(23_456));
            await closed(socket);
          } finally {
            socket.destroy();
          }
          await waitFor("the guest to have counted", async () => (await guest.ask("S")) === "123456", 10_000);
        },
      },
      {
        id: "N15d",
        title: "release ends an open relay",
        run: async () => {
          const claim = await bench.claim(node, { template });
          const other = await startGuestServer(bench, node, claim, SERVER_PORT + 1, "ended");
          const socket = await other.connect("");
          socket.resume();
          const path = `/v1/sandboxes/${claim.id}/release`;
          expectStatus(await bench.call(node, "POST", path, { bearer: claim.token }), 204, "release");
          socket.end();
          await closed(socket);
        },
      },
    ],
  ];
}

/** Resolves when a connection is gone, in whatever way. */
function closed(socket: Socket): Promise<void> {
  return waitFor("the end of the relay", () => socket.closed, 15_000).then(() => undefined);
}
