import { Registry } from "prom-client";
import { describe, expect, it } from "vitest";
import { createFleet } from "./testing/fleet.ts";

/** Value of one series in what a scrape shows. */
async function shown(registry: Registry, series: string): Promise<number | undefined> {
  const line = (await registry.metrics()).split("\n").find((text) => text.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length));
}

describe("the metrics of a server", () => {
  it("have these names", () => {
    const registry = new Registry();
    createFleet({ registry });
    expect(registry.getMetricsAsArray().map(({ name }) => name)).toStrictEqual([
      "e2bcompat_requests_total",
      "e2bcompat_requests_running",
      "e2bcompat_request_seconds",
    ]);
  });

  it("count every request by its route and status, refused, unknown and failed ones too", async () => {
    const registry = new Registry();
    const fleet = createFleet({ registry });
    const created = await fleet.send("POST", "/v2/sandboxes", { templateID: "base" });
    expect(created.status).toBe(201);
    await fleet.send("GET", `/sandboxes/${created.body.sandboxID}`);
    await fleet.send("GET", "/sandboxes/nobody");
    await fleet.send("GET", "/v2/sandboxes", undefined, { key: "e2b_wrong" });
    await fleet.send("GET", "/nowhere/at/all");
    await fleet.send("PUT", "/v2/sandboxes");
    const counts = [
      ['method="POST",route="/v2/sandboxes",status="201"', 1],
      ['method="GET",route="/sandboxes/{sandboxID}",status="200"', 1],
      ['method="GET",route="/sandboxes/{sandboxID}",status="404"', 1],
      ['method="GET",route="/v2/sandboxes",status="401"', 1],
      ['method="GET",route="*",status="404"', 1],
      ['method="PUT",route="/v2/sandboxes",status="405"', 1],
    ] as const;
    for (const [labels, count] of counts) {
      expect(await shown(registry, `e2bcompat_requests_total{${labels}}`), labels).toBe(count);
    }
    const seconds = 'e2bcompat_request_seconds_count{method="GET",route="/sandboxes/{sandboxID}"}';
    expect(await shown(registry, seconds)).toBe(2);
    expect(await shown(registry, "e2bcompat_requests_running")).toBe(0);
    expect(await registry.metrics()).not.toContain(created.body.sandboxID);
  });

  it("are those of one server", () => {
    const registry = new Registry();
    createFleet({ registry });
    expect(() => createFleet({ registry })).toThrow(/already been registered/);
  });
});
