import { expect, test } from "vitest";
import { RequestMetrics } from "./request-metrics.ts";
import { requestInfo } from "./request-info.ts";
import { apiFixture, sandboxNamed, SANDBOXES } from "./testing/api-fixture.ts";

const counted = (text: string, name: string): readonly string[] =>
  text.split("\n").filter((line) => line.startsWith(`${name}{`));

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

test("durations fall into cumulative buckets, those of watches into none", () => {
  const metrics = new RequestMetrics({ reads: 0, writes: 0 });
  const { attributes } = requestInfo("GET", "/version");
  for (const durationMs of [0, 1, 30, 61_000]) {
    metrics.count({ attributes, status: 200, durationMs });
  }
  metrics.count({ attributes: requestInfo("GET", `${SANDBOXES}?watch=1`).attributes, status: 200, durationMs: 1 });
  const text = metrics.text();
  const buckets = counted(text, "apiserver_request_duration_seconds_bucket");
  expect(buckets).toHaveLength(17);
  const cumulative = buckets.map((line) => Number(line.split(" ").at(-1)));
  expect(cumulative).toEqual([2, 2, 2, ...Array<number>(13).fill(3), 4]);
  expect(counted(text, "apiserver_request_duration_seconds_count")).toEqual([expect.stringMatching(/ 4$/)]);
  expect(counted(text, "apiserver_request_duration_seconds_sum")).toEqual([expect.stringMatching(/ 61\.031$/)]);
});

test("clients cannot make labels", () => {
  const metrics = new RequestMetrics({ reads: 0, writes: 0 });
  for (let at = 0; at < 50; at += 1) {
    const { attributes } = requestInfo(`M${at}`, `/apis/g${at}/v1/namespaces/n${at}/r${at}/x/"s${at}`);
    metrics.count({ attributes, status: 404, durationMs: 1 });
    metrics.count({ attributes: requestInfo("GET", `/p${at}`).attributes, status: 404, durationMs: 1 });
  }
  metrics.count({ attributes: undefined, status: 400, durationMs: 1 });
  expect(counted(metrics.text(), "apiserver_request_total")).toHaveLength(3);
});
