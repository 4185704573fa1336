import { Agent, createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { createStore } from "@org/scale";
import type { SandboxStore } from "@org/scale";
import { ScriptedNodes, StaticInventorySource } from "@org/scale/testing";
import type { ScriptedNode } from "@org/scale/testing";
import type { ApiServer, ApiServerOptions } from "../api-server.ts";
import { createApiServer } from "../create-api-server.ts";
import type { ApiUser, AuthorizationAttributes } from "../security.ts";

/** An answer, read to its end. */
export interface FixtureAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** The text as JSON. */
  readonly json: Readonly<Record<string, unknown>>;
}

/** What a call sends. */
export interface FixtureCall {
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Objects are sent as JSON. */
  readonly body?: object | string | undefined;
}

/** An API over a fleet in memory, served on a socket. */
export interface ApiFixture extends AsyncDisposable {
  readonly api: ApiServer;
  readonly store: SandboxStore;
  readonly nodes: ScriptedNodes;
  readonly node: ScriptedNode;
  /** What authorization was asked. */
  readonly asked: AuthorizationAttributes[];
  readonly origin: string;
  /** Publishes the node's view, as it is now. */
  publish(): void;
  call(method: string, path: string, call?: FixtureCall): Promise<FixtureAnswer>;
}

/** Path of the sandboxes of the namespace `team`. */
export const SANDBOXES = "/apis/agents.x-k8s.io/v1beta1/namespaces/team/sandboxes";

/** The node of a fixture. */
export const NODE = "node-1.example:7777";

/** Time of a fixture. */
const NOW_MS: number = Date.parse("2026-11-30T10:00:00Z");

const POOLS = [
  { template: "rt:24.04", warm: 9, target: 9 },
  { template: "rt:24.04", net: "egress", size: "large", warm: 9, target: 9 },
];

/** Serves an API in which everybody is `alice` and may do everything, unless options say otherwise. */
export async function apiFixture(options: Partial<ApiServerOptions> = {}): Promise<ApiFixture> {
  const nodes = new ScriptedNodes();
  const node = nodes.node(NODE);
  const source = new StaticInventorySource([]);
  const publish = (): void => source.put(node.inventory({ pools: POOLS }));
  publish();
  const store = createStore(source, { clients: nodes });
  const asked: AuthorizationAttributes[] = [];
  const user: ApiUser = { name: "alice", groups: ["system:authenticated"] };
  const api = createApiServer({
    store,
    version: { version: "1.2.3" },
    authenticator: { authenticate: () => Promise.resolve({ kind: "user", user }) },
    authorizer: {
      authorize: (_user, attributes) => {
        asked.push(attributes);
        return Promise.resolve("allow");
      },
    },
    now: () => NOW_MS,
    ...options,
  });
  const server = createServer((incoming, outgoing) => {
    void api.listener(incoming, outgoing);
  });
  server.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  const agent = new Agent({ keepAlive: true });
  const origin = `http://127.0.0.1:${port}`;
  return {
    api,
    store,
    nodes,
    node,
    asked,
    origin,
    publish,
    call: (method, path, call) => callOnce(agent, `${origin}${path}`, method, call),
    [Symbol.asyncDispose]: async () => {
      api.close();
      agent.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function callOnce(
  agent: Agent,
  url: string,
  method: string,
  { headers, body }: FixtureCall = {},
): Promise<FixtureAnswer> {
  const sent = typeof body === "object" ? JSON.stringify(body) : body;
  const framing = { "content-type": "application/json", "content-length": String(Buffer.byteLength(sent ?? "")) };
  const { promise, resolve, reject } = Promise.withResolvers<FixtureAnswer>();
  const outgoing = request(
    url,
    { method, agent, headers: { ...(sent !== undefined && framing), ...headers } },
    (incoming) => {
      const chunks: Buffer[] = [];
      incoming.on("error", reject);
      incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
      incoming.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8");
        const isJson = (incoming.headers["content-type"] ?? "").startsWith("application/json");
        const json = (isJson && text !== "" ? JSON.parse(text) : {}) as Readonly<Record<string, unknown>>;
        resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, text, json });
      });
    },
  );
  outgoing.on("error", reject);
  outgoing.end(sent);
  return promise;
}

/** A sandbox to post. */
export function sandboxNamed(name: string, image = "rt:24.04"): Readonly<Record<string, unknown>> {
  return {
    apiVersion: "agents.x-k8s.io/v1beta1",
    kind: "Sandbox",
    metadata: { name },
    spec: { podTemplate: { spec: { containers: [{ name: "main", image }] } } },
  };
}
