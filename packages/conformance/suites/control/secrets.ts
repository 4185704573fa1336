import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";

import { Sandbox, Template } from "e2b-2.51";
import { request } from "undici";

import { callApi, callProxy, runInGuest } from "../../src/api.ts";
import type { Front } from "../../src/front.ts";
import { buildFlags, type GuestMesh } from "../../src/guest-mesh.ts";
import type { HarnessRow } from "../../src/harness-rows.ts";
import { IMAGE, RIG } from "../../src/rig.ts";
import { sdkOptions } from "../faults/context.ts";
import { type ControlContext, type HeldRows, laneMesh } from "./context.ts";

/** Something that nobody but its owner may ever read. */
const secret = (what: string): string => `${what}-${randomBytes(12).toString("hex")}`;

/** Uses nearly everything there is, well and badly. Answers every secret that went over the wire, by what it is. */
async function useEverything(front: Front, mesh: GuestMesh): Promise<ReadonlyMap<string, string>> {
  const { facts } = front;
  const options = sdkOptions(front);
  const secrets = new Map<string, string>([
    ["the key of ns1", facts.keys.one],
    ["the key of ns2", facts.keys.two],
    ["a wrong key", `e2b_${randomBytes(16).toString("hex")}`],
    ["the node token", RIG.nodeToken],
    ["the secret that tokens are derived with", (await readFile(mesh.files.secretFile, "utf8")).trim()],
    ["a variable at create", secret("env-create")],
    ["a variable of a command", secret("env-command")],
    ["a variable of a build", secret("env-build")],
    ["a wrong access token", secret("wrong-token")],
    ["a key of a create", secret("idempotency")],
    ["a query of a user", secret("query")],
    ["a password in a body", secret("file-content")],
  ]);
  const of = (name: string): string => {
    const value = secrets.get(name);
    assert.ok(value !== undefined, name);
    return value;
  };
  const note = async (sandbox: Sandbox): Promise<void> => {
    for (const { admin } of mesh.nodes) {
      const row = await admin.sandbox(sandbox.sandboxId.replace("sb-", "sb_")).catch(() => undefined);
      if (row?.token !== undefined) {
        secrets.set(`the claim token of ${sandbox.sandboxId}`, row.token);
      }
    }
  };
  const noteReply = (text: string, what: string): void => {
    for (const [, token = ""] of text.matchAll(/"envdAccessToken":"([^"]+)"/g)) {
      secrets.set(`the access token of ${what} ${secrets.size}`, token);
    }
  };

  const create = await callApi(facts, "POST", "/v2/sandboxes", {
    body: { templateID: "base", timeout: 120, envVars: { PASSWORD: of("a variable at create") }, metadata: { a: "b" } },
    headers: { "idempotency-key": of("a key of a create") },
  });
  assert.equal(create.status, 201, create.text);
  noteReply(create.text, "a sandbox");
  const { sandboxID } = JSON.parse(create.text) as { sandboxID: string };
  const sandbox = await Sandbox.connect(sandboxID, options);
  await note(sandbox);
  const run = await sandbox.commands.run('echo "$PASSWORD $OTHER"', {
    envs: { OTHER: of("a variable of a command") },
  });
  assert.equal(run.stdout, `${of("a variable at create")} ${of("a variable of a command")}\n`);
  await assert.rejects(sandbox.commands.run("exit 3", { envs: { OTHER: of("a variable of a command") } }));
  await sandbox.files.write("/home/user/secret", of("a password in a body"));

  // Signed addresses, through the loopback listener by their host.
  for (const signed of [
    await sandbox.downloadUrl("/home/user/secret", { useSignatureExpiration: 60 }),
    await sandbox.uploadUrl("/home/user/other", { useSignatureExpiration: 60 }),
    await sandbox.downloadUrl("/home/user/missing", { useSignatureExpiration: 60 }),
  ]) {
    const url = new URL(signed);
    secrets.set(`a signature ${secrets.size}`, url.searchParams.get("signature") ?? "");
    const host = `49983-${sandboxID}.${RIG.domain}`;
    const reply = await request(`${facts.proxyUrl}${url.pathname}${url.search}`, { headers: { host } });
    await reply.body.dump();
  }
  const guest = { "e2b-sandbox-id": sandboxID, "e2b-sandbox-port": "49983" };
  for (const headers of [
    { ...guest, "x-access-token": of("a wrong access token") },
    { ...guest, authorization: `Bearer ${of("a wrong access token")}` },
    { ...guest, "e2b-sandbox-port": "3999", "x-access-token": of("a wrong access token") },
  ]) {
    await callProxy(facts.proxyUrl, "GET", `/files?path=/x&token=${of("a query of a user")}`, headers);
  }

  // Lives: pause, wake, fork, snapshot, metrics, logs.
  await sandbox.pause();
  await Sandbox.connect(sandboxID, options);
  const forked = await callApi(facts, "POST", `/sandboxes/${sandboxID}/fork`, { body: { count: 1, timeout: 60 } });
  noteReply(forked.text, "a child");
  const [{ sandbox: child } = { sandbox: undefined }] = JSON.parse(forked.text) as { sandbox: { sandboxID: string } }[];
  assert.ok(child !== undefined, forked.text);
  const snapshot = await sandbox.createSnapshot({ name: "secrets" });
  const copy = await Sandbox.create(snapshot.snapshotId, { ...options, timeoutMs: 60_000 });
  await note(copy);
  await copy.kill();
  await Sandbox.deleteSnapshot(snapshot.snapshotId, options);
  await sandbox.getMetrics();
  await callApi(facts, "GET", `/sandboxes/${sandboxID}/logs`);

  // A build with a variable, a file and a failing step.
  for (const last of ["true", "false"]) {
    const template = Template()
      .fromImage(IMAGE)
      .setEnvs({ BUILD_SECRET: of("a variable of a build") })
      .runCmd(`test -n "$BUILD_SECRET" && ${last}`);
    await Template.build(template, "secrets", options).catch(() => undefined);
  }
  const link = await callApi(facts, "GET", `/templates/secrets/files/${"ab".repeat(32)}`);
  const { url } = JSON.parse(link.text) as { url: string };
  secrets.set("the signature of an upload", new URL(url).searchParams.get("sig") ?? "");
  for (const address of [url, `${url}0`]) {
    const put = await request(address, { method: "PUT", body: of("a password in a body") });
    await put.body.dump();
  }

  // What is refused, and what breaks.
  await callApi(facts, "GET", "/v2/sandboxes", { key: of("a wrong key") });
  await callApi(facts, "GET", `/v2/nothing?api_key=${of("a query of a user")}`);
  await callApi(facts, "POST", "/v2/sandboxes", { text: `{"envVars":{"A":"${of("a variable at create")}"` });
  await callApi(facts, "POST", "/v2/sandboxes", {
    body: { templateID: "nope", envVars: { A: of("a variable at create") } },
  });
  for (const path of ["/v1/claim", "/v1/sandboxes/*/release", "/v1/sandboxes/*/ports/*", "/v1/sandboxes/*"]) {
    const cut = { kind: "drop-reply", path, times: 2 };
    await Promise.all(mesh.nodes.map(({ admin }) => admin.faults([cut])));
    await callApi(facts, "POST", "/v2/sandboxes", {
      body: { templateID: "base", timeout: 10, envVars: { A: of("a variable at create") } },
    });
    await callApi(facts, "GET", `/sandboxes/${sandboxID}`);
    await runInGuest(facts, { sandboxID, clientID: "", templateID: "" }, "true").catch(() => undefined);
  }
  await Promise.all(mesh.nodes.map(({ admin }) => admin.faults([])));
  await callApi(facts, "DELETE", `/sandboxes/${child.sandboxID}`);
  await sandbox.kill();
  await callApi(facts, "DELETE", "/templates/secrets");
  return secrets;
}

