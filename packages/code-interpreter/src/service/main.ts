import { createServer, type Socket } from "node:net";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";

import type { Interpreter } from "./server.ts";

// The service of a guest, which starts with it. It lies beside the kernels. Until somebody comes it does nothing but listen:
// most of what it is made of is loaded then, since warm guests wait for nobody in particular.

/** Where the SDKs expect it. */
const PORT = 49_999;
/** Port of the guest's daemon. */
const DAEMON_PORT = 49_983;

let loading: Promise<Interpreter> | undefined;

async function load(): Promise<Interpreter> {
  const { createInterpreter, kernelCommands, kernelFilesIn } = await import("./server.ts");
  return createInterpreter({
    commands: kernelCommands(kernelFilesIn(dirname(fileURLToPath(import.meta.url)))),
    cwd: process.cwd(),
    daemonPort: DAEMON_PORT,
  });
}

async function hand(socket: Socket): Promise<void> {
  loading ??= load();
  const { server } = await loading;
  server.emit("connection", socket);
  socket.resume();
}

const listener = createServer({ pauseOnConnect: true, noDelay: true }, (socket) => {
  socket.on("error", () => undefined);
  void hand(socket);
});
listener.listen(PORT, "127.0.0.1");
