import { once } from "node:events";
import { connect } from "node:http2";
import type { ClientHttp2Session } from "node:http2";
import type { LoadResult } from "./load.ts";

/** A load over HTTP/2 with prior knowledge. */
export interface Http2Load {
  readonly connections: number;
  /** Requests at a time on each connection. */
  readonly streams: number;
  readonly total: number;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Opens connections to an address; none of them ends the process when it breaks. */
export async function http2Sessions(address: string, count: number): Promise<readonly ClientHttp2Session[]> {
  const sessions = Array.from({ length: count }, () => connect(`http://${address}`));
  await Promise.all(
    sessions.map((session) => {
      session.on("error", () => undefined);
      session.setMaxListeners(0);
      return once(session, "remoteSettings");
    }),
  );
  return sessions;
}

function get(session: ClientHttp2Session, headers: Readonly<Record<string, string>>): Promise<number> {
  return new Promise((resolve, reject) => {
    const stream = session.request(headers);
    let status = 0;
    stream.on("response", (head) => {
      status = head[":status"] ?? 0;
    });
    stream.on("error", reject);
    stream.on("end", () => resolve(status));
    stream.resume();
  });
}

/** Sends `total` requests; each place for one sends its next when it has its answer, which must be a 200. */
export async function http2Load(address: string, options: Http2Load): Promise<LoadResult> {
  const { connections, streams, total, path } = options;
  const sessions = await http2Sessions(address, connections);
  const headers = { ":path": path, ...options.headers };
  const micros: number[] = [];
  let errors = 0;
  let sent = 0;
  const began = performance.now();
  const work = async (session: ClientHttp2Session): Promise<void> => {
    while (sent < total) {
      sent += 1;
      const at = performance.now();
      const status = await get(session, headers).catch(() => 0);
      if (status === 200) {
        micros.push((performance.now() - at) * 1000);
      } else {
        errors += 1;
      }
    }
  };
  try {
    await Promise.all(sessions.flatMap((session) => Array.from({ length: streams }, () => work(session))));
    return { micros, errors, wallMicros: (performance.now() - began) * 1000 };
  } finally {
    for (const session of sessions) {
      session.destroy();
    }
  }
}
