import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";

import { type KernelCommands, kernelCommands } from "../service/languages.ts";
import type { Message } from "../service/messages.ts";
import { createInterpreter, type InterpreterOptions } from "../service/server.ts";

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

const commands = kernelCommands({ python: at("../python/kernel.py"), javascript: at("../javascript/main.ts") });

/** The kernels, run from their sources. */
const kernelsFromSources: KernelCommands = (language) => {
  const { command, args } = commands(language);
  // Nothing is written beside the sources.
  return language === "python" ? { command, args: ["-B", ...args] } : { command, args };
};

/** A code interpreter that listens, with a daemon that knows its token and its variables. */
export interface TestInterpreter extends AsyncDisposable {
  readonly url: string;
  /** A request with the token; a body is sent as JSON. */
  fetch(
    method: string,
    path: string,
    body?: unknown,
    options?: { token?: string; signal?: AbortSignal },
  ): Promise<Response>;
  /** Runs a cell in Python unless told otherwise, and collects the messages. */
  run(code: string, more?: Readonly<Record<string, unknown>>): Promise<Message[]>;
}

const TOKEN = "the-token";

/** Starts one on a free port. */
export async function startInterpreter(
  options: Partial<InterpreterOptions> = {},
  variables: Readonly<Record<string, string>> = {},
): Promise<TestInterpreter> {
  const daemon = createServer((req, res) => {
    const known = req.url === "/envs" && req.headers["x-access-token"] === TOKEN;
    res.writeHead(known ? 200 : 401).end(JSON.stringify(known ? variables : { code: 401, message: "no" }));
  });
  await new Promise<void>((resolve) => daemon.listen(0, "127.0.0.1", resolve));
  const daemonPort = (daemon.address() as AddressInfo).port;
  const interpreter = createInterpreter({ commands: kernelsFromSources, cwd: "/tmp", daemonPort, ...options });
  await new Promise<void>((resolve) => interpreter.server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(interpreter.server.address() as AddressInfo).port}`;
  const call: TestInterpreter["fetch"] = (method, path, body, { token = TOKEN, signal } = {}) =>
    fetch(`${url}${path}`, {
      method,
      headers: { "x-access-token": token },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
  return {
    url,
    fetch: call,
    run: async (code, more = {}) => {
      const reply = await call("POST", "/execute", { code, ...more });
      return messagesOf(await reply.text());
    },
    [Symbol.asyncDispose]: async () => {
      interpreter.close();
      daemon.closeAllConnections();
      await new Promise((resolve) => daemon.close(resolve));
    },
  };
}

/** The messages of an answer. */
export function messagesOf(text: string): Message[] {
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Message);
}

/** What a cell gave: its text, what it printed, and its error's name. */
export function outcomeOf(messages: readonly Message[]): {
  readonly text?: unknown;
  readonly stdout?: string;
  readonly stderr?: string;
  readonly error?: string;
} {
  const printed = (type: "stdout" | "stderr"): string =>
    messages.map((message) => (message.type === type ? message.text : "")).join("");
  const main = messages.find((message) => message.type === "result" && message.is_main_result);
  const error = messages.find((message) => message.type === "error");
  const [stdout, stderr] = [printed("stdout"), printed("stderr")];
  return {
    ...(main?.type === "result" && { text: main["text"] }),
    ...(stdout !== "" && { stdout }),
    ...(stderr !== "" && { stderr }),
    ...(error?.type === "error" && { error: `${error.name}: ${error.value}` }),
  };
}
