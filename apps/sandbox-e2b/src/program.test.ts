import { execFile } from "node:child_process";
import { copyFile, mkdir, symlink, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import type { Socket } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { fakeNode } from "./testing/fake-node.ts";
import { scratchFolder, startProgram } from "./testing/program.ts";

const here = ["--e2b-bind-address=127.0.0.1:0", "--envd-proxy-bind-address=127.0.0.1:0", "--e2b-domain=sandbox.test"];

function logLines(stderr: string): Readonly<Record<string, unknown>>[] {
  return stderr
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe.concurrent("start-up failures", { timeout: 90_000 }, () => {
  test.each<[string, readonly string[], Readonly<Record<string, string>>, number, RegExp]>([
    ["no seed", [...here, "--e2b-allow-anonymous"], {}, 1, /at least one seed is required: set --sandboxd-seeds/],
    ["no key", [...here, "--sandboxd-seeds=127.0.0.1:1"], {}, 1, /set --e2b-api-key-file or --e2b-allow-anonymous/],
    [
      "a seed that does not answer",
      [...here, "--e2b-allow-anonymous", "--sandboxd-seeds=127.0.0.1:1", "--inventory-poll=1s"],
      {},
      1,
      /no seed answered/,
    ],
    [
      "an unreadable token file, from a variable",
      [...here, "--e2b-allow-anonymous", "--sandboxd-seeds=127.0.0.1:1"],
      { SANDBOX_E2B_SANDBOXD_TOKEN_FILE: "/nonexistent/token" },
      1,
      /sandboxd: read token file "\/nonexistent\/token"/,
    ],
    ["an unknown log level", [], { OPERATOR_LOG_LEVEL: "loud" }, 1, /OPERATOR_LOG_LEVEL is "loud": set it to one of/],
    ["an unknown flag", ["--nonsense"], {}, 2, /unknown flag --nonsense/],
    ["a node without its token file", ["dev-node"], {}, 2, /--token-file is required/],
    [
      "own nodes and foreign seeds",
      ["dev", "--nodes=2", "--sandboxd-seeds=a:1"],
      {},
      2,
      /--nodes starts nodes of our own/,
    ],
  ])("%s is one line on stderr", async (_name, args, env, status, message) => {
    await using program = startProgram(args, env);
    expect(await program.exited).toBe(status);
    expect(program.stdout).toBe("");
    const failures = program.stderr.split("\n").filter((line) => line.startsWith("sandbox-e2b: "));
    expect(failures).toHaveLength(1);
    expect(failures[0]).toMatch(message);
  });

  test("a Node that is too old is told so", async () => {
    const older = "Object.defineProperty(process.versions,'node',{value:'22.18.0'})";
    await using program = startProgram(["--version"], {}, [`--import=data:text/javascript,${older}`]);
    expect(await program.exited).toBe(1);
    expect(program.stderr).toBe(
      "sandbox-e2b: needs Node.js 22.19 or newer, this is 22.18.0: put a newer one first on PATH (in a clone: node_modules/.bin)\n",
    );
  });
});

describe.concurrent("a running service", { timeout: 90_000 }, () => {
  test("logs JSON with the pinned lines, and no secret", async () => {
    await using folder = await scratchFolder();
    const keyFile = join(folder.path, "keys");
    await writeFile(keyFile, "e2b_k3y team\n");
    await using node = await fakeNode({ token: "t0ken" });
    await using program = startProgram([
      ...here,
      `--sandboxd-seeds=${node.address}`,
      "--sandboxd-token=t0ken",
      `--e2b-api-key-file=${keyFile}`,
    ]);
    await program.output(/serving envd-proxy address=\S+ tls=false domain=sandbox\.test/);
    program.signal("SIGTERM");
    expect(await program.exited).toBe(0);
    const lines = logLines(program.stderr);
    expect(program.stderr.trim().split("\n")).toHaveLength(lines.length);
    for (const line of lines) {
      expect(line).toMatchObject({
        level: expect.stringMatching(/^(debug|info|warn|error)$/),
        message: expect.any(String),
      });
    }
    expect(lines.map((line) => line["message"])).toContain(
      `mesh inventory up seeds=[${node.address}] nodes=[${node.address}] poll=10s`,
    );
    expect(lines[0]).toMatchObject({
      func: "main.run",
      message: expect.stringMatching(/^starting sandbox-e2b version=/),
    });
    expect(program.stderr).not.toMatch(/t0ken|e2b_k3y/);
  });

  test("ends within its bound though a request never ends, whatever signals follow", async () => {
    const claimed = Promise.withResolvers<void>();
    await using node = await fakeNode({
      handle: (request) => {
        // The node takes the claim and never answers.
        if (request.url !== "/v1/claim") return false;
        claimed.resolve();
        return true;
      },
    });
    await using program = startProgram([...here, `--sandboxd-seeds=${node.address}`, "--e2b-allow-anonymous"]);
    const [, api = ""] = await program.output(/"address":"(127\.0\.0\.1:\d+)"[^\n]*serving e2b/);
    const [host = "", port = ""] = api.split(":");
    const body = '{"templateID":"img"}';
    const client: Socket = connect(Number(port), host).on("error", () => undefined);
    client.write(
      `POST /sandboxes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    await claimed.promise;
    const began = performance.now();
    program.signal("SIGTERM");
    setTimeout(() => program.signal("SIGTERM"), 200);
    setTimeout(() => program.signal("SIGINT"), 400);
    expect(await program.exited).toBe(0);
    expect(performance.now() - began).toBeLessThan(18_000);
    client.destroy();
  });
});

test("the bin hands every argument to the program, --env-file too, which Node would take for itself", async () => {
  await using folder = await scratchFolder();
  const root = join(folder.path, "with space");
  await mkdir(join(root, "bin"), { recursive: true });
  await mkdir(join(root, "dist"));
  await copyFile(fileURLToPath(new URL("../bin/sandbox-e2b", import.meta.url)), join(root, "bin", "sandbox-e2b"));
  await writeFile(join(root, "package.json"), '{"type":"module"}');
  await writeFile(join(root, "dist", "main.js"), "console.log(JSON.stringify(process.argv.slice(2)))");
  // Package managers start it through a link.
  const link = join(folder.path, "linked");
  await symlink(join(root, "bin", "sandbox-e2b"), link);
  const args = ["dev", "--env-file=/nonexistent/a b", "--image=$HOME", ""];
  const { stdout } = await promisify(execFile)(link, args);
  expect(JSON.parse(stdout)).toEqual(args);
});
