import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

import { callApi, createSandbox, killSandbox } from "../../src/api.ts";
import { type KubeCaller, kubeCall, kubeJson, kubeWatch } from "../../src/kube-call.ts";
import type { KubeRig, Shim, ShimOptions } from "../../src/kube-rig.ts";
import { SYSTEM_TOKEN, TOKENS } from "../../src/kube-users.ts";
import { waitFor } from "../../src/polling.ts";
import { freePorts } from "../../src/ports.ts";
import { IMAGE, RIG, type RigFacts } from "../../src/rig.ts";
import type { ControlContext, HeldRows } from "../control/context.ts";
import { type KubeCheck, laneOf } from "./context.ts";
import { GROUP_VERSION, sandbox } from "./manifests.ts";

const listOf = (namespace: string): string => `/apis/${GROUP_VERSION}/namespaces/${namespace}/sandboxes`;

const admin = (shim: Shim): KubeCaller => ({ url: shim.url, ca: shim.ca, token: TOKENS.admin });

/** Starts a shim that must end by itself, and answers its last line of stderr that is no log. */
async function failedStart(rig: KubeRig, options: ShimOptions): Promise<string> {
  const { process: child } = await rig.launchShim(options);
  const timer = setTimeout(() => child.signal("SIGKILL", true), 60_000);
  const end = await child.ended;
  clearTimeout(timer);
  const lines = child
    .stderr()
    .trimEnd()
    .split("\n")
    .filter((line) => !line.startsWith("{"));
  assert.deepEqual([end.code, lines.length], [1, 1], `exit ${end.code}: ${child.stderr().slice(-500)}`);
  return lines[0] ?? "";
}

/** What clients of the E2B API are told of a shim that serves it. */
function e2bFacts(rig: KubeRig, shim: Shim): RigFacts {
  return {
    ...RIG,
    mode: "secret",
    apiUrl: shim.e2bUrl,
    proxyUrl: "",
    image: IMAGE,
    nodeAddresses: rig.guests.nodes.map(({ admin: node }) => node.address),
    pollMs: 1_000,
    frontPid: shim.process.pid,
  };
}

const STARTS: readonly KubeCheck[] = [
  [
    "ST01",
    "files and clusters that are not there end the start with status 1 and one line that names them",
    async ({ rig }) => {
      const cases: readonly (readonly [ShimOptions, RegExp])[] = [
        [
          { env: { KUBECONFIG: "/nonexistent/config" } },
          /KUBECONFIG names no file that exists \(\/nonexistent\/config\)/,
        ],
        [{ flags: ["--sandboxd-token-file=/nonexistent/token"] }, /read token file "\/nonexistent\/token"/],
        [{ flags: ["--authentication-kubeconfig=/nonexistent/k"] }, /\/nonexistent\/k/],
        [{ flags: ["--tls-cert-file=/nonexistent/c"] }, /\/nonexistent\/c/],
        [{ flags: ["--client-ca-file=/nonexistent/ca"] }, /\/nonexistent\/ca/],
        [{ flags: ["--tls-cipher-suites=TLS_NULL"] }, /TLS_NULL/],
        [{ e2b: true, flags: ["--e2b-api-key-file=/nonexistent/keys"] }, /\/nonexistent\/keys/],
        [{ e2b: true, without: ["e2b-domain"] }, /--e2b-domain/],
        [{ e2b: true, without: ["e2b-api-key-file"] }, /--e2b-api-key-file or --e2b-allow-anonymous/],
        [{ env: { OPERATOR_LOG_LEVEL: "loud" } }, /OPERATOR_LOG_LEVEL is "loud"/],
      ];
      for (const [options, message] of cases) {
        assert.match(await failedStart(rig, options), message);
      }
    },
  ],
  [
    "ST02",
    "a port that is taken ends the start, for either surface, and nothing stays behind",
    async ({ rig }) => {
      const taken = createServer();
      const [port = 0] = await freePorts(1);
      await new Promise<void>((resolve) => taken.listen(port, "127.0.0.1", resolve));
      try {
        assert.match(await failedStart(rig, { flags: [`--secure-port=${port}`] }), new RegExp(`${port}.*EADDRINUSE`));
        const flags = [`--e2b-bind-address=127.0.0.1:${port}`];
        assert.match(await failedStart(rig, { e2b: true, flags }), new RegExp(`127\\.0\\.0\\.1:${port}`));
      } finally {
        await new Promise((resolve) => taken.close(resolve));
      }
    },
  ],
  [
    "ST03",
    "without the cluster's word on authentication it does not start, unless that is tolerated or not asked for",
    async ({ rig }) => {
      const path = "/configmaps";
      const faults = [{ path, action: { kind: "status", code: 403, reason: "Forbidden" } }] as const;
      await rig.standin.order({ op: "faults", faults });
      try {
        assert.match(await failedStart(rig, {}), /extension-apiserver-authentication-reader/);
        for (const flag of ["--authentication-tolerate-lookup-failure", "--authentication-skip-lookup"]) {
          const shim = await rig.shim({ flags: [flag] });
          assert.equal((await kubeCall(admin(shim), listOf("team"))).status, 200, flag);
          await shim.process.stop(5_000);
        }
      } finally {
        await rig.standin.order({ op: "faults", faults: [] });
      }
    },
  ],
  [
    "ST04",
    "a certificate of its own is made in --cert-dir and kept; without a cluster for reviews nobody but masters gets in",
    async ({ rig }) => {
      const dir = join(rig.guests.files.dir, "made");
      const options: ShimOptions = {
        flags: [`--cert-dir=${dir}`, `--client-ca-file=${join(rig.guests.files.dir, "clients.pem")}`],
        without: ["tls-cert-file", "tls-private-key-file", "authentication-kubeconfig", "authorization-kubeconfig"],
      };
      const { clients } = rig.authorities;
      await writeFile(join(rig.guests.files.dir, "clients.pem"), clients.cert);
      let certificate = "";
      for (const start of ["first", "second"]) {
        const shim = await rig.shim(options);
        const ca = await readFile(join(dir, "apiserver.crt"), "utf8");
        if (start === "second") {
          assert.equal(ca, certificate, "it is kept");
        }
        certificate = ca;
        const root = clients.issue({ commonName: "root", organizations: ["system:masters"] });
        const user = clients.issue({ commonName: "somebody" });
        const status = async (more: Partial<KubeCaller>): Promise<number> =>
          (await kubeCall({ url: shim.url, ca, ...more }, listOf("team"))).status;
        assert.deepEqual(
          [await status({ pair: root }), await status({ pair: user }), await status({ token: "x" })],
          [200, 403, 401],
        );
        await shim.process.stop(5_000);
      }
    },
  ],
];

