import type { ClientHttp2Session } from "node:http2";

/** How a command went. */
export interface CommandResult {
  readonly stdout: string;
  readonly exitCode: number;
}

interface StartMessage {
  readonly event?: {
    readonly data?: { readonly stdout?: string };
    readonly end?: { readonly exitCode?: number; readonly status?: string };
  };
  readonly error?: { readonly message?: string };
}

/** One message of a Connect stream. */
function frame(message: object): Buffer {
  const body = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
}

function messagesOf(bytes: Buffer): StartMessage[] {
  const messages: StartMessage[] = [];
  for (let at = 0; at + 5 <= bytes.length;) {
    const length = bytes.readUInt32BE(at + 1);
    messages.push(JSON.parse(bytes.toString("utf8", at + 5, at + 5 + length)) as StartMessage);
    at += 5 + length;
  }
  return messages;
}

/** Runs a command the way the SDKs' `commands.run` does, over one stream of an HTTP/2 connection. */
export function runCommand(
  session: ClientHttp2Session,
  headers: Readonly<Record<string, string>>,
  command: string,
): Promise<CommandResult> {
  return new Promise((resolve, reject) => {
    const stream = session.request({
      ":method": "POST",
      ":path": "/process.Process/Start",
      "content-type": "application/connect+json",
      "connect-protocol-version": "1",
      "keepalive-ping-interval": "50",
      ...headers,
    });
    const pieces: Buffer[] = [];
    let status = 0;
    stream.on("response", (head) => {
      status = head[":status"] ?? 0;
    });
    stream.on("data", (piece: Buffer) => pieces.push(piece));
    stream.on("error", reject);
    stream.on("end", () => {
      const bytes = Buffer.concat(pieces);
      if (status !== 200) {
        reject(new Error(`the command was answered with ${status}: ${bytes.toString("utf8", 0, 200)}`));
        return;
      }
      const messages = messagesOf(bytes);
      const failure = messages.find(({ error }) => error !== undefined)?.error;
      const end = messages.find(({ event }) => event?.end !== undefined)?.event?.end;
      if (failure !== undefined || end === undefined) {
        reject(new Error(`the command did not end: ${failure?.message ?? "no end"}`));
        return;
      }
      const stdout = messages.map(({ event }) => Buffer.from(event?.data?.stdout ?? "", "base64").toString("utf8"));
      resolve({ stdout: stdout.join(""), exitCode: end.exitCode ?? 0 });
    });
    stream.end(frame({ process: { cmd: "/bin/bash", args: ["-l", "-c", command] } }));
  });
}
