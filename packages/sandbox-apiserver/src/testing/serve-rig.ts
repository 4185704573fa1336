import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect as connectHttp2 } from "node:http2";
import { Agent, request as httpsRequest } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { ApiServer } from "../api-server.ts";
import { ApiStatusError } from "../api-status.ts";
import type { ApiUser, Authentication, Authenticator } from "../security.ts";
import { serveApi, type ServeApiOptions } from "../serving/serve-api.ts";
import { TestAuthority, type Pair } from "./test-authority.ts";

/** A folder that is gone at the end of its scope. */
export interface Folder extends AsyncDisposable {
  readonly path: string;
  /** Writes a file into it and returns where that lies. */
  write(name: string, content: string): Promise<string>;
}

/** Makes a {@link Folder}. */
export async function temporaryFolder(): Promise<Folder> {
  const path = await mkdtemp(join(tmpdir(), "sandbox-apiserver-"));
  return {
    path,
    async write(name, content) {
      const file = join(path, name);
      await writeFile(file, content);
      return file;
    },
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  };
}

/** A server that runs. */
export interface Rig extends AsyncDisposable {
  readonly port: number;
  /** Authority of the serving certificate. */
  readonly ca: string;
  readonly folder: Folder;
  /** Begins the end, and waits for it. */
  stop(): Promise<void>;
}

/** Parts of a server under test. */
export interface RigOptions extends Partial<Omit<ServeApiOptions, "signal" | "onListening">> {
  readonly listener?: ApiServer["listener"];
  readonly onShutdown?: () => void;
  readonly onClose?: () => void;
}

/** The authority of every rig's serving certificate. */
export const SERVING_AUTHORITY: TestAuthority = TestAuthority.root("serving");

/** Serves on a free port of loopback. */
export async function startRig(options: RigOptions = {}): Promise<Rig> {
  const { listener, onShutdown, onClose, ...rest } = options;
  const folder = await temporaryFolder();
  const pair = SERVING_AUTHORITY.server();
  const certFile = await folder.write("tls.crt", pair.cert);
  const keyFile = await folder.write("tls.key", pair.key);
  const life = new AbortController();
  const bound = Promise.withResolvers<AddressInfo>();
  const api = {
    listener: listener ?? (async (_incoming, outgoing) => void outgoing.end("ok")),
    shutdown: () => onShutdown?.(),
    close: () => onClose?.(),
  } satisfies Pick<ApiServer, "listener" | "shutdown" | "close">;
  const done = serveApi(api, {
    address: "127.0.0.1",
    port: 0,
    certificate: { certFile, keyFile },
    ...rest,
    signal: life.signal,
    onListening: bound.resolve,
  });
  const { port } = await Promise.race([bound.promise, done.then(() => Promise.reject(new Error("it ended")))]);
  const stop = async (): Promise<void> => {
    life.abort();
    await done;
  };
  return {
    port,
    ca: SERVING_AUTHORITY.cert,
    folder,
    stop,
    async [Symbol.asyncDispose]() {
      await stop();
      await folder[Symbol.asyncDispose]();
    },
  };
}

/** What {@link echoingListener} answers. */
export interface Echo {
  readonly user?: ApiUser;
  readonly kind: Authentication["kind"] | "error";
  readonly code?: number;
  /** Names and values that were left to the handler. */
  readonly rawHeaders: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
}

/** A listener that tells who asked, and what it can still see. */
export function echoingListener(authenticator: Authenticator): ApiServer["listener"] {
  return async (incoming, outgoing) => {
    let outcome: object;
    try {
      outcome = await authenticator.authenticate(incoming);
    } catch (error) {
      if (!(error instanceof ApiStatusError)) {
        throw error;
      }
      outcome = { kind: "error", code: error.code, retryAfterSeconds: error.retryAfterSeconds };
    }
    const { rawHeaders, headers } = incoming;
    outgoing.setHeader("content-type", "application/json");
    outgoing.end(JSON.stringify({ ...outcome, rawHeaders, headers }));
  };
}

/** How a request is sent. */
export interface Asking {
  readonly pair?: Pair | undefined;
  /** An array sends as many lines. */
  readonly headers?: Readonly<Record<string, string | readonly string[]>> | undefined;
  readonly path?: string | undefined;
  readonly servername?: string | undefined;
}

/** Asks over one HTTP/1.1 connection of its own. */
export async function askHttp1(
  rig: Pick<Rig, "port" | "ca">,
  { pair, headers, path, servername }: Asking = {},
): Promise<Echo> {
  const agent = new Agent({ keepAlive: false, maxCachedSessions: 0 });
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  httpsRequest(
    {
      host: "127.0.0.1",
      port: rig.port,
      ca: rig.ca,
      servername: servername ?? "localhost",
      agent,
      path: path ?? "/",
      headers: { ...headers } as Record<string, string | string[]>,
      ...pair,
    },
    (response) => void text(response).then(resolve, reject),
  )
    .on("error", reject)
    .end();
  const body = await promise;
  agent.destroy();
  return JSON.parse(body) as Echo;
}

/** Asks over one HTTP/2 connection of its own. */
export async function askHttp2(rig: Pick<Rig, "port" | "ca">, { pair, headers, path }: Asking = {}): Promise<Echo> {
  const session = connectHttp2(`https://localhost:${rig.port}`, { ca: rig.ca, lookup: loopback, ...pair });
  try {
    const { promise, reject } = Promise.withResolvers<never>();
    session.on("error", reject);
    const stream = session.request({ ":path": path ?? "/", ...(headers as Record<string, string | string[]>) });
    stream.on("error", reject);
    return JSON.parse(await Promise.race([text(stream), promise])) as Echo;
  } finally {
    session.close();
  }
}

/** `localhost` at 127.0.0.1, whatever the machine says. */
export function loopback(
  _name: string,
  options: { all?: boolean | undefined },
  done: (error: null, address: string | { address: string; family: number }[], family?: number) => void,
): void {
  if (options.all === true) {
    done(null, [{ address: "127.0.0.1", family: 4 }]);
  } else {
    done(null, "127.0.0.1", 4);
  }
}
