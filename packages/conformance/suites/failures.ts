import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";

import { Agent, request } from "undici";

import { callApi, callProxy, createSandbox, expectError, killSandbox, type Method } from "../src/api.ts";
import type { HarnessRow } from "../src/harness-rows.ts";
import { poolsFull, type Rig } from "../src/rig.ts";

const UNKNOWN = "sb-0000000000000000";

/** Every route of the control plane, with a path that is known and the methods it has. */
const ROUTES: readonly (readonly [path: string, ...methods: Method[]])[] = [
  ["/sandboxes", "GET", "POST"],
  ["/v2/sandboxes", "GET", "POST"],
  [`/sandboxes/${UNKNOWN}`, "GET", "DELETE"],
  [`/sandboxes/${UNKNOWN}/timeout`, "POST"],
  [`/sandboxes/${UNKNOWN}/refreshes`, "POST"],
  [`/sandboxes/${UNKNOWN}/pause`, "POST"],
  [`/sandboxes/${UNKNOWN}/connect`, "POST"],
  [`/v2/sandboxes/${UNKNOWN}/connect`, "POST"],
  [`/sandboxes/${UNKNOWN}/resume`, "POST"],
  [`/sandboxes/${UNKNOWN}/fork`, "POST"],
  [`/sandboxes/${UNKNOWN}/snapshots`, "POST"],
  [`/sandboxes/${UNKNOWN}/network`, "PUT"],
  [`/sandboxes/${UNKNOWN}/metrics`, "GET"],
  [`/sandboxes/${UNKNOWN}/logs`, "GET"],
  [`/v2/sandboxes/${UNKNOWN}/logs`, "GET"],
  ["/snapshots", "GET"],
  ["/templates", "GET"],
  ["/v2/templates", "GET"],
  ["/templates/nope", "GET", "PATCH", "DELETE"],
  ["/v2/templates/nope", "PATCH"],
  ["/templates/aliases/nope", "GET"],
  ["/templates/nope/tags", "GET"],
  ["/v3/templates", "POST"],
  ["/v2/templates/nope/builds/b1", "POST"],
  ["/templates/nope/builds/b1/status", "GET"],
  ["/templates/nope/builds/b1/logs", "GET"],
];

/** Calls of earlier build APIs, refused by name instead of as a wrong method. */
const OLD_BUILDS = new Set(["POST /templates", "POST /v2/templates", "POST /templates/nope"]);

/** Paths of E2B that a self-hosted server has nothing for. */
const NOT_SUPPORTED: readonly (readonly [Method, string])[] = [
  ["POST", "/volumes"],
  ["GET", "/volumes"],
  ["GET", "/volumes/v1"],
  ["DELETE", "/volumes/v1"],
  ["GET", "/secrets"],
  ["POST", "/secrets"],
  ["GET", "/secrets/s1"],
  ["GET", "/teams"],
  ["GET", "/nodes"],
  ["GET", "/api-keys"],
  ["GET", "/access-tokens"],
  ["GET", "/teams/t1/metrics"],
  ["GET", "/admin/x"],
];

const METHODS: readonly Method[] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/** Sends text over a socket and reads the answer to its end, or until `ms` passed. */
async function rawExchange(origin: string, text: string, ms = 5_000): Promise<string> {
  const { hostname, port } = new URL(origin);
  return new Promise((resolve, reject) => {
    let answer = "";
    const socket: Socket = connect(Number(port), hostname, () => socket.write(text));
    const timer = setTimeout(() => socket.destroy(), ms);
    socket.setEncoding("latin1");
    socket.on("data", (part: string) => {
      answer += part;
    });
    // A server that refuses a request closes before it has read all of it: what it said is what counts.
    socket.on("error", (error) => {
      if (answer === "") {
        reject(error);
      }
    });
    socket.once("close", () => {
      clearTimeout(timer);
      resolve(answer);
    });
  });
}

const bodyOf = (answer: string): { code?: unknown; message?: unknown } => {
  const text = answer.slice(answer.indexOf("\r\n\r\n") + 4);
  const start = text.indexOf("{");
  const end = text.lastIndexOf("}");
  assert.ok(start >= 0 && end > start, `no JSON body in ${JSON.stringify(answer.slice(0, 300))}`);
  return JSON.parse(text.slice(start, end + 1)) as { code?: unknown; message?: unknown };
};

