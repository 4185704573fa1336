import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

import { request } from "undici";

import type { Row, RowContext } from "./context.ts";

const SERVER = [
  "from http.server import BaseHTTPRequestHandler, HTTPServer",
  "class Answer(BaseHTTPRequestHandler):",
  "  def do_GET(self):",
  "    body = ('%s %s' % (self.path, self.headers.get('Host'))).encode()",
  "    self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers(); self.wfile.write(body)",
  "HTTPServer(('127.0.0.1', 3000), Answer).serve_forever()",
].join("\n");

const ask = async (
  context: RowContext,
  path: string,
  headers: Readonly<Record<string, string>>,
): Promise<{ status: number; text: string; type: string }> => {
  const response = await request(`${context.rig.proxyUrl}${path}`, { headers });
  return {
    status: response.statusCode,
    text: await response.body.text(),
    type: String(response.headers["content-type"] ?? ""),
  };
};

const CREATE = JSON.stringify({ templateID: "base", timeout: 300 });

/** Opens a connection to the control plane. */
const opened = (context: RowContext): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(context.rig.apiUrl);
    const socket = connect(Number(port), hostname, () => resolve(socket));
    socket.once("error", reject);
  });

/**
 * Sends creates and closes their connections. The server stands still meanwhile, so that it learns of both at once: a
 * client that is slow to hang up may have been answered.
 */
const hangUp = async (context: RowContext, count: number): Promise<void> => {
  const { host } = new URL(context.rig.apiUrl);
  const sockets = await Promise.all(Array.from({ length: count }, () => opened(context)));
  process.kill(context.rig.frontPid, "SIGSTOP");
  try {
    await Promise.all(
      sockets.map(
        (socket) =>
          new Promise<void>((resolve) => {
            socket.once("close", () => resolve());
            socket.write(
              [
                "POST /v2/sandboxes HTTP/1.1",
                `Host: ${host}`,
                `X-API-KEY: ${context.rig.keys.three}`,
                "Content-Type: application/json",
                `Content-Length: ${Buffer.byteLength(CREATE)}`,
                "",
                CREATE,
              ].join("\r\n"),
              () => socket.destroy(),
            );
          }),
      ),
    );
  } finally {
    process.kill(context.rig.frontPid, "SIGCONT");
  }
};

/** Many sandboxes at once, user ports, clients that go away. */
export const trafficRows: Readonly<Record<string, Row>> = {
  X1: async (context) => {
    const sandboxes = await Promise.all(Array.from({ length: 20 }, () => context.create()));
    assert.equal(new Set(sandboxes.map((sandbox) => sandbox.sandboxId)).size, 20);
    const results = await Promise.all(
      sandboxes.map(async (sandbox) => {
        await sandbox.files.write("/home/user/me", sandbox.sandboxId);
        return (await sandbox.commands.run("cat /home/user/me")).stdout;
      }),
    );
    assert.deepEqual(
      results,
      sandboxes.map((sandbox) => sandbox.sandboxId),
    );
    assert.deepEqual(
      await Promise.all(sandboxes.map((sandbox) => sandbox.kill())),
      sandboxes.map(() => true),
    );
  },

  X2: async (context) => {
    const sandbox = await context.shared();
    await sandbox.files.write("/home/user/server.py", SERVER);
    await sandbox.commands.run("python3 /home/user/server.py", { background: true, timeoutMs: 0 });
    const byHeaders = { "e2b-sandbox-id": sandbox.sandboxId, "e2b-sandbox-port": "3000" };
    let reply = await ask(context, "/a?b=1", byHeaders);
    for (let tries = 0; tries < 50 && reply.status === 502; tries += 1) {
      await delay(100);
      reply = await ask(context, "/a?b=1", byHeaders);
    }
    const host = sandbox.getHost(3000);
    assert.equal(host, `3000-${sandbox.sandboxId}.${context.rig.domain}`);
    assert.deepEqual([reply.status, reply.text], [200, `/a?b=1 ${host}`]);
    const byHost = await ask(context, "/c", { host });
    assert.deepEqual([byHost.status, byHost.text], [200, `/c ${host}`]);
    const byHostWithPort = await ask(context, "/d", { host: `${host.replace(/:.*/, "")}:8443` });
    assert.equal(byHostWithPort.status, 200);
  },

  X3: async (context) => {
    const { sandboxId } = await context.shared();
    const closed = await ask(context, "/", { "e2b-sandbox-id": sandboxId, "e2b-sandbox-port": "3999" });
    assert.equal(closed.status, 502, closed.text);
    assert.match(closed.type, /^application\/json/);
    assert.equal((JSON.parse(closed.text) as { code: number }).code, 502);
    const noToken = await ask(context, "/health", { "e2b-sandbox-id": sandboxId, "e2b-sandbox-port": "49983" });
    assert.equal(noToken.status, 401, noToken.text);
    assert.equal((JSON.parse(noToken.text) as { code: number }).code, 401);
    const wrongToken = await ask(context, "/health", {
      "e2b-sandbox-id": sandboxId,
      "e2b-sandbox-port": "49983",
      "x-access-token": "0".repeat(64),
    });
    assert.equal(wrongToken.status, 401, wrongToken.text);
    const unknown = await ask(context, "/", { "e2b-sandbox-id": "sb-0000000000000000", "e2b-sandbox-port": "3000" });
    assert.equal(unknown.status, 502, unknown.text);
    const noRoute = await ask(context, "/", {});
    assert.equal(noRoute.status, 400, noRoute.text);
  },

  X4: async (context) => {
    const { Sandbox } = context.sdk;
    const options = context.options(context.rig.keys.three);
    const before = await context.claimsMade();
    await hangUp(context, 8);
    const deadline = Date.now() + 15_000;
    for (;;) {
      const rows = await Promise.all(context.nodes.map((node) => node.sandboxes()));
      const left = rows.flat().filter((row) => row.claim_ref?.startsWith("ns3/"));
      if (left.length === 0) {
        break;
      }
      assert.ok(Date.now() < deadline, `${left.length} sandboxes are left of 8 creates nobody waited for`);
      await delay(250);
    }
    await context.poll();
    assert.deepEqual(await Sandbox.list(options).nextItems(), []);
    const made = (await context.claimsMade()) - before;
    assert.ok(made <= 8, `${made} claims were made for 8 creates`);
  },
};
