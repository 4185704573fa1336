import { once } from "node:events";
import { chown, chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { type IncomingMessage, request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { createClient, type Client } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { Filesystem, Process } from "@org/envd-client";

import { createEnvd } from "../envd.ts";
import { createEnvdServer } from "../http/server.ts";
import type { EnvdOptions } from "../options.ts";

/** A daemon on loopback whose users have their homes in a temporary directory. */
export interface TestGuest extends AsyncDisposable {
  readonly port: number;
  readonly baseUrl: string;
  /** Home of `user`. */
  readonly home: string;
  /** Home of `root`. */
  readonly rootHome: string;
  readonly directory: string;
  readonly logs: { readonly level: string; readonly message: string; readonly fields: unknown }[];
  process(options?: { binary?: boolean; headers?: Record<string, string> }): Client<typeof Process>;
  filesystem(options?: { binary?: boolean; headers?: Record<string, string> }): Client<typeof Filesystem>;
  /** One plain request. */
  call(method: string, path: string, init?: CallInit): Promise<Reply>;
  /** Carries out the boot document. */
  boot(): Promise<void>;
  close(): Promise<void>;
}

export interface CallInit {
  readonly headers?: Record<string, string | string[]>;
  readonly body?: string | Uint8Array;
}

export interface Reply {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
  readonly text: string;
  json(): unknown;
}

/** Whether tests can give commands other ids. */
export const isRoot: boolean = process.getuid?.() === 0;

/** The uid of `user` in test guests. */
export const userId: number = isRoot ? 1000 : (process.getuid?.() ?? 1000);

export async function startGuest(options: Partial<EnvdOptions> = {}): Promise<TestGuest> {
  const directory = await mkdtemp(join(tmpdir(), "envd-guest-"));
  await chmod(directory, 0o755);
  const home = join(directory, "home", "user");
  const rootHome = join(directory, "root");
  await mkdir(home, { recursive: true });
  await mkdir(rootHome);
  if (isRoot) await chown(home, userId, userId);
  const passwdFile = join(directory, "passwd");
  const groupFile = join(directory, "group");
  await writeFile(passwdFile, `root:x:0:0::${rootHome}:/bin/sh\nuser:x:${userId}:${userId}::${home}:/bin/sh\n`);
  await writeFile(groupFile, `root:x:0:\nuser:x:${userId}:\nhelpers:x:2345:user\n`);
  const logs: TestGuest["logs"] = [];
  const envd = createEnvd({
    sandboxId: "sb-test",
    templateId: "base",
    defaultUser: "user",
    passwdFile,
    groupFile,
    logger: {
      warn: (fields, message) => logs.push({ level: "warn", message, fields }),
      error: (fields, message) => logs.push({ level: "error", message, fields }),
    },
    ...options,
  });
  const server = createEnvdServer(envd).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const baseUrl = `http://127.0.0.1:${port}`;
  const transport = ({ binary = false, headers = {} }: { binary?: boolean; headers?: Record<string, string> } = {}) =>
    createConnectTransport({
      baseUrl,
      httpVersion: "1.1",
      useBinaryFormat: binary,
      acceptCompression: [],
      interceptors: [
        (next) => (call) => {
          for (const [name, value] of Object.entries(headers)) call.header.set(name, value);
          return next(call);
        },
      ],
    });
  const close = async (): Promise<void> => {
    await envd.close();
    server.closeAllConnections();
    server.close();
    await rm(directory, { recursive: true, force: true });
  };
  return {
    port,
    baseUrl,
    home,
    rootHome,
    directory,
    logs,
    process: (wire) => createClient(Process, transport(wire)),
    filesystem: (wire) => createClient(Filesystem, transport(wire)),
    boot: () => envd.boot(),
    call: (method, path, init) => plainCall(port, method, path, init),
    close,
    [Symbol.asyncDispose]: close,
  };
}

async function plainCall(port: number, method: string, path: string, init: CallInit = {}): Promise<Reply> {
  const req = request({ host: "127.0.0.1", port, method, path, headers: init.headers ?? {}, agent: false });
  req.end(init.body);
  const [res] = (await once(req, "response")) as [IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of res as AsyncIterable<Buffer>) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const text = body.toString("utf8");
  return { status: res.statusCode ?? 0, headers: res.headers, body, text, json: () => JSON.parse(text) as unknown };
}
