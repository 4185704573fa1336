import type { Socket } from "node:net";
import { POOL } from "../fleet.ts";
import type { FleetSize, Phase } from "../fleet.ts";
import { MessageReader } from "../http-messages.ts";
import type { Message } from "../http-messages.ts";
import { indexBody, infoBody } from "../node-replies.ts";
import type { RowOrder } from "../node-replies.ts";

/** How one node behaves. */
export interface NodeScript {
  /** Its place in the fleet. */
  readonly index: number;
  readonly size: FleetSize;
  readonly order: RowOrder;
  readonly address: string;
  readonly peers: readonly string[];
  readonly warm: number;
  /** Where it sends claims that may be sent on. */
  readonly redirectTo: string | undefined;
}

const NO_CONTENT = "HTTP/1.1 204 No Content\r\n\r\n";
const LEASE_MS = 3_600_000;

function reply(status: string, body: string | Buffer): Buffer {
  const head = `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), Buffer.from(body)]);
}

/** A node that takes no time: replies are made beforehand, and whatever id it is asked about is a running sandbox. */
export class ScriptedNode {
  readonly #script: NodeScript;
  readonly #info: Buffer;
  readonly #indexes: readonly [Buffer, Buffer];
  readonly #deadline = new Date(Date.now() + LEASE_MS).toISOString();
  #phase: Phase = 0;
  #delivered = 0;

  constructor(script: NodeScript) {
    this.#script = script;
    const { index, size, order, address, peers, warm } = script;
    this.#info = reply("200 OK", infoBody(address, peers, size.perNode, warm));
    this.#indexes = [
      reply("200 OK", indexBody(index, size, 0, order)),
      reply("200 OK", indexBody(index, size, 1, order)),
    ];
  }

  /** How many claims were delivered. */
  get delivered(): number {
    return this.#delivered;
  }

  /** Replaces one per cent of the sandboxes, or puts them back. */
  flip(): void {
    this.#phase = this.#phase === 0 ? 1 : 0;
  }

  serve(socket: Socket): void {
    const reader = new MessageReader();
    socket.on("error", () => socket.destroy());
    socket.on("data", (chunk: Buffer) => {
      for (const message of reader.read(chunk)) {
        socket.write(this.#answer(message));
      }
    });
  }

  #answer({ head, body }: Message): Buffer | string {
    const [method = "", path = ""] = head.slice(0, head.indexOf("\r\n")).split(" ");
    if (method === "POST") {
      return path === "/v1/claim" ? this.#claim(body) : this.#verb(path);
    }
    if (path === "/v1/info") {
      return this.#info;
    }
    if (path === "/v1/sandboxes") {
      return this.#indexes[this.#phase];
    }
    if (path.startsWith("/v1/sandboxes?")) {
      return reply("200 OK", '{"sandboxes":[]}');
    }
    return path.startsWith("/v1/sandboxes/")
      ? this.#row(path.slice("/v1/sandboxes/".length))
      : reply("404 Not Found", '{"error":"unknown route"}');
  }

  #claim(body: string): Buffer {
    const { address, index, redirectTo } = this.#script;
    if (redirectTo !== undefined && !body.includes('"no_redirect":true')) {
      return reply("200 OK", JSON.stringify({ redirect: [redirectTo] }));
    }
    this.#delivered += 1;
    const id = `sb_${index.toString(16).padStart(6, "0")}${this.#delivered.toString(16).padStart(10, "0")}`;
    const token = "0123456789abcdef0123456789abcdef";
    return reply(
      "200 OK",
      `{"id":"${id}","token":"${token}","deadline":"${this.#deadline}","owner_addr":"${address}","net_route":"none"}`,
    );
  }

  #verb(path: string): Buffer | string {
    return path.endsWith("/renew") ? reply("200 OK", `{"deadline":"${this.#deadline}"}`) : NO_CONTENT;
  }

  #row(id: string): Buffer {
    const { template, net, size } = POOL;
    return reply(
      "200 OK",
      JSON.stringify({
        id,
        key: { template, net, size },
        deadline: this.#deadline,
        claimed_at: "2026-01-01T00:00:00Z",
        hibernated: false,
        claim_ref: "default/e2b-asked",
        token: "0123456789abcdef0123456789abcdef",
      }),
    );
  }
}