/**
 * §14.9 of the control-plane contract, and the shapes of errors of both surfaces. They leave the rig as it was. A
 * connection idles for `idleMs` in one of them.
 */
export function failureRows(rig: Rig, idleMs: number): readonly HarnessRow[] {
  const { facts } = rig;
  return [
    {
      id: "F1a",
      title: "control plane: every route with every wrong method, id and key is a JSON error",
      run: async () => {
        for (const [path, ...methods] of ROUTES) {
          for (const method of METHODS) {
            const what = `${method} ${path}`;
            if (!methods.includes(method)) {
              expectError(await callApi(facts, method, path), OLD_BUILDS.has(what) ? 501 : 405, what);
            } else {
              expectError(await callApi(facts, method, path, { key: null }), 401, `${what} without a key`);
              expectError(await callApi(facts, method, path, { key: "e2b_00" }), 401, `${what} with a wrong key`);
            }
          }
        }
      },
    },
    {
      id: "F1b",
      title: "control plane: unknown ids are 404, malformed bodies 400, with code and message",
      run: async () => {
        for (const [path, ...methods] of ROUTES.filter(([path_]) => path_.includes(UNKNOWN))) {
          for (const method of methods) {
            const needsBody = path.endsWith("/timeout");
            const choices = needsBody ? { body: { timeout: 10 } } : {};
            const expected = path.endsWith("/network") ? { body: {} } : choices;
            expectError(await callApi(facts, method, path, expected), 404, `${method} ${path}`);
          }
        }
        for (const path of [
          "/sandboxes",
          "/v2/sandboxes",
          `/sandboxes/${UNKNOWN}/timeout`,
          `/sandboxes/${UNKNOWN}/pause`,
        ]) {
          for (const text of ["{", "[]", '"text"', "\u0000"]) {
            expectError(await callApi(facts, "POST", path, { text }), 400, `POST ${path} ${JSON.stringify(text)}`);
          }
        }
      },
    },
    {
      id: "F1c",
      title: "control plane: unknown paths are 404, unsupported ones 501, both JSON",
      run: async () => {
        for (const path of ["/", "/nope", "/v9/sandboxes", "/sandboxes/a/b/c", "/%zz", "/templates/aliases/"]) {
          const reply = await callApi(facts, "GET", path);
          assert.ok(reply.status === 404 || reply.status === 400, `${path} answered ${reply.status}`);
          expectError(reply, reply.status, path);
        }
        for (const [method, path] of NOT_SUPPORTED) {
          const message = expectError(await callApi(facts, method, path), 501, `${method} ${path}`);
          assert.ok(message.includes(path), `${message} names ${path}`);
        }
      },
    },
    {
      id: "F1d",
      title: "both planes: what the HTTP parser refuses is a JSON error too",
      run: async () => {
        for (const origin of [facts.apiUrl, facts.proxyUrl]) {
          const bad = await rawExchange(origin, "NONSENSE\r\n\r\n");
          assert.match(bad, /^HTTP\/1\.1 400 /, origin);
          assert.equal(bodyOf(bad).code, 400);
          const long = await rawExchange(origin, `GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${"a".repeat(2 << 20)}\r\n\r\n`);
          assert.match(long, /^HTTP\/1\.1 431 /, origin);
          assert.equal(bodyOf(long).code, 431);
        }
      },
    },
    {
      id: "F1e",
      title: "data plane: no route 400, internal path 404, no token 401, gone 502, all JSON",
      run: async () => {
        const sandbox = await createSandbox(facts);
        const to = (port: number, id = sandbox.sandboxID): Record<string, string> => ({
          "e2b-sandbox-id": id,
          "e2b-sandbox-port": String(port),
          "x-access-token": sandbox.envdAccessToken ?? "",
        });
        const at = async (
          status: number,
          path: string,
          headers: Record<string, string>,
          method: Method = "GET",
        ): Promise<void> =>
          void expectError(
            await callProxy(facts.proxyUrl, method, path, headers),
            status,
            `${method} ${path} ${JSON.stringify(Object.keys(headers))}`,
          );
        await at(400, "/health", {});
        await at(400, "/health", { host: `x-${sandbox.sandboxID}.${facts.domain}` });
        await at(400, "/health", { "e2b-sandbox-id": sandbox.sandboxID, "e2b-sandbox-port": "0" });
        for (const path of [
          "/init",
          "/INIT/",
          "/%69nit",
          "/freeze",
          "/unfreeze",
          "/fsfreeze",
          "/fsthaw",
          "/collapse",
          "/upgrade",
        ]) {
          await at(404, path, to(49_983), "POST");
        }
        await at(401, "/health", { "e2b-sandbox-id": sandbox.sandboxID, "e2b-sandbox-port": "49983" });
        await at(502, "/health", to(49_983, UNKNOWN));
        await at(502, "/", to(3_998));
        await killSandbox(facts, sandbox.sandboxID);
        await at(502, "/health", to(49_983));
        await at(502, "/", { "e2b-sandbox-id": sandbox.sandboxID, "e2b-sandbox-port": "3998" });
      },
    },
    {
      id: "F1f",
      title: "both planes answer browsers: preflights, and CORS headers on errors",
      run: async () => {
        for (const [origin, path] of [
          [facts.apiUrl, "/v2/sandboxes"],
          [facts.proxyUrl, "/health"],
        ] as const) {
          const preflight = await request(`${origin}${path}`, {
            method: "OPTIONS",
            headers: {
              host: origin === facts.proxyUrl ? `49983-${UNKNOWN}.${facts.domain}` : new URL(origin).host,
              origin: "https://dashboard.example",
              "access-control-request-method": "POST",
              "access-control-request-headers": "x-api-key,content-type",
            },
          });
          await preflight.body.dump();
          assert.equal(preflight.statusCode, 204, `preflight of ${path}`);
          assert.equal(preflight.headers["access-control-allow-origin"], "*");
          const refused = await request(`${origin}${path}`, { headers: { origin: "https://dashboard.example" } });
          await refused.body.dump();
          assert.ok(refused.statusCode >= 400);
          assert.equal(refused.headers["access-control-allow-origin"], "*", `error of ${path}`);
        }
      },
    },
    {
      id: "F5",
      title: "a body of 1 MiB and one byte is 400, with a length or chunked",
      run: async () => {
        const text = JSON.stringify({ templateID: "base", pad: "" });
        const body = text.replace('""', `"${"x".repeat((1 << 20) + 1 - text.length)}"`);
        assert.equal(body.length, (1 << 20) + 1);
        expectError(await callApi(facts, "POST", "/v2/sandboxes", { text: body }), 400, "with a length");
        const chunked = await request(`${facts.apiUrl}/v2/sandboxes`, {
          method: "POST",
          headers: { "x-api-key": facts.keys.one, "content-type": "application/json" },
          body: Readable.from([Buffer.from(body.slice(0, 600_000)), Buffer.from(body.slice(600_000))]),
        });
        const reply = { status: chunked.statusCode, headers: chunked.headers, text: await chunked.body.text() };
        expectError(reply, 400, "chunked");
      },
    },
    {
      id: "F6",
      title: "a kept-alive connection that idles, for a minute in a full run, is not reset",
      run: async () => {
        await Promise.all(
          [`${facts.apiUrl}/health`, `${facts.proxyUrl}/healthz`].map(async (url) => {
            const agent = new Agent({
              connections: 1,
              pipelining: 1,
              keepAliveTimeout: 300_000,
              keepAliveMaxTimeout: 300_000,
            });
            let connections = 0;
            agent.on("connect", () => {
              connections += 1;
            });
            try {
              for (const pause of [0, idleMs]) {
                await delay(pause);
                const response = await request(url, { dispatcher: agent });
                await response.body.dump();
                assert.equal(response.statusCode, 204);
              }
            } finally {
              await agent.close();
            }
            assert.equal(connections, 1, `connections used for ${url}`);
          }),
        );
      },
    },
    {
      id: "LOG",
      title: "the log of the run names no key, no node token, no access token",
      run: async () => {
        const sandbox = await createSandbox(facts);
        const token = sandbox.envdAccessToken ?? "";
        assert.notEqual(token, "", "create answers a token");
        const headers = { "e2b-sandbox-id": sandbox.sandboxID, "e2b-sandbox-port": "49983" };
        const query = "/files?path=/etc/hostname&signature=v1_SIGNATURE_IN_A_QUERY&signature_expiration=1";
        await callProxy(facts.proxyUrl, "GET", query, headers);
        await callProxy(facts.proxyUrl, "GET", "/health", { ...headers, "x-access-token": token });
        await killSandbox(facts, sandbox.sandboxID);
        // Standard output is for the user who started it: the greeting there shows the key to use.
        const log = rig.front.stderr();
        assert.ok(log.length > 1_000, "there is a log");
        for (const secret of [...Object.values(facts.keys), facts.nodeToken, token, "SIGNATURE_IN_A_QUERY"]) {
          assert.ok(!log.includes(secret), `the log holds a secret (${secret.slice(0, 6)}…)`);
        }
      },
    },
  ];
}

