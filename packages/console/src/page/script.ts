/** What runs in the page: asks for the data every two seconds while somebody looks, and fills the frame. */
export const SCRIPT = `
"use strict";
const STEP_SECONDS = 5;
const KEPT = 120;
const at = (id) => document.getElementById(id);
const make = (name, text, attributes = {}) => {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(key, value);
  return element;
};
const count = new Intl.NumberFormat("en").format;
const span = (ms) => {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 90) return s + " s";
  if (s < 5400) return Math.round(s / 60) + " min";
  return s < 172800 ? Math.round(s / 3600) + " h" : Math.round(s / 86400) + " d";
};
const sum = (rows, key) => rows.reduce((total, row) => total + row[key], 0);
const last = (rows) => rows[rows.length - 1];

function tiles(data) {
  const recent = (data.history ?? []).slice(-12);
  const creates = sum(recent, "creates"), requests = sum(recent, "requests"), errors = sum(recent, "errors");
  const slow = recent.filter((point) => point.createP95 !== undefined).map((point) => point.createP95);
  const fast = recent.filter((point) => point.createP50 !== undefined).map((point) => point.createP50);
  const ms = (list) => (list.length === 0 ? "–" : "≤ " + count(Math.round(Math.max(...list) * 10000) / 10) + " ms");
  const values = [
    ["Nodes", count(data.nodes.length), data.nodes.length === 0],
    ["Sandboxes running", count(sum(data.nodes, "running"))],
    ["Paused", count(sum(data.nodes, "paused"))],
    ["Warm of wanted", count(sum(data.nodes, "warm")) + " / " + count(sum(data.nodes, "target"))],
  ];
  if (data.history) values.push(
    ["Creates, last minute", count(creates)],
    ["Half of them within", ms(fast)],
    ["95 of 100 within", ms(slow)],
    ["Errors, last minute", requests === 0 ? "–" : (Math.round((1000 * errors) / requests) / 10) + " %", errors > 0],
  );
  at("tiles").replaceChildren(...values.map(([name, value, bad]) => {
    const tile = make("div");
    tile.append(make("dt", name), make("dd", value, bad ? { class: "bad" } : {}));
    return tile;
  }));
}

function chart(id, points, lines, unit) {
  const svg = at(id);
  const all = lines.flatMap(({ value }) => points.map(value)).filter((y) => y !== undefined);
  const top = Math.max(...all, 0) || 1;
  const x = (index) => (600 * (KEPT - points.length + index)) / (KEPT - 1);
  const y = (value) => 155 - (150 * value) / top;
  const grid = [0, 0.5, 1].map((part) => {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    for (const [key, value] of Object.entries({ x1: 0, x2: 600, y1: y(part * top), y2: y(part * top) })) line.setAttribute(key, value);
    return line;
  });
  const paths = lines.map(({ name, value }) => {
    let d = "", open = false;
    points.forEach((point, index) => {
      const v = value(point);
      if (v === undefined) { open = false; return; }
      d += (open ? "L" : "M") + x(index).toFixed(1) + " " + y(v).toFixed(1);
      if (!open && (index + 1 === points.length || value(points[index + 1]) === undefined)) d += "h1";
      open = true;
    });
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("class", name);
    path.setAttribute("d", d || "M0 155");
    return path;
  });
  svg.replaceChildren(...grid, ...paths);
  const text = all.length === 0 ? "Nothing yet." : "Highest: " + count(Math.round(top * 10) / 10) + " " + unit + ".";
  svg.setAttribute("aria-label", text);
  at(id + "-text").textContent = text;
}

function table(id, columns, rows, empty) {
  const head = make("thead"), line = make("tr"), body = make("tbody");
  for (const { name, number } of columns) line.append(make("th", name, { scope: "col", class: number ? "number" : undefined }));
  head.append(line);
  for (const row of rows) {
    const tr = make("tr");
    for (const { name, number, mono, phase, value } of columns) {
      const td = make("td", undefined, { class: number ? "number" : mono ? "name" : undefined, "data-label": name });
      td.append(make("span", value(row), phase ? { class: "phase " + row.phase } : {}));
      tr.append(td);
    }
    body.append(tr);
  }
  if (rows.length === 0) {
    const tr = make("tr");
    tr.append(make("td", empty, { class: "empty", colspan: columns.length }));
    body.append(tr);
  }
  at(id).replaceChildren(head, body);
}

let shown;
function sandboxes() {
  const words = at("filter").value.toLowerCase().split(/\\s+/).filter((word) => word !== "");
  const rows = shown.sandboxes.filter((row) => {
    const text = [row.id, row.namespace, row.template, row.node, row.phase].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
  table("sandbox-table", [
    { name: "Sandbox", mono: true, value: (row) => row.id },
    { name: "State", phase: true, value: (row) => (row.phase === "Hibernated" ? "Paused" : row.phase) },
    { name: "Template", value: (row) => row.template },
    { name: "Namespace", value: (row) => row.namespace },
    { name: "Node", mono: true, value: (row) => row.node },
    { name: "Age", number: true, value: (row) => (row.startedAt ? span(shown.atMs - Date.parse(row.startedAt)) : "–") },
    { name: "Ends in", number: true, value: (row) => (row.endsAt ? span(Date.parse(row.endsAt) - shown.atMs) : "–") },
  ], rows, words.length > 0 ? "None of the newest sandboxes fits the filter." : "No sandbox is running. Create one with an E2B SDK.");
}

function show(data) {
  shown = data;
  tiles(data);
  at("history").hidden = !data.history;
  if (data.history) {
    chart("latency", data.history, [
      { name: "one", value: (point) => point.createP50 && point.createP50 * 1000 },
      { name: "two", value: (point) => point.createP95 && point.createP95 * 1000 },
    ], "ms");
    chart("requests", data.history, [
      { name: "one", value: (point) => point.requests / STEP_SECONDS },
      { name: "bad", value: (point) => point.errors / STEP_SECONDS },
    ], "a second");
  }
  const counts = [["Running", "running"], ["Paused", "paused"], ["Warm", "warm"], ["Wanted", "target"]];
  table("node-table", [
    { name: "Node", mono: true, value: (row) => row.node },
    ...counts.map(([name, key]) => ({ name, number: true, value: (row) => count(row[key]) })),
  ], data.nodes, "No node answers. Run sandbox-e2b doctor to see why.");
  table("pool-table", [
    { name: "Template", value: (row) => row.template },
    { name: "Network", value: (row) => row.net },
    { name: "Size", value: (row) => row.size },
    { name: "Warm", number: true, value: (row) => count(row.warm) },
    { name: "Wanted", number: true, value: (row) => count(row.target) },
    { name: "Nodes", number: true, value: (row) => count(row.nodes) },
  ], data.pools, "No node keeps a pool.");
  sandboxes();
}

let timer;
async function look() {
  clearTimeout(timer);
  const state = at("state");
  try {
    const answer = await fetch("/data", { signal: AbortSignal.timeout(10000) });
    if (answer.status === 401) { location.reload(); return; }
    if (!answer.ok) throw new Error("status " + answer.status);
    show(await answer.json());
    state.className = "";
    if (state.dataset.live !== "yes") { state.textContent = "Live"; state.dataset.live = "yes"; }
  } catch (error) {
    state.className = "lost";
    if (state.dataset.live !== "no") { state.textContent = "No answer. Trying again."; state.dataset.live = "no"; }
  }
  // Nobody looks at a hidden page: it asks again when it is shown.
  if (!document.hidden) timer = setTimeout(look, 2000);
}
document.addEventListener("visibilitychange", () => { if (!document.hidden) void look(); });
at("filter").addEventListener("input", () => shown && sandboxes());
void look();
`;
