import type { AddressInfo, Server } from "node:net";

/** Enough for every connection of a load that begins at once. */
const BACKLOG = 4096;

/** Listens on a free port of the loopback interface and tells the address. */
export function listen(server: Server): Promise<string> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", BACKLOG, () => resolve(`127.0.0.1:${(server.address() as AddressInfo).port}`));
  });
}
