import { readFileSync } from "node:fs";
import { createServer as createControl } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo, Server, Socket } from "node:net";
import { text } from "node:stream/consumers";

import { StandinApi } from "./kube-standin-api.ts";
import type { KubeCommand, KubeStandinSettings } from "./kube-standin-script.ts";
import { StandinStore } from "./kube-standin-store.ts";

// A stand-in for a Kubernetes API server, in a process of its own. Its only argument is a file of settings; it prints
// the ports of the API and of the control by which the harness makes it fail.
const settings = JSON.parse(readFileSync(process.argv[2] ?? "", "utf8")) as KubeStandinSettings;
const store = new StandinStore();
const sockets = new Set<Socket>();
// Only the connection below TLS can be reset.
const api = new StandinApi(store, ({ socket }) => {
  for (const one of sockets) {
    if (one.remotePort === socket?.remotePort) {
      one.resetAndDestroy();
    }
  }
});
api.users = settings.users;
api.rules = settings.rules;
api.tokens = settings.tokens;
settings.objects.forEach(run);

const tls = { cert: readFileSync(settings.certFile), key: readFileSync(settings.keyFile) };
const server = createServer(tls, (request, response) => {
  api.handle(request, response).catch((error: unknown) => {
    process.stderr.write(`${String(error)}\n`);
    response.destroy();
  });
});
server.on("connection", (socket: Socket) => {
  sockets.add(socket);
  socket.on("error", () => undefined).on("close", () => sockets.delete(socket));
});
server.on("tlsClientError", () => undefined);

const listen = (one: Server, port: number): Promise<number> =>
  new Promise((resolve, reject) => {
    one.once("error", reject);
    one.listen(port, "127.0.0.1", () => resolve((one.address() as AddressInfo).port));
  });

const port = await listen(server, settings.port);

async function obey(command: KubeCommand): Promise<unknown> {
  if (command.op === "outage" && server.listening) {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    for (const socket of sockets) {
      socket.resetAndDestroy();
    }
    return closed;
  }
  if (command.op === "back" && !server.listening) {
    return listen(server, port);
  }
  return run(command);
}

function run(command: KubeCommand): unknown {
  switch (command.op) {
    case "faults":
      api.faults = command.faults;
      return undefined;
    case "compact":
      return store.compact();
    case "reset-watches":
      return api.resetWatches();
    case "bookmarks":
      return api.sendBookmarks();
    case "rules":
      api.rules = command.rules;
      return undefined;
    case "users":
      api.users = command.users;
      return undefined;
    case "credentials":
      api.tokens = command.tokens;
      return undefined;
    case "put":
      return store.apply(command, command.namespace, command.object);
    case "delete":
      return store.delete(command, command.namespace, command.name);
    case "objects":
      return store.list(command, command.namespace);
    case "requests":
      return api.takeRequests();
    case "watches":
      return api.watches;
    case "outage":
    case "back":
      // It is so already.
      return undefined;
    default:
      throw new Error("unknown command");
  }
}

const control = createControl((request, response) => {
  void text(request)
    .then((body) => obey(JSON.parse(body) as KubeCommand))
    .then(
      (answer) => response.end(JSON.stringify(answer ?? null)),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
});
const controlPort = await listen(control, 0);
process.stdout.write(`stand-in ${port} control ${controlPort}\n`);
