import assert from "node:assert/strict";
import { connect, type ClientHttp2Session } from "node:http2";

import { Agent, request } from "undici";

import type { HostileRig } from "../../src/hostile-rig.ts";
import { each, upTo } from "../../src/raw-talk.ts";
import type { GuestConnection } from "../../src/scripted-guest.ts";
import { type HostileContext, type HostileRow, rigRow } from "./context.ts";

const CALLS = 1_500;
const CONNECTIONS = 100;

/** Connections that are kept, shared and closed at the wrong moment. */
export function poolRows(context: HostileContext): readonly HostileRow[] {
  return [
    rigRow(
      context,
      "H70",
      "a guest that closes a kept connection when a request comes: a GET is carried out once more, a POST with a body is not",
      (rig) => closing(rig),
    ),
    rigRow(
      context,
      "H71",
      `${CALLS} calls at a time over ${CONNECTIONS} connections, HTTP/1.1 and HTTP/2: no error`,
      (rig) => crowd(rig),
    ),
  ];
}

async function closing(rig: HostileRig): Promise<void> {
  const posts = new Map<string, number>();
  let reused = 0;
  const respond = (target: string, connection: GuestConnection): void => {
    connection.socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${target.length}\r\n\r\n${target}`);
  };
  rig.guest.on("kept", {
    onEnd: (seen, connection) => {
      posts.set(seen.target, (posts.get(seen.target) ?? 0) + 1);
      if (connection.requests.length === 1) {
        respond(seen.target, connection);
        return;
      }
      // A second request on one connection comes when the guest has just decided to close it.
      reused += 1;
      if (reused % 2 === 0) {
        connection.socket.resetAndDestroy();
      } else {
        connection.socket.end();
      }
    },
  });
  const agent = new Agent({ connections: 1 });
  const headers = rig.routed();
  try {
    for (const index of upTo(40)) {
      const path = `/kept/${index}`;
      const reply = await request(`${rig.front.facts.proxyUrl}${path}`, { headers, dispatcher: agent });
      assert.equal(reply.statusCode, 200, `GET ${index} of 40 on a connection that may be closing`);
      assert.equal(await reply.body.text(), path);
    }
    for (const index of upTo(40)) {
      const path = `/kept/post-${index}`;
      const reply = await request(`${rig.front.facts.proxyUrl}${path}`, {
        method: "POST",
        headers,
        body: "once",
        dispatcher: agent,
      });
      await reply.body.dump();
      assert.ok([200, 502].includes(reply.statusCode), `POST ${index} of 40 answered ${reply.statusCode}`);
      assert.equal(posts.get(path), 1, `POST ${index} of 40 was carried out ${posts.get(path)} times`);
    }
  } finally {
    await agent.destroy();
  }
}

async function crowd(rig: HostileRig): Promise<void> {
  rig.guest.on("crowd", {
    onEnd: ({ target, body }, { socket }) => {
      const text = `${target} ${body.toString()}`;
      setTimeout(() => socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`), 20);
    },
  });
  const agent = new Agent({ connections: CONNECTIONS, pipelining: 1, headersTimeout: 120_000 });
  try {
    await each(upTo(CALLS), CALLS, async (index) => {
      const reply = await request(`${rig.front.facts.proxyUrl}/crowd/${index}`, {
        method: "POST",
        headers: rig.routed(),
        body: `b${index}`,
        dispatcher: agent,
      });
      const text = await reply.body.text();
      assert.equal(`${reply.statusCode} ${text}`, `200 /crowd/${index} b${index}`);
    });
  } finally {
    await agent.destroy();
  }
  const sessions = Array.from({ length: CONNECTIONS }, () => connect(rig.front.facts.proxyUrl));
  try {
    await each(upTo(CALLS), CALLS, async (index) => {
      const session = sessions[index % CONNECTIONS] as ClientHttp2Session;
      assert.equal(
        await callHttp2(session, rig.host(), `/crowd/${index}`, `b${index}`),
        `200 /crowd/${index} b${index}`,
      );
    });
  } finally {
    for (const session of sessions) {
      session.destroy();
    }
  }
}

function callHttp2(session: ClientHttp2Session, host: string, path: string, body: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const stream = session.request({ ":method": "POST", ":path": path, ":authority": host });
    let status = "";
    let text = "";
    stream.on("response", (headers) => (status = String(headers[":status"])));
    stream.setEncoding("utf8");
    stream.on("data", (piece: string) => (text += piece));
    stream.once("error", reject);
    stream.once("end", () => resolve(`${status} ${text}`));
    stream.end(body);
  });
}
