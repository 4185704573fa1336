import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { createNodePool } from "@org/sandboxd-client";
import { describe, expect, test } from "vitest";
import { setPoolsOver } from "./node-pools.ts";

/** A node over a real socket that answers as it is told. */
async function node(
  answer: (body: unknown) => { readonly status: number; readonly body: unknown } | undefined,
): Promise<AsyncDisposable & { readonly address: string; readonly seen: unknown[] }> {
  const seen: unknown[] = [];
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body: unknown = JSON.parse(await text(request));
    seen.push({ call: `${request.method} ${request.url}`, authorization: request.headers.authorization, body });
    const reply = answer(body);
    if (reply !== undefined) {
      response.writeHead(reply.status, { "content-type": "application/json" }).end(JSON.stringify(reply.body));
    }
  };
  const server = createServer((request, response) => void serve(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const POOL = { template: "t", net: "none", size: "small", warm: 3 };
const { signal } = new AbortController();

describe("pools of a node", () => {
  test("are put as one set with the token, and what the node has then is told", async () => {
    const { warm: _, ...key } = POOL;
    await using one = await node(() => ({
      status: 200,
      body: { pools: [{ key, warm: 1, refilling: 2, target: 3, golden: true }], claimed: 0 },
    }));
    await using pool = createNodePool();
    const counts = await setPoolsOver({ pool, token: "secret" })?.(one.address, [POOL], { signal });
    expect(counts).toMatchObject([{ key, warm: 1 }]);
    expect(one.seen).toEqual([{ call: "PUT /v1/pools", authorization: "Bearer secret", body: { pools: [POOL] } }]);
  });

  test("that the node refuses are an error with its words and without the token", async () => {
    await using one = await node(() => ({ status: 409, body: { error: "no attachment for egress" } }));
    await using pool = createNodePool();
    const call = setPoolsOver({ pool, token: "secret" })?.(one.address, [POOL], { signal });
    const error: unknown = await call?.catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: "status",
      status: 409,
      message: expect.stringContaining("no attachment for egress"),
    });
    expect(String(error)).not.toContain("secret");
  });

  test("are not waited for once the signal fires", async () => {
    await using one = await node(() => undefined);
    await using pool = createNodePool();
    const life = new AbortController();
    const call = setPoolsOver({ pool, token: "secret" })?.(one.address, [POOL], { signal: life.signal });
    await expect.poll(() => one.seen.length).toBe(1);
    life.abort();
    await expect(call).rejects.toMatchObject({ code: "aborted" });
  });

  test("cannot be set without a token", async () => {
    await using pool = createNodePool();
    expect(setPoolsOver({ pool, token: "" })).toBeUndefined();
  });
});
