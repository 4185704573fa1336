import { expect, test } from "vitest";
import { banner } from "./banner.ts";

const facts = {
  variables: { E2B_API_URL: "http://127.0.0.1:3627", E2B_API_KEY: "e2b_00" },
  nodes: 2,
  isolation: "bubblewrap",
  templates: ["base", "ubuntu"],
  stateDir: "/state",
  envFile: "",
  caFile: undefined,
  consolePage: undefined,
  notes: [],
};

test("the greeting has the environment, a first script in two languages, and where the state is", () => {
  const text = banner(facts);
  for (const part of [
    "2 nodes, isolation bubblewrap, templates base, ubuntu",
    "export E2B_API_URL='http://127.0.0.1:3627'",
    'import { Sandbox } from "e2b";',
    "from e2b import Sandbox",
    "/state",
  ]) {
    expect(text).toContain(part);
  }
  expect(text).not.toContain("Environment file");
});

test("what is meant to be copied starts at the margin", () => {
  const lines = banner(facts).split("\n");
  for (const line of lines) expect(line).toBe(line.trimStart());
  expect(lines).toContain("sandbox = Sandbox.create()");
});

test("the greeting names the environment file and what differs from what was expected", () => {
  const text = banner({ ...facts, nodes: 1, envFile: "/x/.env", notes: ["port 1 is taken"] });
  expect(text).toContain("1 node,");
  expect(text).toContain("Environment file: /x/.env");
  expect(text).toContain("Note: port 1 is taken");
  expect(text).not.toContain("Certificate authority");
  expect(banner({ ...facts, caFile: "/state/ca.pem" })).toContain("Certificate authority: /state/ca.pem");
});
