import { expect, test } from "vitest";
import type { ApiCall } from "./api-call.ts";
import { createRequestMetrics } from "./request-metrics.ts";
import type { RequestMetrics } from "./request-metrics.ts";
import { requestInfo } from "./request-info.ts";
import { apiFixture, sandboxNamed, SANDBOXES } from "./testing/api-fixture.ts";

const counted = (text: string, name: string): readonly string[] =>
  text.split("\n").filter((line) => line.startsWith(`${name}{`));

async function scraped(metrics: RequestMetrics): Promise<string> {
  // The handler looks at nothing of the call.
  const answer = await metrics.handler({} as ApiCall);
  return answer.text();
}

test("requests are counted by verb, subresource and status, and scraped as text", async () => {
  await using fixture = await apiFixture();
  await fixture.call("POST", SANDBOXES, { body: sandboxNamed("box") });
  await fixture.call("POST", `${SANDBOXES}/box/pause`, { body: {} });
  await fixture.call("GET", `${SANDBOXES}/none`);
  await fixture.call("GET", "/nothing");
  const answer = await fixture.call("GET", "/metrics");
  expect(answer.status).toBe(200);
  expect(answer.headers["content-type"]).toBe("text/plain; version=0.0.4; charset=utf-8");
  const where = 'group="agents.x-k8s.io",version="v1beta1",resource="sandboxes"';
  expect(counted(answer.text, "apiserver_request_total")).toEqual([
    `apiserver_request_total{verb="create",${where},subresource="",code="201"} 1`,
    `apiserver_request_total{verb="create",${where},subresource="pause",code="201"} 1`,
    `apiserver_request_total{verb="get",${where},subresource="",code="404"} 1`,
    'apiserver_request_total{verb="get",group="",version="",resource="",subresource="",code="404"} 1',
  ]);
  expect(answer.text).toContain('apiserver_current_inflight_requests{request_kind="readOnly"} 1\n');
  expect(answer.text).toContain('apiserver_current_inflight_requests{request_kind="mutating"} 0\n');
});

test("durations fall into buckets, those of watches into none", async () => {
  const metrics = createRequestMetrics({ reads: 0, writes: 0 });
  const { attributes } = requestInfo("GET", "/version");
  for (const durationMs of [0, 1, 30, 61_000]) {
    metrics.count({ attributes, status: 200, durationMs });
  }
  metrics.count({ attributes: requestInfo("GET", `${SANDBOXES}?watch=1`).attributes, status: 200, durationMs: 1 });
  const text = await scraped(metrics);
  expect(counted(text, "apiserver_request_duration_seconds_count")).toEqual([expect.stringMatching(/ 4$/)]);
  expect(counted(text, "apiserver_request_duration_seconds_sum")).toEqual([expect.stringMatching(/ 61\.031$/)]);
  expect(text).toMatch(/_bucket\{le="0\.001",verb="get".*\} 2\n/);
  expect(text).toMatch(/_bucket\{le="60",verb="get".*\} 3\n/);
});

test("clients cannot make labels", async () => {
  const metrics = createRequestMetrics({ reads: 0, writes: 0 });
  for (let at = 0; at < 50; at += 1) {
    const { attributes } = requestInfo(`M${at}`, `/apis/g${at}/v1/namespaces/n${at}/r${at}/x/"s${at}`);
    metrics.count({ attributes, status: 404, durationMs: 1 });
    metrics.count({ attributes: requestInfo("GET", `/p${at}`).attributes, status: 404, durationMs: 1 });
  }
  metrics.count({ attributes: undefined, status: 400, durationMs: 1 });
  expect(counted(await scraped(metrics), "apiserver_request_total")).toHaveLength(3);
});
