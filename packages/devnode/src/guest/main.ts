import { closeSync, writeSync } from "node:fs";
import type { AddressInfo, Server } from "node:net";
import { join } from "node:path";
import { createEnvd, createEnvdServer } from "@org/envd";
import { startForwarder } from "./forwarder.ts";
import { HTTP_DOOR, RELAY_FD, SOCKS_DOOR, STATUS_FD, type GuestConfig } from "./guest-config.ts";
import { createHttpDoor } from "./http-door.ts";
import { createSocksDoor } from "./socks-door.ts";
import { createTunnels } from "./tunnel.ts";

// First program of a guest: the daemon the SDKs talk to, the guest's end of the relay and, in the egress lane, the two
// doors. It is built into one file and runs inside the guest's isolation.

const config = JSON.parse(process.argv[2] ?? "") as GuestConfig;

/** Among the files that copies of a guest start with. */
const BOOT_FILE = "var/lib/sandbox/boot.json";
const MAPPED = ["home/user", "root", "run", "tmp", "var", "opt", "mnt", "srv"];

const envd = createEnvd({
  sandboxId: config.sandboxId,
  templateId: config.templateId,
  defaultUser: "user",
  path: config.path,
  environment: config.environment,
  bootFile: join(config.root ?? "/", BOOT_FILE),
  ...(config.root === undefined ? {} : unisolated(config.root)),
});

function unisolated(root: string): Partial<Parameters<typeof createEnvd>[0]> {
  return {
    switchUser: "never",
    passwdFile: join(root, "etc/passwd"),
    groupFile: join(root, "etc/group"),
    pathMappings: MAPPED.map((name) => ({ guest: `/${name}`, host: join(root, name) })),
    tempDir: join(root, "tmp"),
  };
}

const server = createEnvdServer(envd);

/** Clients begin thousands of calls at once. */
const BACKLOG = 4096;

function listen(listener: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    listener.once("error", reject);
    listener.listen(port, "127.0.0.1", BACKLOG, () => {
      listener.off("error", reject);
      listener.on("error", () => undefined);
      resolve();
    });
  });
}

await listen(server, config.envdPort);
if (config.relay) {
  await startForwarder(RELAY_FD);
}
if (config.egressSocket !== undefined) {
  const open = createTunnels(config.egressSocket);
  await listen(createHttpDoor(open), HTTP_DOOR);
  await listen(createSocksDoor(open), SOCKS_DOOR);
}

// The host holds the other end of the input: its end means that the host's process is gone.
process.stdin.on("error", () => undefined);
process.stdin.on("close", () => {
  void envd.close().finally(() => process.exit(0));
});
process.stdin.resume();

// What the files were captured with ran in another guest: it is started anew before anybody comes.
await envd.boot();

writeSync(STATUS_FD, `ready ${(server.address() as AddressInfo).port}\n`);
closeSync(STATUS_FD);
