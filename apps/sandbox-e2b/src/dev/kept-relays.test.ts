import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { expect, test } from "vitest";
import { scratchFolder, startProgram } from "../testing/program.ts";

test("a paused sandbox with kept relays is not woken by a probe, and is by the next call, whoever paused it", async () => {
  await using folder = await scratchFolder();
  await using run = startProgram(
    [
      "dev",
      "--warm=1",
      "--warm-egress=0",
      "--envd-proxy-relay-idle=1m",
      "--metrics-bind-address=127.0.0.1:0",
      `--state-dir=${join(folder.path, "state")}`,
      `--write-env-file=${join(folder.path, "env")}`,
    ],
    { OPERATOR_LOG_LEVEL: "info" },
  );
  await run.output(/Sandboxes are ready/);
  const [, node = ""] = await run.output(/mesh inventory up seeds=\[(\S+)\]/);
  const [, metricsAddress = ""] = await run.output(/"address":"([^"]+)","message":"serving metrics"/);
  const variables = parseEnv(await readFile(join(folder.path, "env"), "utf8"));
  const nodeToken = (await readFile(join(folder.path, "state", "node-token"), "utf8")).trim();
  const api = (path: string, body: object): Promise<Response> =>
    fetch(`${variables["E2B_API_URL"]}${path}`, {
      method: "POST",
      headers: { "x-api-key": variables["E2B_API_KEY"] ?? "", "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  const created = await api("/sandboxes", { templateID: "base", timeout: 300 });
  const { sandboxID, envdAccessToken } = (await created.json()) as { sandboxID: string; envdAccessToken: string };
  const guest = async (method: string, path: string, body?: object): Promise<[number, unknown]> => {
    const reply = await fetch(`${variables["E2B_SANDBOX_URL"]}${path}`, {
      method,
      headers: {
        "e2b-sandbox-id": sandboxID,
        "e2b-sandbox-port": "49983",
        "x-access-token": envdAccessToken,
        "content-type": "application/json",
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await reply.text();
    return [reply.status, text === "" ? undefined : JSON.parse(text)];
  };
  const stat = (): Promise<[number, unknown]> => guest("POST", "/filesystem.Filesystem/Stat", { path: "/home/user" });
  const metric = async (line: string): Promise<number> => {
    const text = await (await fetch(`http://${metricsAddress}/metrics`)).text();
    return Number(
      text
        .split("\n")
        .find((one) => one.startsWith(`${line} `))
        ?.split(" ")[1] ?? 0,
    );
  };
  const pauses = [
    () => api(`/sandboxes/${sandboxID}/pause`, {}),
    () =>
      fetch(`http://${node}/v1/sandboxes/${sandboxID.replace("sb-", "sb_")}/hibernate`, {
        method: "POST",
        headers: { authorization: `Bearer ${nodeToken}` },
      }),
  ];
  for (const [at, pause] of pauses.entries()) {
    expect((await stat())[0]).toBe(200);
    expect((await stat())[0]).toBe(200);
    expect(await metric("envdproxy_relays_reused_total")).toBeGreaterThan(at);
    expect((await pause()).status).toBe(204);
    for (let probe = 0; probe < 2; probe += 1) {
      expect(await guest("GET", "/health")).toStrictEqual([502, { code: 502, message: "sandbox is paused" }]);
    }
    const answers = await Promise.all(Array.from({ length: 5 }, stat));
    expect(answers.map(([status]) => status)).toStrictEqual([200, 200, 200, 200, 200]);
    expect((await guest("GET", "/health"))[0]).toBe(204);
  }
}, 90_000);
