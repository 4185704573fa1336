import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";

let charts: ReadonlyMap<string, unknown>;

beforeAll(async () => {
  const script = fileURLToPath(new URL("testing/drawn_figures.py", import.meta.url));
  const { stdout } = await promisify(execFile)("python3", ["-B", script]);
  charts = new Map(
    stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as [string, unknown]),
  );
});

test.each<[string, unknown]>([
  [
    "line",
    {
      type: "line",
      title: "T",
      elements: [
        {
          label: "a",
          points: [
            [1, 3.5],
            [2, 4],
          ],
        },
      ],
      x_label: "Time (s)",
      x_unit: "s",
      x_ticks: [0, 1],
      x_tick_labels: ["0", "1"],
      x_scale: "linear",
      y_label: null,
      y_unit: null,
      y_ticks: [0, 1],
      y_tick_labels: ["0", "1"],
      y_scale: "linear",
    },
  ],
  [
    "not finite",
    {
      elements: [
        {
          label: "",
          points: [
            [1, null],
            [null, 2],
          ],
        },
      ],
    },
  ],
  ["scale", { x_scale: "unknown" }],
  [
    "scatter",
    {
      type: "scatter",
      elements: [
        {
          label: "s",
          points: [
            [1, 2],
            [3, 4],
          ],
        },
      ],
    },
  ],
  [
    "bar",
    {
      type: "bar",
      elements: [
        { label: "p", group: "g", value: 3 },
        { label: "q", group: "g", value: 4 },
      ],
    },
  ],
  ["pie", { type: "pie", title: "", elements: [{ label: "w", angle: 90, radius: 1 }] }],
  [
    "boxes",
    {
      type: "box_and_whisker",
      elements: [
        { label: "m", min: 1, first_quartile: 2, median: 3, third_quartile: 4, max: 4, outliers: [30] },
        { label: "n", min: 1, first_quartile: 2, median: 4, third_quartile: 6, max: 7, outliers: [] },
      ],
    },
  ],
  [
    "boxes that lie",
    {
      type: "box_and_whisker",
      elements: [{ label: "m", min: 1, first_quartile: 2, median: 3, third_quartile: 4, max: 5, outliers: [] }],
    },
  ],
  ["a square", { type: "line" }],
  ["unknown", { type: "unknown", title: "", elements: [] }],
  ["several", { type: "superchart", title: "All", elements: [{ type: "line" }, { type: "unknown" }] }],
])("the chart of %s has the data that was drawn", (name, chart) => {
  expect(charts.get(name)).toMatchObject(chart as object);
});

test("a figure without axes has no chart", () => {
  expect(charts.get("none")).toBeNull();
});
