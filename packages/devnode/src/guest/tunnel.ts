import { connect, type Socket } from "node:net";
import { readFirstLine } from "../shared/first-line.ts";

/** Opens a connection from the host to `host:port`. Rejects with {@link TunnelRefused} when the host says no. */
export type OpenTunnel = (host: string, port: number) => Promise<Socket>;

/** The host did not open the way out. */
export class TunnelRefused extends Error {
  override readonly name = "TunnelRefused";
  /** `denied`: not allowed from here. `failed`: allowed, but nothing answered. */
  readonly reason: "denied" | "failed";

  constructor(reason: "denied" | "failed", options?: ErrorOptions) {
    super(reason === "denied" ? "this destination is not allowed" : "the destination does not answer", options);
    this.reason = reason;
  }
}

/** A dial may take a while on the other side: names are resolved there. */
const ANSWER_TIMEOUT_MS = 40_000;

/** Ways out through the host's socket at `path`. */
export function createTunnels(path: string): OpenTunnel {
  return async (host, port) => {
    if (!/^[\w.:%-]{1,255}$/.test(host) || !Number.isInteger(port) || port < 1 || port > 65_535) {
      throw new TunnelRefused("denied");
    }
    const socket = connect({ path, allowHalfOpen: true });
    socket.on("error", () => socket.destroy());
    socket.write(`${port} ${host}\n`);
    let answer: string;
    try {
      answer = await readFirstLine(socket, 16, ANSWER_TIMEOUT_MS);
    } catch (cause) {
      socket.destroy();
      throw new TunnelRefused("failed", { cause });
    }
    if (answer !== "ok") {
      socket.destroy();
      throw new TunnelRefused(answer === "denied" ? "denied" : "failed");
    }
    return socket;
  };
}
