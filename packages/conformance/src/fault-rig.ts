import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

import { callApi, type Created, expectError, type Reply } from "./api.ts";
import { startDevNodeProcess } from "./dev-node-process.ts";
import { type Front, type FrontOptions, launchFront, startFront } from "./front.ts";
import { type NodeAdmin, nodeAdmin } from "./node-admin.ts";
import { waitFor } from "./polling.ts";
import { freePorts } from "./ports.ts";
import type { ManagedProcess, ProcessSet } from "./processes.ts";
import type { Programs } from "./programs.ts";
import { IMAGE, poolsFull, RIG, type RigFiles, writeRigFiles } from "./rig.ts";
import { pool, type ScriptedNode, startScriptedNode } from "./scripted-node.ts";
import type { JournalLine, NodeScript } from "./scripted-node-script.ts";

type Delivered = Extract<JournalLine, { kind: "delivered" }>;

/** Choices of a front of a {@link FaultRig}. */
export type RigFrontOptions = Partial<Omit<FrontOptions, "nodeAddresses">>;

/** Period of the fronts' polls unless a row says otherwise, in milliseconds. */
export const TICK_MS = 400;

/** Period of the scripted nodes' reapers, in milliseconds. */
const REAP_MS = 500;

/** Scripted nodes, fronts over them, and a record of what the fronts answered. */
export class FaultRig {
  readonly set: ProcessSet;
  readonly programs: Programs;
  readonly files: RigFiles;
  readonly nodes: ScriptedNode[] = [];
  readonly fronts: Front[] = [];
  /** Sandboxes that a create answered, in the order the answers came. */
  readonly answered: Created[] = [];
  /** Tokens beside the fleet's that no log may hold. */
  readonly secrets: string[] = [];
  readonly #ports: readonly number[];
  readonly #guestNodes: ManagedProcess[] = [];

  constructor(set: ProcessSet, programs: Programs, files: RigFiles, ports: readonly number[]) {
    this.set = set;
    this.programs = programs;
    this.files = files;
    this.#ports = ports;
  }

  /**
   * Starts a scripted node. It advertises its own address, names the nodes that were started before it, and keeps
   * twenty guests of the usual image unless `change` says otherwise.
   */
  async node(change: Partial<Omit<NodeScript, "version">> = {}): Promise<ScriptedNode> {
    const index = this.nodes.length;
    const port = this.#ports[index];
    assert.ok(port !== undefined, "a rig has four ports for nodes");
    const name = "abcd".charAt(index);
    const node = await startScriptedNode(this.set, {
      name,
      dir: join(this.files.dir, `node-${name}`),
      port,
      script: {
        advertise: `127.0.0.1:${port}`,
        peers: this.nodes.map((other) => other.address),
        token: RIG.nodeToken,
        tenantTokens: [],
        pools: [pool(IMAGE, 20)],
        redirect: [],
        faults: [],
        reapMs: REAP_MS,
        zoneMinutes: 0,
        idleMs: 0,
        ...change,
      },
    });
    this.nodes.push(node);
    return node;
  }

