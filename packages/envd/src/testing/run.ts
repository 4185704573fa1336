import type { Client } from "@connectrpc/connect";
import { type MessageInitShape, toJson } from "@bufbuild/protobuf";
import { type Process, ProcessEvent_EndEventSchema, type StartRequestSchema } from "@org/envd-client";

/** What a command gave. */
export interface RunResult {
  readonly pid: number;
  readonly stdout: Buffer;
  readonly stderr: Buffer;
  readonly pty: Buffer;
  /** The end event in its JSON form. */
  readonly end: unknown;
  readonly order: readonly string[];
}

type Start = Omit<MessageInitShape<typeof StartRequestSchema>, "$typeName">;

/** Runs a command to its end. */
export async function run(client: Client<typeof Process>, request: Start, signal?: AbortSignal): Promise<RunResult> {
  return collect(client.start(request, signal === undefined ? {} : { signal }));
}

/** Runs shell text to its end. */
export function sh(
  client: Client<typeof Process>,
  text: string,
  request: Omit<Start, "process"> & { envs?: Record<string, string>; cwd?: string } = {},
): Promise<RunResult> {
  const { envs = {}, cwd, ...rest } = request;
  const process = { cmd: "/bin/sh", args: ["-c", text], envs, ...(cwd === undefined ? {} : { cwd }) };
  return run(client, { stdin: false, ...rest, process });
}

type Events = ReturnType<Client<typeof Process>["start"]> | ReturnType<Client<typeof Process>["connect"]>;

export async function collect(events: Events): Promise<RunResult> {
  const output = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[], pty: [] as Uint8Array[] };
  const order: string[] = [];
  let pid = 0;
  let end: unknown;
  for await (const { event } of events) {
    const kind = event?.event;
    order.push(kind?.case ?? "none");
    if (kind?.case === "start") pid = kind.value.pid;
    if (kind?.case === "end") end = toJson(ProcessEvent_EndEventSchema, kind.value);
    if (kind?.case === "data" && kind.value.output.case !== undefined) {
      output[kind.value.output.case].push(kind.value.output.value);
    }
  }
  return {
    pid,
    stdout: Buffer.concat(output.stdout),
    stderr: Buffer.concat(output.stderr),
    pty: Buffer.concat(output.pty),
    end,
    order,
  };
}
