import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { createNodePool } from "@org/sandboxd-client";
import { MeshInventory } from "./index.ts";
import { row } from "./testing/fake-mesh.ts";
import { currentLife } from "./testing/mesh-fixture.ts";

describe("over real connections", () => {
  /** A node that answers nothing when its handler says nothing. */
  async function node(handler: (path: string | undefined, own: string) => [number, string] | undefined) {
    const seen: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      seen.push(`${request.url} ${request.headers.authorization}`);
      const answer = handler(request.url, address);
      if (answer !== undefined) {
        response.writeHead(answer[0], { "content-type": "application/json" }).end(answer[1]);
      }
    });
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    return {
      seen,
      address,
      connections: () =>
        new Promise<number>((resolve, reject) => {
          server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)));
        }),
      async [Symbol.asyncDispose]() {
        const closed = new Promise((resolve) => server.close(resolve));
        server.closeAllConnections();
        await closed;
      },
    };
  }

  it("polls with the token and lists what the node says", async () => {
    let address = "";
    await using server = await node((path) => [
      200,
      JSON.stringify(path === "/v1/info" ? { advertise_addr: address } : { sandboxes: [row("sb_1", "ns/s1")] }),
    ]);
    ({ address } = server);
    await using nodes = createNodePool();
    const { signal } = currentLife();
    const inventory = await MeshInventory.start({ seeds: [address], pool: nodes, token: "root", signal });
    expect(inventory.nodeInventory(address)).toMatchObject({ node: address, address, entries: [{ id: "sb_1" }] });
    expect(server.seen).toEqual(["/v1/info Bearer root", "/v1/sandboxes Bearer root"]);
  });

  it("M14: 24 nodes that take connections and never answer leave those of 12 healthy ones alone, and do not pile up", async () => {
    const open: AsyncDisposable[] = [];
    try {
      await using nodes = createNodePool();
      const hung = await Promise.all(Array.from({ length: 24 }, () => node(() => undefined)));
      open.push(...hung);
      const healthy = await Promise.all(
        Array.from({ length: 12 }, () =>
          node((path, own) => [
            200,
            JSON.stringify(path === "/v1/info" ? { advertise_addr: own } : { sandboxes: [row("sb_1", "ns/s1")] }),
          ]),
        ),
      );
      open.push(...healthy);
      const seeds = [...hung, ...healthy].map((one) => one.address);
      const inventory = await MeshInventory.start({
        seeds,
        pool: nodes,
        pollIntervalMs: 500,
        maxStaleTicks: 100,
        signal: currentLife().signal,
      });
      expect(inventory.listNodes()).toEqual(healthy.map((one) => one.address).sort());
      await expect.poll(() => hung.every((one) => one.seen.length > 3), { timeout: 20_000 }).toBe(true);
      expect(inventory.members().every(({ fails, node: key }) => (key === undefined ? fails > 1 : fails === 0))).toBe(
        true,
      );
      for (const one of hung) {
        expect(await one.connections()).toBeLessThan(3);
      }
      for (const one of healthy) {
        expect(await one.connections()).toBe(1);
      }
      currentLife().abort();
      await inventory.stopped;
    } finally {
      await Promise.all(open.map((one) => one[Symbol.asyncDispose]()));
    }
  });

  it("lists a node under the origin that it advertises, with its scheme", async () => {
    await using server = await node((path) => [
      200,
      JSON.stringify(path === "/v1/info" ? { advertise_addr: "https://sb.example.com" } : { sandboxes: null }),
    ]);
    await using nodes = createNodePool();
    const { signal } = currentLife();
    const inventory = await MeshInventory.start({ seeds: [server.address], pool: nodes, signal });
    expect(inventory.listNodes()).toEqual(["https://sb.example.com"]);
    expect(inventory.nodeCapacity("https://sb.example.com")?.address).toBe("https://sb.example.com");
  });

  it.each([[401], [403]])("names a seed that refuses the token with %i, and not the token", async (status) => {
    await using server = await node(() => [status, '{"error":"operator token required"}']);
    await using nodes = createNodePool();
    const { signal } = currentLife();
    const error: unknown = await MeshInventory.start({
      seeds: [server.address],
      pool: nodes,
      token: "root-secret",
      signal,
    }).catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      code: "unauthorized",
      message:
        `meshinventory: seed ${server.address} refused the token; GET /v1/info needs the fleet root api_token: ` +
        `GET /v1/info at ${server.address}: ${status} operator token required`,
    });
    expect(String(error)).not.toContain("secret");
  });

  it("reports seeds that cannot be reached or are no address", async () => {
    await using nodes = createNodePool();
    const { signal } = currentLife();
    for (const seed of ["127.0.0.1:1", " b:1", ""]) {
      await expect(MeshInventory.start({ seeds: [seed], pool: nodes, signal })).rejects.toMatchObject({
        code: seed === "127.0.0.1:1" ? "no-seed-answered" : "bad-seed",
        seed,
      });
    }
  });
});
