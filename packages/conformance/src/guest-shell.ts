import { request as httpRequest } from "node:http";
import type { Socket } from "node:net";

import { guestOutput } from "./api.ts";
import { SkipRow } from "./harness-rows.ts";
import type { Bench, Claimed } from "./node-bench.ts";
import type { NodeClient } from "./node-client.ts";
import { openRelay, readToEnd } from "./node-relay.ts";
import { waitFor } from "./polling.ts";

const ENVD_PORT = 49_983;
const READY_MS = 15_000;

/**
 * Runs a shell command in a guest through its envd, over one relay of the node. Answers what it printed. Throws a
 * {@link SkipRow} when the guest runs no envd that takes commands without a token.
 */
export async function runOverRelay(node: NodeClient, sandbox: Claimed, command: string): Promise<string> {
  const { status, socket, body } = await openRelay(node, sandbox.id, ENVD_PORT, { bearer: sandbox.token });
  if (status === 502) {
    throw new SkipRow(`the guest has no envd at port ${ENVD_PORT}: name a template that has one with --template`);
  }
  if (status !== 101) {
    throw new Error(`the relay to envd answered ${status} ${body}`);
  }
  try {
    const answer = await startProcess(socket, command);
    if (answer.status === 401 || answer.status === 403) {
      throw new SkipRow(`the guest's envd wants a token before its first /init (${answer.status})`);
    }
    if (answer.status !== 200) {
      throw new Error(`envd answered ${answer.status} ${answer.bytes.toString().slice(0, 200)}`);
    }
    return guestOutput(answer.bytes);
  } finally {
    socket.destroy();
  }
}

/**
 * Waits until the guest's envd answers: a claim may be delivered before it does. Throws a {@link SkipRow} when there is
 * none.
 */
export async function guestReady(node: NodeClient, sandbox: Claimed): Promise<void> {
  let skip: SkipRow | undefined;
  const probe = async (): Promise<boolean> => {
    skip = undefined;
    try {
      return (await runOverRelay(node, sandbox, "echo ready")) === "ready\n";
    } catch (error) {
      skip = error instanceof SkipRow ? error : undefined;
      throw error;
    }
  };
  await waitFor("an answer of the guest", probe, READY_MS, 200).catch((error: unknown) => {
    throw skip ?? error;
  });
}

function startProcess(socket: Socket, command: string): Promise<{ status: number; bytes: Buffer }> {
  const message = Buffer.from(JSON.stringify({ process: { cmd: "/bin/sh", args: ["-c", command] }, stdin: false }));
  const frame = Buffer.concat([Buffer.alloc(5), message]);
  frame.writeUInt32BE(message.length, 1);
  return new Promise((resolve, reject) => {
    const sent = httpRequest(
      {
        createConnection: () => socket,
        method: "POST",
        path: "/process.Process/Start",
        headers: {
          host: `127.0.0.1:${ENVD_PORT}`,
          connection: "close",
          "content-type": "application/connect+json",
          "connect-protocol-version": "1",
          authorization: `Basic ${Buffer.from("user:").toString("base64")}`,
        },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("end", () => resolve({ status: response.statusCode ?? 0, bytes: Buffer.concat(chunks) }));
        response.on("error", reject);
      },
    );
    sent.on("error", reject);
    sent.end(frame);
  });
}

/**
 * A server inside a guest, for what a relay must carry. The first byte of a connection chooses what it does: `X` sends
 * back what came once the client has ended, `E` says `early`, ends its side and counts what still comes, `S` tells that
 * count, `N` tells the server's name.
 */
export interface GuestServer {
  readonly port: number;
  connect(pipelined: string): Promise<Socket>;
  /** Sends, ends, and answers everything that came back. */
  ask(text: string): Promise<string>;
}

const PYTHON = `
import socket, sys, threading
port, name = int(sys.argv[1]), sys.argv[2]
seen = [0]
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", port))
s.listen(16)
def rest(c):
    got = b""
    while True:
        more = c.recv(65536)
        if not more: return got
        got += more
def serve(c):
    mode = c.recv(1)
    if mode == b"X": c.sendall(rest(c))
    elif mode == b"E":
        c.sendall(b"early")
        c.shutdown(socket.SHUT_WR)
        seen[0] = len(rest(c))
    elif mode == b"S": c.sendall(str(seen[0]).encode())
    elif mode == b"N": c.sendall(name.encode())
    c.close()
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
`;

const PERL = `
use IO::Socket::INET;
my ($port, $name) = @ARGV;
my $seen = 0;
my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $port, Listen => 16, ReuseAddr => 1) or die;
sub rest { my $c = shift; my ($all, $more) = ("", ""); $all .= $more while sysread($c, $more, 65536); return $all; }
sub tell_all { my ($c, $text) = @_; my $at = 0; while ($at < length $text) { $at += syswrite($c, $text, 65536, $at) or die; } }
while (my $c = $s->accept) {
  sysread($c, my $mode, 1);
  if ($mode eq "X") { tell_all($c, rest($c)); }
  elsif ($mode eq "E") { tell_all($c, "early"); shutdown($c, 1); $seen = length rest($c); }
  elsif ($mode eq "S") { tell_all($c, "$seen"); }
  elsif ($mode eq "N") { tell_all($c, $name); }
  close $c;
}
`;

/** Starts the server in a guest. Throws a {@link SkipRow} when the guest has neither `python3` nor `perl`. */
export async function startGuestServer(
  bench: Bench,
  node: NodeClient,
  sandbox: Claimed,
  port: number,
  name: string,
): Promise<GuestServer> {
  await guestReady(node, sandbox);
  const found = (await runOverRelay(node, sandbox, "command -v python3 || command -v perl || true")).trim();
  if (found === "") {
    throw new SkipRow("the guest has neither python3 nor perl to listen with: put one into the template");
  }
  const program = Buffer.from(found.endsWith("perl") ? PERL : PYTHON).toString("base64");
  const file = `./${bench.label}-${port}`;
  await runOverRelay(
    node,
    sandbox,
    `echo ${program} | base64 -d > ${file} && (setsid ${found} ${file} ${port} ${name} </dev/null >/dev/null 2>${file}.err &)`,
  );
  const connect = async (pipelined: string): Promise<Socket> => {
    const reply = await openRelay(node, sandbox.id, port, { bearer: sandbox.token, pipelined });
    if (reply.status !== 101) {
      throw new Error(`the relay to port ${port} answered ${reply.status} ${reply.body}`);
    }
    return reply.socket;
  };
  const ask = async (text: string): Promise<string> => {
    const socket = await connect("");
    try {
      socket.end(text);
      return (await readToEnd(socket)).toString("latin1");
    } finally {
      socket.destroy();
    }
  };
  await waitFor("the server in the guest", async () => (await ask("N")) === name, 15_000, 100);
  return { port, connect, ask };
}
