import { createServer } from "node:http";

import { request } from "undici";
import { describe, expect, it } from "vitest";

import { callKind, startRecordingProxy } from "./recording-proxy.ts";

describe("the kind of a call", () => {
  it.each([
    ["GET", "/v1/info", "GET /v1/info"],
    ["GET", "/v1/sandboxes?claim_ref=a", "GET /v1/sandboxes"],
    ["POST", "/v1/sandboxes/sb_0123abcd/hibernate", "POST /v1/sandboxes/{id}/hibernate"],
    ["GET", "/v1/sandboxes/sb_0123abcd/ports/49983", "GET /v1/sandboxes/{id}/ports/{port}"],
    ["DELETE", "/v1/checkpoints/ck_00ff", "DELETE /v1/checkpoints/{id}"],
  ])("of %s %s leaves ids and queries out", (method, target, kind) => {
    expect(callKind(method, target)).toBe(kind);
  });
});

describe("the recording proxy", () => {
  it("passes requests on and counts them by kind", async () => {
    const server = createServer((incoming, answer) => {
      answer.statusCode = incoming.method === "POST" ? 201 : 200;
      incoming.pipe(answer);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const at = server.address();
    const port = typeof at === "object" && at !== null ? at.port : 0;
    await using proxy = await startRecordingProxy(`127.0.0.1:${port}`);
    try {
      const posted = await request(`http://${proxy.address}/v1/claim`, { method: "POST", body: "hello" });
      expect([posted.statusCode, await posted.body.text()]).toEqual([201, "hello"]);
      const got = await request(`http://${proxy.address}/v1/info`);
      await got.body.dump();
      expect(Object.fromEntries(proxy.counts())).toEqual({ "POST /v1/claim": 1, "GET /v1/info": 1 });
      proxy.reset();
      expect(proxy.counts().size).toBe(0);
    } finally {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  });
});
