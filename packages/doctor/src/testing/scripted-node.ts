import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { InfoReply } from "@org/sandboxd-client/wire";

/** What a scripted node says and wants. */
export interface NodeScript {
  readonly token?: string | undefined;
  /** Another kind of token, which may not read the inventory. */
  readonly tenant?: string | undefined;
  readonly info?: Partial<InfoReply> | undefined;
  /** Its clock, in milliseconds ahead of ours. */
  readonly aheadMs?: number | undefined;
  /** Answers everything with this page, as another service would. */
  readonly page?: string | undefined;
  /** Never answers. */
  readonly silent?: boolean | undefined;
  /** `X-Envd-Version` of the daemon behind a claim; `false` when nothing listens there. */
  readonly envd?: string | false | undefined;
}

/** A node on a free loopback port. */
export interface ScriptedNode extends AsyncDisposable {
  readonly address: string;
  script: NodeScript;
  /** Ids that were claimed and not released. */
  readonly held: ReadonlySet<string>;
}

const ID = "sb_0123456789abcdef";

/** Starts a node that answers by its script, which may change. */
export async function scriptedNode(first: NodeScript = {}): Promise<ScriptedNode> {
  const held = new Set<string>();
  const node = { script: first, address: "" };
  const server = createServer((request, response) => {
    const { token, tenant, info, aheadMs = 0, page, silent } = node.script;
    request.resume();
    if (silent === true) return;
    response.sendDate = false;
    response.setHeader("date", new Date(Date.now() + aheadMs).toUTCString());
    const answer = (status: number, body: object): void => {
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    };
    if (page !== undefined) {
      response.writeHead(200, { "content-type": "text/html" }).end(page);
      return;
    }
    const bearer = request.headers.authorization?.replace("Bearer ", "");
    const route = `${request.method} ${request.url?.replace(ID, "{id}")}`;
    if (route === "GET /healthz") return answer(200, {});
    if (tenant !== undefined && bearer === tenant) return answer(403, { error: "operator token required" });
    if (token !== undefined && bearer !== token) return answer(401, { error: "invalid api token" });
    if (route === "GET /v1/info") {
      const pools = [{ key: { template: "image", net: "none", size: "small" }, warm: 1, refilling: 0, target: 1 }];
      return answer(200, { advertise_addr: node.address, peers: [], pools, templates: [], claimed: 0, ...info });
    }
    if (route === "POST /v1/claim") {
      held.add(ID);
      return answer(200, { id: ID, token: "token-of-the-sandbox", owner_addr: node.address });
    }
    if (route === "POST /v1/sandboxes/{id}/release" || route === "DELETE /v1/sandboxes/{id}") {
      held.delete(ID);
      response.writeHead(204).end();
      return;
    }
    answer(404, { error: `no ${route}` });
  });
  server.on("upgrade", (_request, socket) => {
    socket.on("error", () => undefined);
    const { envd = "0.8.0" } = node.script;
    if (envd === false) {
      socket.end(
        "HTTP/1.1 502 Bad Gateway\r\nContent-Type: application/json\r\nContent-Length: 26\r\n\r\n" +
          '{"error":"port is closed"}',
      );
      return;
    }
    socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n");
    socket.once("data", () =>
      socket.end(`HTTP/1.1 204 No Content\r\n${envd === "" ? "" : `X-Envd-Version: ${envd}\r\n`}\r\n`),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  node.address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return Object.assign(node, {
    held,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}
