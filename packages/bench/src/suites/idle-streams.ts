import { connect as connectSocket } from "node:net";
import type { Socket } from "node:net";
import { http2Sessions } from "../http2-load.ts";
import { guestRequest, ProxyRig, ROUTING } from "../proxy-rig.ts";
import type { Bench, Suite } from "../suite.ts";

const BAR = { limit: 40 * 1024, on: "value", side: "at most" } as const;
const HTTP2_CONNECTIONS = 100;
/** So many streams begin at a time: connecting thousands at once measures the backlog of a listener. */
const AT_A_TIME = 200;

/** Streams through the data plane that say nothing for long, as watches and commands do. */
export const idleStreamsSuite: Suite = {
  name: "idle-streams",
  what: "what the data plane holds in memory for each open stream that says nothing",
  async run(bench) {
    await measure(bench, "http2", bench.quick ? 200 : 10_000, openOverHttp2);
    // Each takes a descriptor on both sides of the data plane, and processes may have few.
    await measure(bench, "http1", bench.quick ? 200 : 8000, openOverHttp1);
  },
};

/** Opens streams and returns how many there are, and how to close them. */
type Open = (address: string, count: number) => Promise<{ readonly close: () => void }>;

async function measure(bench: Bench, protocol: string, count: number, open: Open): Promise<void> {
  await using rig = await ProxyRig.start();
  const proxy = await rig.open();
  const warmUp = await open(proxy, Math.min(100, count));
  const before = await rig.proxy.call("memory", undefined);
  const opened = await open(proxy, count);
  const after = await rig.proxy.call("memory", undefined);
  bench.report({
    name: `idle-streams.${protocol}.memory`,
    fleet: `${count} streams`,
    unit: "B",
    value: Math.max(0, after - before) / count,
    bar: BAR,
  });
  opened.close();
  warmUp.close();
}

async function inTurns(count: number, begin: () => Promise<void>): Promise<void> {
  for (let at = 0; at < count; at += AT_A_TIME) {
    await Promise.all(Array.from({ length: Math.min(AT_A_TIME, count - at) }, begin));
  }
}

const openOverHttp2: Open = async (address, count) => {
  const sessions = await http2Sessions(address, Math.min(HTTP2_CONNECTIONS, count));
  let next = 0;
  await inTurns(count, () => {
    const session = sessions[next % sessions.length];
    next += 1;
    return new Promise((resolve, reject) => {
      const stream = session?.request({ ":path": "/silent", ...ROUTING });
      // The first bytes are there: from now on it is silent.
      stream?.once("data", () => resolve());
      stream?.on("error", reject);
      stream?.on("close", () => reject(new Error("a stream was closed")));
    });
  });
  return {
    close: () => {
      for (const session of sessions) {
        session.destroy();
      }
    },
  };
};

const openOverHttp1: Open = async (address, count) => {
  const cut = address.lastIndexOf(":");
  const target = { host: address.slice(0, cut), port: Number(address.slice(cut + 1)), noDelay: true };
  const request = guestRequest("GET", "/silent");
  const sockets: Socket[] = [];
  await inTurns(count, () => {
    return new Promise((resolve, reject) => {
      const socket = connectSocket(target, () => socket.write(request));
      sockets.push(socket);
      let text = "";
      socket.on("data", (chunk: Buffer) => {
        text += chunk.toString("latin1");
        if (text.includes("hello")) {
          resolve();
        }
      });
      socket.on("error", reject);
      socket.on("close", () => reject(new Error(`a stream was closed: ${text.slice(0, 100)}`)));
    });
  });
  return {
    close: () => {
      for (const socket of sockets) {
        socket.destroy();
      }
    },
  };
};
