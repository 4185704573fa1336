import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";

import { Refusal } from "./errors.ts";
import { createGuestVariables } from "./guest-variables.ts";

/** What a daemon that answers like this leads to. */
async function readFrom(status: number, body: string): Promise<unknown> {
  const daemon = createServer((_req, res) => res.writeHead(status).end(body));
  await new Promise<void>((resolve) => daemon.listen(0, "127.0.0.1", resolve));
  const guest = createGuestVariables((daemon.address() as AddressInfo).port);
  try {
    return await guest.read("token");
  } finally {
    guest.close();
    daemon.closeAllConnections();
    await new Promise((resolve) => daemon.close(resolve));
  }
}

test.each([
  ["texts", 200, '{"A":"1"}', { A: "1" }],
  ["texts among others", 200, '{"A":"1","B":2,"C":null}', { A: "1" }],
  ["a list", 200, "[]", {}],
  ["null", 200, "null", {}],
  ["no JSON", 200, "<html>", {}],
  ["another failure", 500, '{"A":"1"}', {}],
  ["no such route", 404, "", {}],
  ["more than anybody sets", 200, JSON.stringify({ A: "x".repeat(5_000_000) }), {}],
])("%s", async (_name, status, body, variables) => {
  expect(await readFrom(status, body)).toEqual(variables);
});

test.each([401, 403])("a daemon that answers %d has refused the token", async (status) => {
  await expect(readFrom(status, "")).rejects.toThrow(Refusal);
});
