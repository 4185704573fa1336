import { ScaleError } from "@org/scale";
import { expect, test } from "vitest";
import { DOMAIN, httpGuest, parseAnswer, rawClient, requestHead, startProxy } from "./testing/fixtures.ts";
import { ScriptedStore } from "./testing/scripted-store.ts";

/** A store whose sandboxes all lie in the namespace `ns1`. */
class OneNamespace extends ScriptedStore {
  override getByClaimId(...args: Parameters<ScriptedStore["getByClaimId"]>): ReturnType<ScriptedStore["getByClaimId"]> {
    const [namespace] = args;
    return namespace === "" || namespace === "ns1"
      ? super.getByClaimId(...args)
      : Promise.reject(new ScaleError("not_found", "no such sandbox"));
  }
}

test.each([
  [undefined, 200],
  ["", 200],
  ["ns1", 200],
  ["ns2", 502],
])("a proxy of the namespace %j answers %i for a sandbox of ns1", async (namespace, status) => {
  await using guest = await httpGuest((_request, response) => response.end("from the guest"));
  const store = new OneNamespace();
  store.put("sb_a", { ports: { 3000: guest.port } });
  await using proxy = await startProxy({ store, namespace });
  const head = requestHead("GET /", ["X-Access-Token: token-of-sb_a", "Connection: close"], `3000-sb-a.${DOMAIN}`);
  using client = rawClient(proxy.port, head);
  expect(parseAnswer((await client.ended()).text).status).toBe(status);
});
