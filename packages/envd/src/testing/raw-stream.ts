import { once } from "node:events";
import { type ClientRequest, type IncomingMessage, request } from "node:http";

/** One frame of a stream as it came over the wire. */
export interface RawFrame {
  readonly flags: number;
  readonly json: Record<string, unknown>;
}

/** A server stream read without any library, frame by frame, at the pace of the test. */
export interface RawStream {
  readonly req: ClientRequest;
  readonly res: IncomingMessage;
  frames(): AsyncGenerator<RawFrame, void>;
  /** All frames up to the end. */
  all(): Promise<RawFrame[]>;
}

/** The pid in a start frame. */
export function pidIn(frame: RawFrame | undefined | void): number {
  const json = frame?.json as { event?: { start?: { pid?: number } } } | undefined;
  const pid = json?.event?.start?.pid;
  if (pid === undefined) throw new Error(`not a start frame: ${JSON.stringify(frame)}`);
  return pid;
}

export function envelope(message: unknown, flags = 0): Buffer {
  const payload = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(payload.length, 1);
  return Buffer.concat([head, payload]);
}

export async function openStream(
  port: number,
  method: string,
  body: Uint8Array,
  headers: Record<string, string> = {},
): Promise<RawStream> {
  const req = request({
    host: "127.0.0.1",
    port,
    method: "POST",
    path: method,
    headers: { "content-type": "application/connect+json", "content-length": body.length, ...headers },
    agent: false,
  });
  req.on("error", () => undefined);
  req.end(body);
  const [res] = (await once(req, "response")) as [IncomingMessage];
  res.on("error", () => undefined);
  async function* frames(): AsyncGenerator<RawFrame, void> {
    let held: Buffer = Buffer.alloc(0);
    for await (const chunk of res as AsyncIterable<Buffer>) {
      held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
      while (held.length >= 5 && held.length >= 5 + held.readUInt32BE(1)) {
        const end = 5 + held.readUInt32BE(1);
        const json = JSON.parse(held.subarray(5, end).toString("utf8")) as Record<string, unknown>;
        yield { flags: held[0] ?? 0, json };
        held = held.subarray(end);
      }
    }
  }
  return {
    req,
    res,
    frames,
    async all() {
      const list: RawFrame[] = [];
      for await (const frame of frames()) list.push(frame);
      return list;
    },
  };
}
