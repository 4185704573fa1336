import { connect, type Socket } from "node:net";
import { request as httpRequest } from "node:http";
import type { ClaimReply, InfoReply, SandboxRow } from "@org/sandboxd-client/wire";

/** An answer of a node. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body as JSON; a test knows what it asked for. */
  json(): Record<string, unknown>;
}

/** Calls of one node with one bearer. */
export interface Api {
  call(method: string, path: string, body?: unknown, bearer?: string): Promise<Answer>;
  claim(body?: object): Promise<ClaimReply>;
  info(): Promise<InfoReply>;
  rows(): Promise<readonly SandboxRow[]>;
  /** Opens a relay; the answer's head is read off. */
  relay(id: string, port: number | string, bearer: string, extra?: RelayExtra): Promise<RelayReply>;
}

export interface RelayExtra {
  readonly upgrade?: string | undefined;
  /** Bytes right behind the head. */
  readonly pipelined?: string | undefined;
}

export interface RelayReply {
  readonly head: string;
  readonly status: number;
  readonly socket: Socket;
}

export function nodeApi(address: string, token: string | undefined): Api {
  const call: Api["call"] = async (method, path, body, bearer = token) => {
    const response = await fetch(`http://${address}${path}`, {
      method,
      headers: bearer === undefined ? {} : { authorization: `Bearer ${bearer}` },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      text,
      json: () => JSON.parse(text) as Record<string, unknown>,
    };
  };
  return {
    call,
    claim: async (body = { template: "base" }) => {
      const answer = await call("POST", "/v1/claim", body);
      if (answer.status !== 200 || !answer.text.includes('"id"')) {
        throw new Error(`claim answered ${answer.status} ${answer.text}`);
      }
      return answer.json() as unknown as ClaimReply;
    },
    info: async () => (await call("GET", "/v1/info")).json() as unknown as InfoReply,
    rows: async () => (await call("GET", "/v1/sandboxes")).json()["sandboxes"] as readonly SandboxRow[],
    relay: (id, port, bearer, { upgrade = "tcp", pipelined = "" } = {}) => {
      const [host, portText] = [
        address.slice(0, address.lastIndexOf(":")),
        address.slice(address.lastIndexOf(":") + 1),
      ];
      return new Promise((resolve, reject) => {
        const socket = connect({ host, port: Number(portText), allowHalfOpen: true });
        socket.on("error", reject);
        const lines = [
          `GET /v1/sandboxes/${id}/ports/${port} HTTP/1.1`,
          "Host: node",
          ...(bearer === "" ? [] : [`Authorization: Bearer ${bearer}`]),
          ...(upgrade === "" ? [] : [`Upgrade: ${upgrade}`, "Connection: Upgrade"]),
        ];
        socket.write(`${lines.join("\r\n")}\r\n\r\n${pipelined}`);
        let seen = Buffer.alloc(0);
        const onReadable = (): void => {
          for (let chunk = socket.read() as Buffer | null; chunk !== null; chunk = socket.read() as Buffer | null) {
            seen = Buffer.concat([seen, chunk]);
          }
          const end = seen.indexOf("\r\n\r\n");
          if (end === -1) {
            return;
          }
          socket.off("readable", onReadable);
          const rest = seen.subarray(end + 4);
          if (rest.length > 0) {
            socket.unshift(rest);
          }
          const head = seen.toString("latin1", 0, end + 4);
          resolve({ head, status: Number(head.slice(9, 12)), socket });
        };
        socket.on("readable", onReadable);
      });
    },
  };
}

/** Everything that comes until the end. */
export async function readAll(socket: Socket): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("latin1");
}

/** Output of a command in a guest. */
export interface CommandResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
}

/** Runs a shell command in a guest through its daemon, over one relay. */
export async function runInGuest(
  api: Api,
  sandbox: { readonly id: string; readonly token: string },
  command: string,
  user = "user",
): Promise<CommandResult> {
  const { status, socket, head } = await api.relay(sandbox.id, 49_983, sandbox.token);
  if (status !== 101) {
    throw new Error(`relay answered ${head}`);
  }
  return await runCommand(socket, command, user);
}

/** Runs a shell command over a connection to a guest's daemon. */
export async function runCommand(socket: Socket, command: string, user = "user"): Promise<CommandResult> {
  const payload = Buffer.from(
    JSON.stringify({ process: { cmd: "/bin/bash", args: ["-l", "-c", command], envs: {} }, stdin: false }),
  );
  const envelope = Buffer.alloc(5);
  envelope.writeUInt32BE(payload.length, 1);
  const bytes = await new Promise<Buffer>((resolve, reject) => {
    const request = httpRequest(
      {
        createConnection: () => socket,
        method: "POST",
        path: "/process.Process/Start",
        headers: {
          Host: "guest",
          Connection: "close",
          "Content-Type": "application/connect+json",
          "Connect-Protocol-Version": "1",
          Authorization: `Basic ${Buffer.from(`${user}:`).toString("base64")}`,
        },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("end", () => resolve(Buffer.concat(chunks)));
        response.on("error", reject);
      },
    );
    request.on("error", reject);
    request.end(Buffer.concat([envelope, payload]));
  });
  return readEvents(bytes);
}

interface ProcessEvent {
  readonly event?: {
    readonly data?: { readonly stdout?: string; readonly stderr?: string };
    readonly end?: { readonly exitCode?: number; readonly exited?: boolean };
  };
  readonly error?: { readonly message?: string };
}

function readEvents(bytes: Buffer): CommandResult {
  let [stdout, stderr, exitCode] = ["", "", -1];
  for (let at = 0; at + 5 <= bytes.length;) {
    const length = bytes.readUInt32BE(at + 1);
    const message = JSON.parse(bytes.toString("utf8", at + 5, at + 5 + length) || "{}") as ProcessEvent;
    at += 5 + length;
    if (message.error !== undefined) {
      throw new Error(`command failed: ${message.error.message}`);
    }
    stdout += Buffer.from(message.event?.data?.stdout ?? "", "base64").toString("utf8");
    stderr += Buffer.from(message.event?.data?.stderr ?? "", "base64").toString("utf8");
    if (message.event?.end !== undefined) {
      exitCode = message.event.end.exitCode ?? 0;
    }
  }
  return { stdout, stderr, exitCode };
}
