import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

import { describe, expect, it } from "vitest";

import { createBench } from "./node-bench.ts";
import { type NodeClient, nodeClient, originOf } from "./node-client.ts";

type Answer = readonly [status: number, body?: unknown];

const KEY = { template: "base", net: "none", size: "small" };

interface FakeNode extends AsyncDisposable {
  readonly node: NodeClient;
  /** `METHOD path body` of every call, in order. */
  readonly calls: string[];
}

/** A node that answers what it is told to. */
async function fakeNode(answer: (call: string) => Answer | Promise<Answer>): Promise<FakeNode> {
  const calls: string[] = [];
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) {
      body += String(chunk);
    }
    const call = `${request.method} ${request.url} ${body}`.trim();
    calls.push(call);
    const [status, reply] = await answer(call);
    response.writeHead(status, { "content-type": "application/json" });
    response.end(reply === undefined ? "" : JSON.stringify(reply));
  };
  const server = createServer((request, response) => void serve(request, response));
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const node = nodeClient(`127.0.0.1:${(server.address() as AddressInfo).port}`, "root");
  return {
    node,
    calls,
    [Symbol.asyncDispose]: async () => {
      await node[Symbol.asyncDispose]();
      server.closeAllConnections();
      server.close();
    },
  };
}

const INFO = { pools: [{ key: KEY, warm: 2, refilling: 0, target: 3, golden: true }], claimed: 0 };

function usual(call: string): Answer {
  if (call.startsWith("GET /v1/info") || call.includes("/v1/drain") || call.startsWith("PUT /v1/pools")) {
    return [200, INFO];
  }
  if (call.startsWith("POST /v1/claim")) {
    return [200, { id: "sb_1", token: "t1", deadline: "2030-01-01T00:00:00Z" }];
  }
  if (call.includes("/fork")) {
    return [200, { children: [{ id: "sb_2", token: "t2" }] }];
  }
  if (call.includes("/checkpoint")) {
    return call.startsWith("DELETE") ? [204] : [200, { checkpoint: { id: "ck_1" } }];
  }
  if (call.includes("/promote")) {
    return [200, { key: { ...KEY, template: "made" }, content_digest: "sha256:0" }];
  }
  return [204];
}

describe("the bench", () => {
  it("undoes everything that answers named, once", async () => {
    await using fake = await fakeNode(usual);
    const { node, calls } = fake;
    const bench = createBench();
    await bench.claim(node, { template: "base" });
    await bench.call(node, "POST", "/v1/sandboxes/sb_1/fork", { body: { count: 1 } });
    await bench.call(node, "POST", "/v1/sandboxes/sb_1/checkpoint", { body: {} });
    await bench.call(node, "POST", "/v1/sandboxes/sb_1/promote", { body: { template: "made" } });
    await bench.call(node, "POST", "/v1/drain");
    await bench.addPool(node, { ...KEY, size: "medium", warm: 1 });
    calls.length = 0;
    await bench.cleanUp();
    expect(calls.toSorted()).toEqual([
      "DELETE /v1/checkpoints/ck_1",
      "DELETE /v1/drain",
      "DELETE /v1/templates?template=made&net=none&size=small&no_redirect=1",
      "POST /v1/sandboxes/sb_1/release",
      "POST /v1/sandboxes/sb_2/release",
      'PUT /v1/pools {"pools":[{"template":"base","net":"none","size":"small","warm":3}]}',
    ]);
    calls.length = 0;
    await bench.cleanUp();
    expect([calls, bench.leftovers]).toEqual([[], []]);
  });

  it("adds a pool to those that are there", async () => {
    await using fake = await fakeNode(usual);
    await createBench().addPool(fake.node, { ...KEY, size: "medium", warm: 1 });
    expect(fake.calls.at(-1)).toBe(
      'PUT /v1/pools {"pools":[{"template":"base","net":"none","size":"small","warm":3},{"template":"base","net":"none","size":"medium","warm":1}]}',
    );
  });

  it("leaves alone what was released, undrained and never changed", async () => {
    await using fake = await fakeNode(usual);
    const { node, calls } = fake;
    const bench = createBench();
    await bench.claim(node, { template: "base" });
    await bench.call(node, "POST", "/v1/sandboxes/sb_1/release", { bearer: "t1" });
    await bench.call(node, "POST", "/v1/drain");
    await bench.call(node, "DELETE", "/v1/drain");
    calls.length = 0;
    await bench.cleanUp();
    expect(calls).toEqual([]);
  });

  it("tells what could not be undone, and undoes the rest", async () => {
    await using fake = await fakeNode((call) =>
      call.includes("/release") ? [500, { error: "release failed" }] : usual(call),
    );
    const { node, calls } = fake;
    const bench = createBench();
    await bench.claim(node, { template: "base" });
    await bench.call(node, "POST", "/v1/sandboxes/sb_1/checkpoint", { body: {} });
    await bench.cleanUp();
    expect(bench.leftovers).toEqual([`releasing sb_1 at ${node.address}: answered 500 {"error":"release failed"}`]);
    expect(calls.at(-1)).toBe("DELETE /v1/checkpoints/ck_1");
  });

  it("waits for a claim that is under way when the run is interrupted, releases it, and calls no more", async () => {
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>();
    const { promise: go, resolve: answerNow } = Promise.withResolvers<void>();
    await using fake = await fakeNode(async (call) => {
      if (call.startsWith("POST /v1/claim")) {
        arrive();
        await go;
      }
      return usual(call);
    });
    const { node, calls } = fake;
    const bench = createBench();
    const claim = bench.claim(node, { template: "base" });
    await arrived;
    const abandoned = bench.abandon();
    await expect(bench.info(node)).rejects.toThrow("the run was interrupted");
    answerNow();
    await Promise.all([claim, abandoned]);
    expect(calls.at(-1)).toBe("POST /v1/sandboxes/sb_1/release");
  });

  it("says what came instead of a claim", async () => {
    await using fake = await fakeNode(() => [200, { redirect: ["10.0.0.2:7777"] }]);
    await expect(createBench().claim(fake.node, { template: "base" })).rejects.toThrow("was not delivered");
  });
});

describe("addresses of nodes", () => {
  it.each([
    ["10.0.0.1:7777", "http://10.0.0.1:7777"],
    ["[::1]:7777", "http://[::1]:7777"],
    ["https://node.example.com", "https://node.example.com"],
    ["http://node:80/", "http://node"],
  ])("%s is %s", (address, origin) => {
    expect(originOf(address).origin).toBe(origin);
  });

  it.each(["", "ftp://a:1", "http://a:1/v1", "http://user@a:1", "a:b:c", "http://a:1?x=y"])("%j is none", (address) => {
    expect(() => originOf(address)).toThrow("is no address of a node");
  });
});
