import { createStore } from "@org/scale";
import type { Logger, PoolCapacity, PromotedTemplate, SandboxStore } from "@org/scale";
import { ScriptedNodes, StaticInventorySource } from "@org/scale/testing";
import type { ScriptedCall, ScriptedNode } from "@org/scale/testing";
import { routesOf } from "../app.ts";
import type { ServerOptions } from "../options.ts";
import { createServer } from "../server.ts";
import type { E2bServer } from "../server.ts";
import { createFinder, mustConform } from "./conform.ts";

/** One log line as a test sees it. */
interface LogLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly fields: Readonly<Record<string, unknown>>;
  readonly message: string;
}

/** A logger that remembers its lines. */
function memoryLogger(): { readonly logger: Logger; readonly lines: LogLine[] } {
  const lines: LogLine[] = [];
  const at =
    (level: LogLine["level"]) =>
    (fields: object, message: string): void =>
      void lines.push({ level, fields: { ...fields }, message });
  return { lines, logger: { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") } };
}

/** An answer, read. */
export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // Tests know what they asked for, and assert on every field they use.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any;
}

/** Reads a response; a body that is not JSON is `undefined`. */
export async function read(response: Response): Promise<Reply> {
  const text = await response.text();
  let body: unknown;
  try {
    body = text === "" ? undefined : JSON.parse(text);
  } catch {
    body = undefined;
  }
  return { status: response.status, headers: response.headers, text, body };
}

export const IMAGE = "e2b-rt:24.04";
export const NODE = "10.0.0.2:27777";
export const KEY_1 = "e2b_1111";
export const KEY_2 = "e2b_2222";

const findOperation = createFinder(routesOf({ settings: { authenticated: true } }));

/** A fleet of scripted nodes with the API in front of it. */
export interface Fleet {
  readonly nodes: ScriptedNodes;
  readonly node: ScriptedNode;
  readonly source: StaticInventorySource;
  readonly store: SandboxStore;
  readonly server: E2bServer;
  readonly lines: LogLine[];
  /** Calls that a verb made to nodes. */
  readonly calls: (verb: ScriptedCall["verb"]) => readonly ScriptedCall[];
  /** Publishes what the node holds, as a poll would. */
  readonly publish: () => void;
  readonly send: (
    method: string,
    path: string,
    body?: unknown,
    init?: RequestInit & { key?: string },
  ) => Promise<Reply>;
  /** Creates a sandbox and gives its public id. */
  readonly create: (body?: object, key?: string) => Promise<string>;
}

/** What a test changes of the usual fleet: one node with {@link IMAGE} warm on both lanes, two keys, alias `base`. */
export interface FleetOptions extends Partial<ServerOptions> {
  readonly pools?: readonly PoolCapacity[];
  readonly templates?: readonly PromotedTemplate[];
  readonly store?: (store: SandboxStore) => SandboxStore;
}

const POOLS: readonly PoolCapacity[] = ["small", "large"].flatMap((size) =>
  ["none", "egress"].map((net) => ({ template: IMAGE, net, size, warm: 1000, target: 1000 })),
);

export function createFleet(options: FleetOptions = {}): Fleet {
  const { pools = POOLS, templates = [], store: wrap = (store) => store, ...server } = options;
  const nodes = new ScriptedNodes();
  const node = nodes.node(NODE);
  const source = new StaticInventorySource();
  const publish = (): void => source.put(node.inventory({ pools, templates }));
  publish();
  const store = wrap(createStore(source, { clients: nodes }));
  const { logger, lines } = memoryLogger();
  const e2b = createServer(store, {
    inventory: source,
    domain: "sandbox.example.com",
    keys: [
      { key: KEY_1, namespace: "ns1" },
      { key: KEY_2, namespace: "ns2" },
    ],
    aliases: [{ alias: "base", image: IMAGE, size: "small" }],
    logger,
    ...server,
  });
  const send: Fleet["send"] = async (method, path, body, { key = KEY_1, ...init } = {}) => {
    const headers = new Headers(init.headers);
    headers.set("x-api-key", key);
    const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
    const request = new Request(`http://localhost${path}`, {
      ...init,
      method,
      headers,
      ...(text === undefined ? {} : { body: text }),
    });
    const reply = await read(await e2b.fetch(request));
    const [at = ""] = path.split("?");
    const operation = findOperation(method, at);
    if (operation !== undefined) {
      mustConform(operation, { method, path: at, ...reply });
    }
    return reply;
  };
  return {
    nodes,
    node,
    source,
    store,
    server: e2b,
    lines,
    publish,
    send,
    calls: (verb) => nodes.calls.filter((call) => call.verb === verb),
    create: async (body = {}, key = KEY_1) => {
      const reply = await send("POST", "/v2/sandboxes", { templateID: "base", ...body }, { key });
      if (reply.status !== 201) {
        throw new Error(`create answered ${reply.status}: ${reply.text}`);
      }
      return reply.body.sandboxID as string;
    },
  };
}
