import assert from "node:assert/strict";
import { createHash, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { build, type Plugin } from "esbuild";
import type { Browser } from "playwright-core";

import { launchChromium } from "../../src/chromium.ts";
import type { HarnessRow } from "../../src/harness-rows.ts";
import type { ProcessSet } from "../../src/processes.ts";
import type { Programs } from "../../src/programs.ts";
import { type Rig, startDev } from "../../src/rig.ts";

const PAGE = "<!doctype html><meta charset=utf-8><title>sandbox</title><script src=/sdk.js></script>";

/** What the page does with the SDK, as its users would. Runs in the browser, so it refers to nothing around it. */
const SCRIPT = `async (options) => {
  const { Sandbox, NotFoundError } = globalThis.e2b;
  const sandbox = await Sandbox.create("base", { ...options, timeoutMs: 120000 });
  const until = async (probe) => { for (let i = 0; i < 100 && !probe(); i += 1) await new Promise((r) => setTimeout(r, 50)); };
  try {
    const seen = {};
    const streamed = [];
    const run = await sandbox.commands.run("echo out; echo err >&2", { onStdout: (text) => { streamed.push(text); } });
    seen.run = [run.stdout, run.stderr, run.exitCode, streamed.join("")];
    seen.failed = await sandbox.commands.run("exit 3").then(() => "no", (error) => error.exitCode);
    await sandbox.files.write("/home/user/page/é.txt", "from a page é");
    seen.read = await sandbox.files.read("/home/user/page/é.txt");
    seen.bytes = (await sandbox.files.read("/home/user/page/é.txt", { format: "bytes" })).length;
    seen.list = (await sandbox.files.list("/home/user/page")).map((entry) => entry.name);
    seen.missing = await sandbox.files.read("/nowhere").then(() => "no", (error) => error instanceof NotFoundError);
    const events = [];
    const watch = await sandbox.files.watchDir("/home/user/page", (event) => { events.push(event.type + " " + event.name); });
    await sandbox.files.write("/home/user/page/w.txt", "x");
    await until(() => events.includes("write w.txt"));
    await watch.stop();
    seen.watch = events.includes("create w.txt") && events.includes("write w.txt");
    let screen = "";
    const decoder = new TextDecoder();
    const terminal = await sandbox.pty.create({ cols: 80, rows: 24, timeoutMs: 0, onData: (data) => { screen += decoder.decode(data, { stream: true }); } });
    await sandbox.pty.resize(terminal.pid, { cols: 100, rows: 30 });
    await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode('echo "size=$(stty size)"\\n'));
    await until(() => screen.includes("size=30 100"));
    seen.terminal = screen.includes("size=30 100");
    seen.ended = await sandbox.pty.kill(terminal.pid);
    seen.listed = (await Sandbox.list(options).nextItems()).some((one) => one.sandboxId === sandbox.sandboxId);
    if (options.sandboxUrl === undefined) {
      const reply = await fetch(await sandbox.downloadUrl("/home/user/page/é.txt"));
      seen.signed = await reply.text();
    }
    return seen;
  } finally {
    await sandbox.kill();
  }
}`;

/** The SDK as a script of a page, as bundlers make it: what it has for Node alone is left empty. */
async function bundle(): Promise<string> {
  const nothing: Plugin = {
    name: "nothing of Node",
    setup(on) {
      on.onResolve({ filter: /^node:|^undici$/ }, ({ path }) => ({ path, namespace: "nothing" }));
      on.onLoad({ filter: /.*/, namespace: "nothing" }, () => ({ contents: "module.exports = {};", loader: "js" }));
    },
  };
  const { outputFiles } = await build({
    stdin: {
      contents: 'import * as sdk from "e2b-2.51"; globalThis.e2b = sdk;',
      resolveDir: join(dirname(fileURLToPath(import.meta.url)), "../.."),
    },
    bundle: true,
    format: "iife",
    platform: "browser",
    write: false,
    logLevel: "silent",
    plugins: [nothing],
  });
  return outputFiles[0]?.text ?? "";
}

/** A page somewhere else that has the SDK. */
async function servePage(): Promise<AsyncDisposable & { readonly origin: string }> {
  const script = await bundle();
  const server = createServer((request, response) => {
    const isScript = request.url === "/sdk.js";
    response.writeHead(200, {
      "content-type": isScript ? "text/javascript; charset=utf-8" : "text/html; charset=utf-8",
    });
    response.end(isScript ? script : PAGE);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function launch(rig: Rig): Promise<Browser> {
  // Trust in this one key, since the browser's own store of authorities is a database of the user.
  const { trust } = rig.facts;
  const keys: string[] = [];
  if (trust !== undefined) {
    const dir = dirname(trust.caFile);
    const cert = new X509Certificate(await readFile(join(dir, "server-sandbox.localhost.pem")));
    keys.push(
      createHash("sha256")
        .update(cert.publicKey.export({ type: "spki", format: "der" }))
        .digest("base64"),
    );
  }
  return launchChromium([`--ignore-certificate-errors-spki-list=${keys.join(",")}`]);
}

/** The SDK in a page of another origin, over both ways to the data plane. */
export function browserRows(context: { readonly set: ProcessSet; readonly programs: Programs }): readonly HarnessRow[] {
  const { set, programs } = context;
  const row = (id: string, title: string, tls: boolean): HarnessRow => ({
    id,
    title,
    run: async () => {
      await using rig = await startDev(set, programs, { mode: "secret", nodes: 1, warm: 2, warmEgress: 0, tls });
      await using browser = await launch(rig);
      await using page = await servePage();
      const tab = await browser.newPage();
      const complaints: string[] = [];
      tab.on("console", (message) => complaints.push(message.text()));
      tab.on("requestfailed", (request) =>
        complaints.push(`${request.url().split("?")[0]} ${request.failure()?.errorText}`),
      );
      await tab.goto(page.origin);
      const { apiUrl, domain, proxyUrl, keys } = rig.facts;
      const options = { apiKey: keys.one, apiUrl, domain, ...(tls ? {} : { sandboxUrl: proxyUrl }) };
      const seen: unknown = await tab.evaluate(`(${SCRIPT})(${JSON.stringify(options)})`).catch((cause: unknown) => {
        const why = cause instanceof Error ? cause.message : String(cause);
        throw new Error(`${why.slice(0, 400)}\n${complaints.slice(0, 5).join("\n")}`, { cause });
      });
      assert.deepEqual(seen, {
        run: ["out\n", "err\n", 0, "out\n"],
        failed: 3,
        read: "from a page é",
        bytes: 14,
        list: ["é.txt"],
        missing: true,
        watch: true,
        terminal: true,
        ended: true,
        listed: true,
        ...(tls ? { signed: "from a page é" } : {}),
      });
    },
  });
  return [
    row("BR1", "the SDK in a page: create, commands, files, watch, terminal, by one origin in cleartext", false),
    row("BR2", "the same over TLS at the names that the SDK derives, and a signed address", true),
  ];
}
