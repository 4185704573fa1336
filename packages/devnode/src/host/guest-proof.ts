import { request } from "node:http";
import type { Socket } from "node:net";
import { ENVD_PORT } from "../guest/guest-config.ts";

const TIMEOUT_MS = 10_000;

/** A Connect message of the daemon's process service. A guest made of captured files may have lost its home. */
function startMessage(): Buffer {
  const payload = Buffer.from(
    JSON.stringify({ process: { cmd: "/bin/sh", args: ["-c", ":"], cwd: "/" }, stdin: false }),
  );
  const head = Buffer.alloc(5);
  head.writeUInt32BE(payload.length, 1);
  return Buffer.concat([head, payload]);
}

/**
 * Goes the whole way once: relay, forwarder, daemon, a command of the guest's user. It proves more than a health check
 * would, and what the daemon loads for its first command is loaded before a claim waits for it.
 */
export async function proveCommands(connect: (port: number) => Promise<Socket>): Promise<void> {
  const socket = await connect(ENVD_PORT);
  try {
    const reply = await new Promise<string>((resolve, reject) => {
      const call = request(
        {
          method: "POST",
          path: "/process.Process/Start",
          headers: {
            Host: "localhost",
            Connection: "close",
            "Content-Type": "application/connect+json",
            "Connect-Protocol-Version": "1",
            Authorization: `Basic ${Buffer.from("user:").toString("base64")}`,
          },
          createConnection: () => socket,
          timeout: TIMEOUT_MS,
        },
        (response) => {
          let text = "";
          response.setEncoding("latin1").on("data", (chunk: string) => {
            text += chunk;
          });
          response.on("end", () => resolve(`${response.statusCode} ${text}`));
          response.on("error", reject);
        },
      );
      call.on("timeout", () => call.destroy(new Error("the daemon does not answer")));
      call.on("error", reject);
      call.end(startMessage());
    });
    if (!/^200 [^]*"exit status 0"/.test(reply)) {
      throw new Error(`a first command did not run: ${reply.replaceAll(/[^\x20-\x7e]/g, "").slice(0, 200)}`);
    }
  } finally {
    socket.destroy();
  }
}