/** FR49: what logs may not hold. */
export function secretRows(context: ControlContext): HeldRows {
  const held = laneMesh(context, "secrets", { nodes: 2, warm: 4, logLevel: "debug" });
  const rows: HarnessRow[] = [
    {
      id: "FR49",
      title: "no log of a full run, at its most talkative, has a key, a token, a variable, a signature or a body",
      run: async () => {
        const mesh = await held.mesh();
        const front = await mesh.front({ flags: buildFlags(mesh.files) });
        const secrets = await useEverything(front, mesh);
        assert.ok(secrets.size >= 20, `${secrets.size} secrets were used`);
        const logs = new Map<string, string>([
          ["the front", front.log()],
          ...mesh.nodes.map(({ process }, index) => [`node ${index}`, process.stdout() + process.stderr()] as const),
        ]);
        assert.match(logs.get("the front") ?? "", /"level":(?:20|"debug")/, "the front talks");
        for (const [where, log] of logs) {
          assert.ok(log.length > 200, `${where} has a log`);
          for (const [what, value] of secrets) {
            assert.ok(value.length >= 8, `${what} is a secret`);
            for (const form of [value, encodeURIComponent(value), Buffer.from(value).toString("base64")]) {
              const at = log.indexOf(form);
              assert.equal(at, -1, `${where} logs ${what}: ${log.slice(Math.max(0, at - 200), at)}…`);
            }
          }
        }
        await front.stop();
      },
    },
  ];
  return { rows, close: held.close };
}
