import assert from "node:assert/strict";

import type * as Newest from "e2b-2.51";
import type { SandboxOpts } from "e2b-2.51";
import { request } from "undici";

import type { ClientId } from "../../src/catalogue.ts";
import { type NodeAdmin, nodeAdmin, totalClaims } from "../../src/node-admin.ts";
import type { RigFacts } from "../../src/rig.ts";

/** The SDK under test. Both installed versions have this shape. */
export type Sdk = typeof Newest;
/** A sandbox handle of the SDK under test. */
export type SandboxHandle = InstanceType<Sdk["Sandbox"]>;
/** Options of `Sandbox.create`. */
export type CreateOptions = SandboxOpts;

/** What the harness asks of a client process. */
export interface ClientJob {
  readonly client: ClientId;
  /** Module to load the SDK from. */
  readonly module: string;
  readonly suite: string;
  readonly rows: readonly string[];
  readonly rig: RigFacts;
}

/** An answer of the control plane read without the SDK. */
export interface RawReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: unknown;
}

/** What a row works with. Rows of one suite share it, in running order. */
export class RowContext {
  readonly sdk: Sdk;
  readonly job: ClientJob;
  readonly rig: RigFacts;
  readonly nodes: readonly NodeAdmin[];
  /** The sandbox that the rows of this suite share; the first row that needs it makes it. */
  #shared: SandboxHandle | undefined;
  readonly #made = new Set<string>();

  constructor(sdk: Sdk, job: ClientJob) {
    this.sdk = sdk;
    this.job = job;
    this.rig = job.rig;
    this.nodes = job.rig.nodeAddresses.map((address) => nodeAdmin(address, job.rig.nodeToken));
  }

  /** Connection options for the key of namespace `ns1`, or another key. */
  options(key: string = this.rig.keys.one): {
    apiKey: string;
    apiUrl: string;
    domain: string;
    sandboxUrl?: string;
  } {
    const { apiUrl, domain, proxyUrl, transport } = this.rig;
    return { apiKey: key, apiUrl, domain, ...(transport === "by-host" ? {} : { sandboxUrl: proxyUrl }) };
  }

  /** Version 2.50 asks for the network lane unless told otherwise, 2.51 leaves the choice to the server. */
  get lane(): { allowInternetAccess?: boolean } {
    return this.job.client === "js-2.50" ? { allowInternetAccess: false } : {};
  }

  /** Creates a sandbox that is killed when the suite ends. */
  async create(options: CreateOptions = {}): Promise<SandboxHandle> {
    const sandbox = await this.sdk.Sandbox.create({ timeoutMs: 120_000, ...this.options(), ...this.lane, ...options });
    this.#made.add(sandbox.sandboxId);
    return sandbox;
  }

  /** The sandbox of this suite. */
  async shared(): Promise<SandboxHandle> {
    this.#shared ??= await this.create({ timeoutMs: 600_000 });
    return this.#shared;
  }

  /** Makes a sandbox the one the following rows use. */
  share(sandbox: SandboxHandle): void {
    this.#shared = sandbox;
    this.#made.add(sandbox.sandboxId);
  }

  /** Kills what the rows made. */
  async cleanUp(): Promise<void> {
    for (const key of Object.values(this.rig.keys)) {
      await Promise.allSettled(
        [...this.#made].map((id) => this.sdk.Sandbox.kill(id, { ...this.options(key), requestTimeoutMs: 10_000 })),
      );
    }
  }

  /** A call of the control plane without the SDK, with the key of `ns1` unless headers say otherwise. */
  async raw(
    method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE",
    path: string,
    choices: { body?: unknown; key?: string | null } = {},
  ): Promise<RawReply> {
    const key = choices.key === undefined ? this.rig.keys.one : choices.key;
    const response = await request(`${this.rig.apiUrl}${path}`, {
      method,
      headers: {
        ...(key === null ? {} : { "x-api-key": key }),
        ...(choices.body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(choices.body === undefined ? {} : { body: JSON.stringify(choices.body) }),
    });
    const text = await response.body.text();
    return { status: response.statusCode, headers: response.headers, body: text === "" ? undefined : JSON.parse(text) };
  }

  /** Claims that all nodes have made since they started. */
  async claimsMade(): Promise<number> {
    const counts = await Promise.all(this.nodes.map((node) => node.claims()));
    return counts.reduce((sum, count) => sum + totalClaims(count), 0);
  }

  /** What the owning node says of a sandbox. */
  async onNode(sandboxId: string): Promise<Awaited<ReturnType<NodeAdmin["sandbox"]>>> {
    const claim = sandboxId.replace(/^sb-/, "sb_");
    const rows = await Promise.all(this.nodes.map((node) => node.sandbox(claim).catch(() => undefined)));
    const row = rows.find((found) => found !== undefined);
    assert.ok(row, `no node has ${claim}`);
    return row;
  }

  /** The status of a request for the daemon of a sandbox that presents this token. */
  async daemonStatus(sandboxId: string, token: string): Promise<number> {
    const headers = { "e2b-sandbox-id": sandboxId, "e2b-sandbox-port": "49983", "x-access-token": token };
    const response = await request(`${this.rig.proxyUrl}/envs`, { headers });
    await response.body.dump();
    return response.statusCode;
  }

  /** Makes what a sandbox holds the template of this name in `ns1`, as a build does, and waits until it is known. */
  async promote(sandboxId: string, name: string): Promise<void> {
    const claim = sandboxId.replace(/^sb-/, "sb_");
    for (const node of this.nodes) {
      if ((await node.sandbox(claim).catch(() => undefined)) !== undefined) {
        await node.promote(claim, `e2b/ns1/${name}`);
      }
    }
    await this.poll();
  }

  /** Waits one inventory poll and a little more. */
  async poll(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, this.rig.pollMs + 300));
  }
}

/** Thrown by a row whose subject is not there; the message says why and what would help. */
export class Absent extends Error {
  override readonly name = "Absent";
}

/** One row: it passes unless it throws. An {@link Absent} is a skip. */
export type Row = (context: RowContext) => Promise<void>;

/** Expects a promise to reject with an error of the class (or one made from it), and returns the error. */
export async function rejects<E extends Error>(
  promise: Promise<unknown>,
  type: abstract new (...parameters: never[]) => E,
  pattern?: RegExp,
): Promise<E> {
  let value: unknown;
  try {
    value = await promise;
  } catch (error) {
    assert.ok(
      error instanceof type,
      `expected ${type.name}, got ${error instanceof Error ? `${error.name}: ${error.message}` : String(error)}`,
    );
    if (pattern !== undefined) {
      assert.match(error.message, pattern);
    }
    return error;
  }
  throw new Error(`expected ${type.name}, but it answered ${JSON.stringify(value)?.slice(0, 200)}`);
}

/** Expects an answer of our API to be a well-formed error of that status, and returns its message. */
export function isApiError(reply: RawReply, status: number): string {
  assert.equal(reply.status, status, `answered ${reply.status} ${JSON.stringify(reply.body)}`);
  const body = reply.body as { code?: unknown; message?: unknown };
  assert.equal(body?.code, status, "code in the body");
  assert.equal(typeof body?.message, "string", "message in the body");
  return String(body.message);
}