/** Rows of a rig whose nodes take two claims each and keep two guests warm. */
export function capacityRows(rig: Rig): readonly HarnessRow[] {
  const { facts } = rig;
  return [
    {
      id: "F7",
      title: "as many creates at once as the fleet takes, and one more: exactly one 503",
      run: async () => {
        const room = rig.nodes.length * 2;
        await poolsFull(rig.nodes);
        await delay(facts.pollMs + 300);
        const replies = await Promise.all(
          Array.from({ length: room + 1 }, () =>
            callApi(facts, "POST", "/v2/sandboxes", { body: { templateID: "base", timeout: 60 } }),
          ),
        );
        for (const reply of replies.filter((one) => one.status === 201)) {
          await killSandbox(facts, (JSON.parse(reply.text) as { sandboxID: string }).sandboxID);
        }
        const refused = replies.filter((reply) => reply.status !== 201);
        assert.equal(refused.length, 1, replies.map((reply) => reply.status).join(" "));
        for (const reply of refused) {
          const message = expectError(reply, 503, "the one too many");
          assert.ok(message.includes("base") || message.includes(facts.image), `${message} names the template`);
        }
      },
    },
  ];
}

/** Starts of the service that must fail, and with what. */
export function startupRows(
  start: (
    label: string,
    change: (dir: string) => Promise<readonly string[]>,
  ) => Promise<{ code: number | null; stderr: string }>,
): readonly HarnessRow[] {
  const refused = (
    id: string,
    title: string,
    code: number,
    pattern: RegExp,
    change: (dir: string) => Promise<readonly string[]>,
  ): HarnessRow => ({
    id,
    title,
    run: async () => {
      const end = await start(id, change);
      assert.equal(end.code, code, end.stderr.slice(-500));
      assert.match(end.stderr, pattern);
    },
  });
  const file = async (dir: string, name: string, text: string): Promise<string> => {
    const path = join(dir, name);
    await writeFile(path, text);
    return path;
  };
  return [
    refused("F3a", "an alias line without an image stops the start", 1, /^sandbox-e2b: .*alias/m, async (dir) => [
      `--e2b-template-aliases=${await file(dir, "bad-aliases", "base\n")}`,
    ]),
    refused("F3b", "an unknown alias size stops the start", 1, /^sandbox-e2b: .*huge/m, async (dir) => [
      `--e2b-template-alias-file=${await file(dir, "bad-aliases", "base image huge\n")}`,
    ]),
    refused("F3c", "an alias given twice stops the start", 1, /^sandbox-e2b: .*base/m, async (dir) => [
      `--e2b-template-aliases=${await file(dir, "bad-aliases", "base a\nbase b\n")}`,
    ]),
    refused("F3d", "an unreadable key file stops the start", 1, /^sandbox-e2b: .*no-such-file/m, async (dir) => [
      `--e2b-api-key-file=${join(dir, "no-such-file")}`,
    ]),
    refused("F3e", "a key line with stray fields stops the start", 1, /^sandbox-e2b: /m, async (dir) => [
      `--e2b-api-key-file=${await file(dir, "bad-keys", "e2b_aa ns1 what\n")}`,
    ]),
    refused(
      "F3f",
      "an unreadable token file stops the start",
      1,
      /^sandbox-e2b: sandboxd: read token file/m,
      async (dir) => [`--sandboxd-token-file=${join(dir, "no-such-file")}`],
    ),
    refused("F3g", "an unknown flag is a usage error", 2, /no-such-flag/, async () => ["--no-such-flag=1"]),
    refused("F3h", "a bad duration is a usage error", 2, /inventory-poll/, async () => ["--inventory-poll=soon"]),
    refused("F3i", "no seed that answers stops the start", 1, /^sandbox-e2b: .*no seed answered/m, async () => [
      "--sandboxd-seeds=127.0.0.1:9",
    ]),
  ];
}
