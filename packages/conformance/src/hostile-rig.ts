import assert from "node:assert/strict";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { Agent, request as httpRequest } from "undici";

import { callApi, callProxy, type Created, createSandbox } from "./api.ts";
import { type Front, startFront } from "./front.ts";
import { waitFor } from "./polling.ts";
import { freePorts } from "./ports.ts";
import { readVitals, socketsOf, type Vitals } from "./process-vitals.ts";
import type { ProcessSet } from "./processes.ts";
import type { Programs } from "./programs.ts";
import { IMAGE, RIG, type RigFiles, type TokenMode, writeRigFiles } from "./rig.ts";
import { echo, type Echo, ScriptedGuest } from "./scripted-guest.ts";
import { pool, type ScriptedNode, startScriptedNode } from "./scripted-node.ts";
import type { ScriptedRelayPorts } from "./scripted-node-script.ts";
import { selfSigned } from "./self-signed.ts";

/** Port of the sandboxes behind which the scripted guest stands, and that needs no token. */
export const APP_PORT = 3_000;

/** Port at which nothing listens. */
export const CLOSED_PORT = 9;

/** Long, so that a busy machine does not make the node look gone. */
const POLL_MS = 5_000;
const FLAT_MS = 10_000;
const MEGABYTE = 1 << 20;

/** Choices of {@link HostileRig.start}. */
export interface HostileRigOptions {
  readonly set: ProcessSet;
  readonly programs: Programs;
  readonly mode?: TokenMode;
  /** What the service logs. @default "info" */
  readonly logLevel?: "debug" | "info";
  /** Loopback host of the node. @default "127.0.0.1" */
  readonly nodeHost?: string;
  /** Ports at which the node itself misbehaves. */
  readonly tricks?: ScriptedRelayPorts["tricks"];
  /** Whether the data plane is served over TLS. */
  readonly tls?: boolean;
  /** Node options of the service, beside those of the rig. */
  readonly nodeOptions?: string;
}

/**
 * The service in a process of its own, watched from outside, over a scripted node in another one whose relays lead to a
 * scripted guest here.
 */
export class HostileRig {
  readonly files: RigFiles;
  readonly node: ScriptedNode;
  readonly guest: ScriptedGuest;
  readonly front: Front;
  readonly sandbox: Created;
  readonly #inspector: string;

  private constructor(
    files: RigFiles,
    node: ScriptedNode,
    guest: ScriptedGuest,
    front: Front,
    sandbox: Created,
    inspector: string,
  ) {
    this.files = files;
    this.node = node;
    this.guest = guest;
    this.front = front;
    this.sandbox = sandbox;
    this.#inspector = inspector;
  }

  static async start(options: HostileRigOptions): Promise<HostileRig> {
    const { set, programs, mode = "seed", logLevel = "info", nodeHost = "127.0.0.1", tricks = {} } = options;
    const files = await writeRigFiles("hostile");
    const certified = options.tls === true ? await certify(files.dir) : {};
    const guest = await ScriptedGuest.start();
    guest.on("init", {
      onEnd: (request, connection) => {
        if (request.target === "/init") {
          connection.socket.write("HTTP/1.1 204 No Content\r\n\r\n");
        } else {
          echo(request, connection);
        }
      },
    });
    const [port = 0] = await freePorts(1);
    const advertise = `${nodeHost.includes(":") ? `[${nodeHost}]` : nodeHost}:${port}`;
    const { address } = guest;
    const node = await startScriptedNode(set, {
      name: "hostile",
      dir: join(files.dir, "node"),
      port,
      host: nodeHost,
      script: {
        advertise,
        peers: [],
        token: RIG.nodeToken,
        tenantTokens: [],
        pools: [pool(IMAGE, 100)],
        redirect: [],
        faults: [],
        reapMs: 5_000,
        zoneMinutes: 0,
        idleMs: 0,
        relays: { guests: { [APP_PORT]: address, 49_983: address }, tricks },
      },
    });
    const front = await startFront(set, programs, files, {
      seeds: advertise,
      nodeAddresses: [advertise],
      mode,
      pollMs: POLL_MS,
      env: {
        OPERATOR_LOG_LEVEL: logLevel,
        NODE_OPTIONS: `--inspect=127.0.0.1:0 ${options.nodeOptions ?? ""}`,
      },
      ...certified,
    });
    const [inspector = ""] = await front.process.waitForOutput(/ws:\/\/127\.0\.0\.1:\d+\/[0-9a-f-]+/, 10_000);
    const sandbox = await createSandbox(front.facts, { timeout: 3_600 });
    guest.forbidden.push(...Object.values(RIG.keys), RIG.nodeToken);
    if (mode === "seed") {
      guest.forbidden.push(sandbox.envdAccessToken ?? "no token");
    }
    return new HostileRig(files, node, guest, front, sandbox, inspector);
  }

  get proxyPort(): number {
    return Number(new URL(this.front.facts.proxyUrl).port);
  }

  get apiPort(): number {
    return Number(new URL(this.front.facts.apiUrl).port);
  }

  get token(): string {
    return this.sandbox.envdAccessToken ?? "";
  }

  /** Name of a port of the rig's sandbox. */
  host(port: number = APP_PORT): string {
    return `${port}-${this.sandbox.sandboxID}.${RIG.domain}`;
  }

