import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { buffer } from "node:stream/consumers";
import type { ScriptedNode } from "@org/scale/testing";

/** A command as a guest's daemon was asked to run it. */
export interface RanCommand {
  readonly user: string;
  readonly cwd: string;
  readonly envs: Readonly<Record<string, string>>;
  /** The shell text, and what follows it. */
  readonly text: string;
  readonly args: readonly string[];
}

/** How a command goes. `undefined` ends well without output. */
export interface Ran {
  readonly stdout?: string;
  readonly stderr?: string;
  readonly exitCode?: number;
  readonly killed?: boolean;
  /** Goes on until its caller leaves. */
  readonly stays?: boolean;
  /** The connection breaks. */
  readonly breaks?: boolean;
  /** The daemon refuses it with these words. */
  readonly refused?: string;
}

/** What a guest's daemon was asked, in order. */
export interface BuildDaemon {
  readonly ran: RanCommand[];
  readonly files: { readonly target: string; readonly content: string }[];
  readonly inits: unknown[];
  readonly boots: unknown[];
}

/** Puts a daemon into every guest of a node that plays commands. */
export function buildDaemon(
  node: ScriptedNode,
  play: (command: RanCommand) => Ran | undefined,
  { keepsBoot = true }: { readonly keepsBoot?: boolean } = {},
): BuildDaemon {
  const seen: BuildDaemon = { ran: [], files: [], inits: [], boots: [] };
  const frame = (value: unknown, flags = 0): Buffer => {
    const payload = Buffer.from(JSON.stringify(value));
    const head = Buffer.alloc(5);
    head.writeUInt8(flags, 0);
    head.writeUInt32BE(payload.length, 1);
    return Buffer.concat([head, payload]);
  };
  const data = (name: string, text: string | undefined): Buffer =>
    text === undefined ? Buffer.alloc(0) : frame({ event: { data: { [name]: Buffer.from(text).toString("base64") } } });

  const run = (request: IncomingMessage, response: ServerResponse, body: Buffer): void => {
    const { process } = JSON.parse(body.subarray(5).toString()) as {
      readonly process: { args: string[]; cwd?: string; envs?: Record<string, string> };
    };
    const [, , text = "", , ...args] = process.args;
    const [user = ""] = Buffer.from((request.headers.authorization ?? "").slice(6), "base64")
      .toString()
      .split(":");
    const command = { user, cwd: process.cwd ?? "", envs: process.envs ?? {}, text, args };
    seen.ran.push(command);
    const ran = play(command) ?? {};
    response.writeHead(200, { "content-type": "application/connect+json" });
    if (ran.refused !== undefined) {
      response.end(frame({ error: { code: "invalid_argument", message: ran.refused } }, 2));
      return;
    }
    response.write(frame({ event: { start: { pid: 7 } } }));
    response.write(Buffer.concat([data("stdout", ran.stdout), data("stderr", ran.stderr)]));
    if (ran.breaks === true) {
      setImmediate(() => request.socket.destroy());
    } else if (ran.stays !== true) {
      const { exitCode = 0, killed = false } = ran;
      const end = killed
        ? { exitCode: -1, status: "signal: killed" }
        : { exitCode, exited: true, status: "exit status" };
      response.end(Buffer.concat([frame({ event: { end } }), frame({}, 2)]));
    }
  };

  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const target = request.url ?? "";
    const body = await buffer(request);
    switch (target.replace(/\?.*/, "")) {
      case "/process.Process/Start":
        run(request, response, body);
        return;
      case "/init":
        seen.inits.push(JSON.parse(body.toString()));
        response.writeHead(204).end();
        return;
      case "/_sandbox/boot":
        seen.boots.push(JSON.parse(body.toString()));
        response.writeHead(keepsBoot ? 204 : 404).end();
        return;
      case "/files":
        seen.files.push({ target, content: body.toString() });
        response.writeHead(200, { "content-type": "application/json" }).end("[]");
        return;
      default:
        response.writeHead(404).end();
    }
  };
  const daemon = createServer((request, response) => void serve(request, response).catch(() => response.destroy()));
  node.guest(49_983, (socket: Duplex) => {
    socket.on("error", () => undefined);
    daemon.emit("connection", socket);
  });
  return seen;
}