  /** Starts a development node, for rows that need guests. `advertise` is told its port. */
  async guestNode(choices: {
    warm: number;
    isolation: string | undefined;
    advertise?: (port: number) => Promise<string>;
  }): Promise<{ admin: NodeAdmin; key: string }> {
    const [port = 0] = await freePorts(1);
    const key = (await choices.advertise?.(port)) ?? `127.0.0.1:${port}`;
    const { warm, isolation } = choices;
    const name = `guests-${this.#guestNodes.length}`;
    this.#guestNodes.push(
      await startDevNodeProcess(this.set, this.programs, this.files, {
        name,
        port,
        advertise: key,
        peers: [],
        warm,
        isolation,
      }),
    );
    const admin = nodeAdmin(`127.0.0.1:${port}`, RIG.nodeToken);
    await poolsFull([admin]);
    return { admin, key };
  }

  /** Starts a front that is told of all scripted nodes, with the nodes' own tokens, since these have no guests. */
  async front(options: RigFrontOptions = {}): Promise<Front> {
    const front = await startFront(this.set, this.programs, this.files, this.#frontOptions(options));
    this.fronts.push(front);
    return front;
  }

  /** Starts a front and returns before it is up. It is not judged. */
  launch(options: RigFrontOptions = {}): Promise<Front> {
    return launchFront(this.set, this.programs, this.files, this.#frontOptions(options));
  }

  #frontOptions(options: RigFrontOptions): FrontOptions {
    const nodeAddresses = this.nodes.map((node) => node.address);
    return { seeds: nodeAddresses.join(","), nodeAddresses, mode: "seed", pollMs: TICK_MS, ...options };
  }

  /** Asks for a sandbox and takes note of it when there is one. Leases are a minute unless `body` says otherwise. */
  async create(front: Front, body: object = {}): Promise<Reply> {
    const reply = await callApi(front.facts, "POST", "/v2/sandboxes", {
      body: { templateID: "base", timeout: 60, ...body },
    });
    if (reply.status === 201) {
      this.answered.push(JSON.parse(reply.text) as Created);
    }
    return reply;
  }

  /** {@link create} that must answer a sandbox. */
  async created(front: Front, body: object = {}): Promise<Created> {
    const reply = await this.create(front, body);
    assert.equal(reply.status, 201, `create answered ${reply.status} ${reply.text.slice(0, 200)}`);
    return JSON.parse(reply.text) as Created;
  }

  /** {@link create} that must fail with this status. Answers the message. */
  async refused(front: Front, status: number, body: object = {}): Promise<string> {
    const message = expectError(await this.create(front, body), status, "create");
    assert.ok(!message.includes(RIG.nodeToken), "the message holds the node token");
    return message;
  }

  /** A few polls of the fronts. */
  async ticks(count: number): Promise<void> {
    await delay(count * TICK_MS + 150);
  }

  deliveries(): Delivered[] {
    return this.nodes.flatMap((node) => node.journal().filter((line): line is Delivered => line.kind === "delivered"));
  }

  /** Deliveries that no answer named. */
  orphans(): Delivered[] {
    const named = new Set(this.answered.map((sandbox) => sandbox.sandboxID.replace("sb-", "sb_")));
    return this.deliveries().filter((line) => !named.has(line.id));
  }

  /** Whether a node holds this sandbox. */
  held(id: string): boolean {
    return this.nodes.some((node) => node.claims().some((claim) => claim.id === id.replace("sb-", "sb_")));
  }

  /** Waits until every sandbox that no answer named was released, well before its lease ends. */
  async orphansReleased(withinMs: number): Promise<void> {
    await waitFor(
      "a release of the sandboxes that no answer named",
      () =>
        this.orphans().every(({ id }) =>
          this.nodes.some((node) =>
            node.journal().some((line) => line.kind === "ended" && line.id === id && line.why === "released"),
          ),
        ),
      withinMs,
    );
  }

  /** Requests of one kind that a node has had. */
  requests(node: ScriptedNode, route: string): Extract<JournalLine, { kind: "request" }>[] {
    return node
      .journal()
      .filter((line): line is Extract<JournalLine, { kind: "request" }> => line.kind === "request")
      .filter((line) => line.route === route);
  }

  /** Makes every node well again: what was killed runs, what failed does not, and there are guests. */
  async heal(): Promise<void> {
    for (const node of this.nodes) {
      await node.say({
        faults: [],
        token: RIG.nodeToken,
        pools: [pool(IMAGE, 20)],
        redirect: [],
        idleMs: 0,
        advertise: node.address,
      });
      if (!node.process.running()) {
        await node.restart();
      }
    }
  }

  /**
   * What must hold after every row, whatever went wrong in it: the fronts live and make sandboxes again, no create
   * left two sandboxes, no sandbox was given out twice, none that nobody knows of outlives its lease, and no log holds
   * a secret.
   */
  async judge(): Promise<void> {
    this.judgeDeliveries();
    await this.heal();
    for (const front of this.fronts) {
      assert.ok(front.process.running(), `the front ended\n${front.process.tail()}`);
      const health = await callApi(front.facts, "GET", "/health", { key: null });
      assert.equal(health.status, 204, "the front's health");
      const sandbox = await waitFor(
        "a create once there is capacity again",
        async () => {
          const reply = await this.create(front);
          return reply.status === 201 ? (JSON.parse(reply.text) as Created) : undefined;
        },
        Math.max(15_000, 2 * front.facts.pollMs),
        100,
      );
      const kill = await callApi(front.facts, "DELETE", `/sandboxes/${sandbox.sandboxID}`);
      assert.equal(kill.status, 204, `kill of the sandbox made last: ${kill.text}`);
    }
    await this.#judgeOrphans();
    this.judgeDeliveries();
    for (const front of this.fronts) {
      this.judgeLog(front);
    }
  }

  /** No id in two answers, no create with two sandboxes, and every answer names what its node delivered. */
  judgeDeliveries(): void {
    const ids = this.answered.map((sandbox) => sandbox.sandboxID);
    assert.equal(new Set(ids).size, ids.length, `one sandbox in two answers: ${ids.join(" ")}`);
    const byRef = new Map<string, string>();
    const byId = new Map<string, ScriptedNode>();
    for (const node of this.nodes) {
      for (const line of node.journal()) {
        if (line.kind === "delivered") {
          const other = byRef.get(line.claimRef);
          assert.equal(other, undefined, `create ${line.claimRef} left ${line.id} and ${other}`);
          byRef.set(line.claimRef, line.id);
          byId.set(line.id, node);
        }
      }
    }
    for (const { sandboxID, clientID } of this.nodes.length === 0 ? [] : this.answered) {
      const node = byId.get(sandboxID.replace("sb-", "sb_"));
      assert.equal(node?.address, clientID, `the node that delivered ${sandboxID}`);
    }
  }

  async #judgeOrphans(): Promise<void> {
    const left = this.orphans().filter(({ id }) => this.held(id));
    const lastMs = Math.max(0, ...left.map(({ deadlineMs }) => deadlineMs)) - Date.now();
    await waitFor(
      "an end of every sandbox that no answer named",
      () => !this.orphans().some(({ id }) => this.held(id)),
      Math.max(0, lastMs) + 2 * REAP_MS + 500,
      100,
    );
  }

  /** A front's log names no key and no token. */
  judgeLog(front: Front): void {
    const log = front.log();
    assert.ok(log.includes("mesh inventory up"), "there is a log");
    const tokens = this.deliveries().map((line) => line.token);
    const given = this.answered.map((sandbox) => sandbox.envdAccessToken ?? "");
    for (const secret of [...Object.values(RIG.keys), RIG.nodeToken, ...tokens, ...given, ...this.secrets]) {
      assert.ok(secret === "" || !log.includes(secret), `the log holds a secret (${secret.slice(0, 6)}…)`);
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.fronts.map((front) => front.process.stop(5_000)));
    await Promise.all(
      this.nodes.map(async (node) => {
        node.process.signal("SIGCONT");
        await node.process.stop(2_000);
      }),
    );
    await Promise.all(this.#guestNodes.map((node) => node.stop()));
    await rm(this.files.dir, { recursive: true, force: true });
  }
}

/** Runs a row on a rig of its own, judges what it left, and closes it. */
export async function onFaultRig(
  set: ProcessSet,
  programs: Programs,
  row: (rig: FaultRig) => Promise<void>,
): Promise<void> {
  const rig = new FaultRig(set, programs, await writeRigFiles("faults"), await freePorts(4));
  try {
    await row(rig);
    await rig.judge();
  } finally {
    await rig.close();
  }
}