  /** The header pair that names a port of the rig's sandbox. */
  routed(port: number = APP_PORT): Record<string, string> {
    return { "e2b-sandbox-id": this.sandbox.sandboxID, "e2b-sandbox-port": String(port) };
  }

  /** Asks the guest for an echo, as a client that does nothing wrong. */
  async echo(path = "/well", headers: Readonly<Record<string, string>> = {}): Promise<Echo> {
    const { proxyUrl, trust } = this.front.facts;
    const fields = { ...this.routed(), ...headers };
    if (trust === undefined) {
      const reply = await callProxy(proxyUrl, "GET", path, fields);
      assert.equal(
        reply.status,
        200,
        `a well-behaved request was answered ${reply.status} ${reply.text.slice(0, 200)}`,
      );
      return JSON.parse(reply.text) as Echo;
    }
    const dispatcher = new Agent({ connect: { ca: await readFile(trust.caFile) } });
    const { statusCode, body } = await httpRequest(`${proxyUrl}${path}`, { headers: fields, dispatcher });
    const text = await body.text();
    await dispatcher.close();
    assert.equal(statusCode, 200, `a well-behaved request was answered ${statusCode} ${text.slice(0, 200)}`);
    return JSON.parse(text) as Echo;
  }

  /** How many sandboxes the node has given out. */
  delivered(): number {
    return this.node.journal().filter((line) => line.kind === "delivered").length;
  }

  vitals(): Promise<Vitals> {
    return readVitals(this.front.process.pid, this.#inspector);
  }

  /**
   * Does something that must leave nothing behind: ten seconds after it, at the latest, heap and sockets of the service
   * are within a tenth of what they were. `warm` is a little of the same, for what is made once.
   */
  async flat(warm: () => Promise<void>, work: () => Promise<void>): Promise<void> {
    await warm();
    await this.#settled();
    let before = await this.vitals();
    await work();
    let now = before;
    let again = false;
    const megabytes = (bytes: number): string => (bytes / MEGABYTE).toFixed(1);
    const back = async (): Promise<boolean> => {
      now = await this.vitals();
      return (
        now.heap <= before.heap * 1.1 &&
        now.buffers <= before.buffers * 1.1 + MEGABYTE &&
        // A socket or two come and go with the polls.
        now.sockets <= Math.max(before.sockets * 1.1, before.sockets + 2)
      );
    };
    const judge = async (): Promise<void> => {
      await waitFor("the service's return to what it held before", back, FLAT_MS, 500);
      if (now.rss > before.rss * 1.1 + 24 * MEGABYTE) {
        assert.ok(!again, "its memory grows with every repetition");
        // Pages that were used once stay with the process. What leaks grows by as much again.
        again = true;
        before = now;
        await work();
        await judge();
      }
    };
    await judge().catch((error: unknown) => {
      const told = (["heap", "buffers", "rss"] as const).map(
        (name) => `${name} ${megabytes(before[name])} → ${megabytes(now[name])} MB`,
      );
      throw new Error(`${told.join(", ")}, sockets ${before.sockets} → ${now.sockets}`, { cause: error });
    });
    await waitFor("the guest's return to no connections", () => this.guest.open <= 8, FLAT_MS, 100);
  }

  /** Until two looks in a row see the same sockets. */
  async #settled(): Promise<void> {
    let last = -1;
    await waitFor(
      "a rest of the service",
      () => {
        const sockets = socketsOf(this.front.process.pid);
        const same = Math.abs(sockets - last) <= 1;
        last = sockets;
        return same;
      },
      2 * FLAT_MS,
      700,
    );
  }

  /** What must hold after every row, whatever it did. */
  async judge(): Promise<void> {
    const { front, guest } = this;
    assert.ok(front.process.running(), `the service ended\n${front.process.tail()}`);
    const health = await callApi(front.facts, "GET", "/health", { key: null });
    assert.equal(health.status, 204, "health of the control plane");
    await this.echo();
    const log = front.log();
    const unhandled = log.split("\n").find((line) => /unhandled|uncaught/i.test(line));
    assert.equal(unhandled, undefined, "the log tells of an unhandled error");
    for (const secret of [...Object.values(RIG.keys), RIG.nodeToken, this.token]) {
      assert.ok(!log.includes(secret), `the log holds a secret (${secret.slice(0, 6)}…)`);
    }
    const faults = guest.faults.splice(0);
    assert.deepEqual(faults, [], "what the guest was sent");
    guest.forget();
  }

  async close(): Promise<void> {
    await this.front.stop();
    await this.node.process.stop(2_000);
    await this.guest[Symbol.asyncDispose]();
    await rm(this.files.dir, { recursive: true, force: true });
  }
}

/** Writes a certificate and its key, and tells how a service is given them. */
async function certify(dir: string): Promise<{ readonly flags: readonly string[]; readonly certFile: string }> {
  const pair = selfSigned([`*.${RIG.domain}`]);
  const certFile = join(dir, "cert.pem");
  const keyFile = join(dir, "key.pem");
  await writeFile(certFile, pair.cert);
  await writeFile(keyFile, pair.key, { mode: 0o600 });
  return {
    flags: [`--envd-proxy-tls-cert-file=${certFile}`, `--envd-proxy-tls-private-key-file=${keyFile}`],
    certFile,
  };
}