const ENDS: readonly KubeCheck[] = [
  [
    "ST10",
    "SIGTERM: readyz fails, watches end within two seconds, a create in flight succeeds, E2B answers until then; exit 0",
    async ({ rig }) => {
      const shim = await rig.shim({ e2b: true });
      const facts = e2bFacts(rig, shim);
      const watch = await kubeWatch(admin(shim), `${listOf("team")}?watch=true`);
      const slow = { kind: "delay", path: "/v1/claim", method: "POST", times: 1, delay_ms: 4_000 };
      const faulted = await Promise.allSettled(rig.guests.nodes.map(({ admin: node }) => node.faults([slow])));
      assert.ok(
        faulted.every(({ status }) => status === "fulfilled"),
        JSON.stringify(faulted),
      );
      const create = kubeCall(admin(shim), listOf("team"), "POST", sandbox({ name: "in-flight" }));
      await delay(700);
      const begun = performance.now();
      shim.process.signal("SIGTERM");
      await watch.ended;
      const watchedMs = performance.now() - begun;
      assert.ok(watchedMs < 2_800, `watches ended after ${watchedMs} ms`);
      assert.equal((await callApi(facts, "GET", "/v2/sandboxes")).status, 200, "E2B while the other drains");
      const made = await create;
      assert.equal(made.status, 201, made.text);
      assert.equal((await shim.process.ended).code, 0);
      await Promise.all(rig.guests.nodes.map(({ admin: node }) => node.faults([])));
    },
  ],
  [
    "ST11",
    "readyz says shutdown while it drains, and a second signal ends it at once with status 1",
    async ({ rig }) => {
      const shim = await rig.shim();
      const slow = { kind: "delay", path: "/v1/claim", method: "POST", times: 1, delay_ms: 20_000 };
      await Promise.all(rig.guests.nodes.map(({ admin: node }) => node.faults([slow])));
      const create = kubeCall(admin(shim), listOf("team"), "POST", sandbox({ name: "cut" })).catch(() => undefined);
      await delay(700);
      const kept = kubeCall({ url: shim.url, ca: shim.ca }, "/readyz?verbose");
      assert.match((await kept).text, /\[\+\]shutdown ok/);
      shim.process.signal("SIGTERM");
      await waitFor(
        "a failing readyz",
        async () => {
          const answer = await kubeCall({ url: shim.url, ca: shim.ca }, "/readyz?verbose");
          return answer.status === 500 && answer.text.includes("[-]shutdown failed");
        },
        3_000,
        20,
      );
      const begun = performance.now();
      shim.process.signal("SIGTERM");
      assert.equal((await shim.process.ended).code, 1);
      assert.ok(performance.now() - begun < 2_000);
      await create;
      await Promise.all(rig.guests.nodes.map(({ admin: node }) => node.faults([])));
    },
  ],
];

const SURFACES: readonly KubeCheck[] = [
  [
    "ST20",
    "one store: what either API makes, pauses and kills the other one shows at once",
    async ({ rig }) => {
      const shim = await rig.shim({ e2b: true });
      try {
        const facts = e2bFacts(rig, shim);
        const made = await createSandbox(facts);
        const names = async (): Promise<readonly string[]> => {
          const list = await kubeJson(admin(shim), listOf("ns1"));
          return (list["items"] as { metadata: { annotations: Record<string, string> } }[]).map(
            ({ metadata }) => metadata.annotations["sandbox.cocoonstack.io/claim-id"] ?? "",
          );
        };
        assert.deepEqual(await names(), [made.sandboxID.replace("sb-", "sb_")]);
        const own = await kubeJson(admin(shim), listOf("ns1"), 201, "POST", sandbox({ name: "by-kubectl" }));
        const claim =
          (own["metadata"] as { annotations: Record<string, string> }).annotations["sandbox.cocoonstack.io/claim-id"] ??
          "";
        const shown = JSON.parse((await callApi(facts, "GET", "/v2/sandboxes")).text) as {
          sandboxID: string;
          state: string;
        }[];
        assert.ok(shown.some(({ sandboxID }) => sandboxID === claim.replace("sb_", "sb-")));
        await kubeJson(admin(shim), `${listOf("ns1")}/by-kubectl/pause`, 201, "POST", "{}");
        const paused = JSON.parse((await callApi(facts, "GET", `/sandboxes/${claim.replace("sb_", "sb-")}`)).text) as {
          state: string;
        };
        assert.equal(paused.state, "paused");
        await killSandbox(facts, made.sandboxID);
        await killSandbox(facts, claim.replace("sb_", "sb-"));
        assert.deepEqual(await names(), []);
      } finally {
        await shim.process.stop(5_000);
      }
    },
  ],
  [
    "ST21",
    "port 0 serves the E2B API alone, and a unique name is refused when that is wanted",
    async ({ rig }) => {
      const alone = await rig.launchShim({ e2b: true, flags: ["--secure-port=0"] });
      await waitFor(
        "the E2B API",
        async () => (await callApi(e2bFacts(rig, alone), "GET", "/health")).status === 204,
        30_000,
      );
      assert.equal((await alone.process.stop(15_000)).code, 0);
      const unique = await rig.shim({ flags: ["--unique-sandbox-names"] });
      try {
        await kubeJson(admin(unique), listOf("team"), 201, "POST", sandbox({ name: "only" }));
        const second = await kubeJson(admin(unique), listOf("team"), 409, "POST", sandbox({ name: "only" }));
        assert.equal(second["reason"], "AlreadyExists");
        await kubeJson(admin(unique), `${listOf("team")}/only`, 200, "DELETE");
      } finally {
        await unique.process.stop(5_000);
      }
    },
  ],
  [
    "ST22",
    "no log has a token, a key or a secret in it",
    async ({ shim }) => {
      const made = await kubeJson(admin(shim), listOf("team"), 201, "POST", sandbox({ name: "quiet" }));
      const token =
        (made["metadata"] as { annotations: Record<string, string> }).annotations["sandbox.cocoonstack.io/token"] ?? "";
      assert.notEqual(token, "");
      await kubeCall({ ...admin(shim), token: "an-unknown-secret" }, listOf("team"));
      await kubeJson(admin(shim), `${listOf("team")}/quiet`, 200, "DELETE");
      const log = shim.log();
      assert.ok(log.length > 0);
      for (const secret of [token, SYSTEM_TOKEN, ...Object.values(TOKENS), RIG.nodeToken, "an-unknown-secret"]) {
        assert.ok(!log.includes(secret), "a secret in the log");
      }
    },
  ],
];

/** How a shim starts, ends and what its surfaces share. */
export function lifeRows(context: ControlContext): HeldRows {
  return laneOf(context, "kube-life", { nodes: 1, warm: 4 }, [...STARTS, ...ENDS, ...SURFACES]);
}
