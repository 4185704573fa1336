import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { callApi, createSandbox } from "../src/api.ts";
import { type HarnessRow, SkipRow } from "../src/harness-rows.ts";
import { waitFor } from "../src/polling.ts";
import type { ManagedProcess, ProcessSet } from "../src/processes.ts";
import { cleanEnv } from "../src/programs.ts";
import type { PythonEnv } from "../src/python-env.ts";
import type { RigFacts } from "../src/rig.ts";

/** How many requests are generated at least. */
const WANTED = 10_000;
/** Requests of each operation in one batch, beside those that schemathesis derives from the schemas. */
const EXAMPLES = 40;
/** Batches at a time: they are processes, and making requests up takes longer than answering them. */
const LANES = 3;
/** How often each operation is called at least. */
const LEAST = 50;
const MAX_BATCHES = 30;
const HOOKS = fileURLToPath(new URL("fuzz", import.meta.url));

/** Operations that cannot succeed when they are called by somebody who only read the document, and why. */
const NEVER: ReadonlyMap<string, string> = new Map([
  ["PUT /sandboxes/{sandboxID}/network", "network rules are refused"],
  ["PUT /templates/{templateID}/files/{hash}", "its address must be signed"],
]);

/** What the rows work with. */
export interface FuzzParts {
  readonly set: ProcessSet;
  readonly env: PythonEnv;
  readonly rig: RigFacts;
  readonly front: ManagedProcess;
  readonly say: (line: string) => void;
}

/** What the hooks counted in one batch: answers by operation and status. */
interface Counted {
  readonly statuses: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** Answers "no warm sandbox is available", by operation. */
  readonly busy: Readonly<Record<string, number>>;
}

type Statuses = Map<string, Map<string, number>>;

interface Tally {
  readonly statuses: Statuses;
  total: number;
  busy: number;
}

function add(tally: Tally, counted: Counted): void {
  for (const [operation, counts] of Object.entries(counted.statuses)) {
    const known = tally.statuses.get(operation) ?? new Map<string, number>();
    tally.statuses.set(operation, known);
    for (const [status, count] of Object.entries(counts)) {
      known.set(status, (known.get(status) ?? 0) + count);
      tally.total += count;
    }
  }
  tally.busy += Object.values(counted.busy).reduce((sum, count) => sum + count, 0);
}

/** One line per operation; what the document does not describe is one line together. */
function table({ statuses }: Tally): string {
  const lines: string[] = [];
  const undescribed = new Map<string, number>();
  for (const [operation, counts] of [...statuses].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (operation.endsWith("(not described)")) {
      counts.forEach((count, status) => undescribed.set(status, (undescribed.get(status) ?? 0) + count));
    } else {
      lines.push(line(operation, counts));
    }
  }
  return [...lines, line("other methods", undescribed)].join("\n");
}

function line(what: string, counts: ReadonlyMap<string, number>): string {
  const sum = [...counts.values()].reduce((all, count) => all + count, 0);
  const parts = [...counts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([status, count]) => `${status}×${count}`);
  return `  ${what.padEnd(58)} ${String(sum).padStart(6)}  ${parts.join(" ")}`;
}

/** What of its output tells why schemathesis is not content. */
function complaint(output: string): string {
  const from = output.search(/^=+ (?:ERRORS|FAILURES) =+$/m);
  return output.slice(from === -1 ? -3000 : from).slice(0, 6000);
}

/** A template that is there to be shown, tagged and changed. */
async function buildTemplate(rig: RigFacts, key: string): Promise<string> {
  const asked = await callApi(rig, "POST", "/v3/templates", { key, body: { name: "fuzzed" } });
  assert.equal(asked.status, 202, asked.text);
  const { templateID, buildID } = JSON.parse(asked.text) as { templateID: string; buildID: string };
  const path = `/templates/${templateID}/builds/${buildID}`;
  const started = await callApi(rig, "POST", `/v2${path}`, { key, body: { fromImage: "base", steps: [] } });
  assert.equal(started.status, 202, started.text);
  await waitFor(
    "the built template",
    async () => {
      const { text } = await callApi(rig, "GET", `${path}/status`, { key });
      const { status } = JSON.parse(text) as { status: string };
      assert.notEqual(status, "error", text);
      return status === "ready";
    },
    120_000,
    500,
  );
  return templateID;
}

/** The rows. The second and third look at what the first did. */
export function fuzzRows({ set, env, rig, front, say }: FuzzParts): readonly HarnessRow[] {
  const key = rig.keys.fuzzed;
  const tally: Tally = { statuses: new Map(), total: 0, busy: 0 };

  const batch = async (python: string, seed: number, template: string, folder: string): Promise<void> => {
    const report = join(folder, `report-${seed}.json`);
    const child = await set.start({
      name: `schemathesis ${seed}`,
      command: python,
      args: [
        "-m",
        "schemathesis.cli",
        `--config-file=${join(HOOKS, "schemathesis.toml")}`,
        "run",
        `${rig.apiUrl}/openapi.json`,
        `--header=X-API-Key: ${key}`,
        // What schemas make of themselves is the same each time.
        `--phases=${seed === 1 ? "coverage,fuzzing,stateful" : "fuzzing,stateful"}`,
        "--checks=all",
        `--max-examples=${EXAMPLES}`,
        `--seed=${seed}`,
        "--continue-on-failure",
        "--no-shrink",
        "--suppress-health-check=all",
        "--no-color",
      ],
      env: cleanEnv({
        PYTHONPATH: HOOKS,
        SCHEMATHESIS_HOOKS: "hooks",
        FUZZ_API_URL: rig.apiUrl,
        FUZZ_API_KEY: key,
        FUZZ_REPORT: report,
        FUZZ_SEED: String(seed),
        FUZZ_IMAGE: "base",
        FUZZ_BUILT: template,
      }),
      cwd: folder,
    });
    const { code } = await child.ended;
    add(tally, JSON.parse(await readFile(report, "utf8")) as Counted);
    say(`schemathesis with seed ${seed} ended with ${code}: ${tally.total} requests so far`);
    if (code !== 0) {
      say(complaint(child.stdout()));
    }
    assert.ok(front.running(), `the service ended\n${front.tail()}`);
    assert.equal(code, 0, `schemathesis with seed ${seed} is not content, see above`);
  };

  return [
    {
      id: "FZ1",
      title: `${WANTED} generated requests: every check of schemathesis holds, no 5xx, errors have code and message`,
      run: async () => {
        if (env.kind === "absent") {
          throw new SkipRow(env.reason);
        }
        const template = await buildTemplate(rig, key);
        const folder = await mkdtemp(join(tmpdir(), "conformance-fuzz-"));
        try {
          let seed = 0;
          const lane = async (): Promise<void> => {
            while (tally.total < WANTED) {
              seed += 1;
              assert.ok(seed <= MAX_BATCHES, `only ${tally.total} requests in ${MAX_BATCHES} batches`);
              await batch(env.python, seed, template, folder);
            }
          };
          const ends = await Promise.allSettled(Array.from({ length: LANES }, lane));
          const failures = ends.flatMap((end) => (end.status === "rejected" ? [end.reason as Error] : []));
          if (failures.length > 0) {
            throw new Error(failures.map(({ message }) => message).join("\n"));
          }
        } finally {
          await rm(folder, { recursive: true, force: true });
          say(`${tally.total} requests, of which ${tally.busy} met a fleet with nothing warm (503)\n${table(tally)}`);
        }
      },
    },
    {
      id: "FZ2",
      title: `every operation of the document was called at least ${LEAST} times, and succeeded`,
      run: async () => {
        if (tally.total === 0) {
          throw new SkipRow("nothing was generated: FZ1 comes first");
        }
        const { text } = await callApi(rig, "GET", "/openapi.json", { key: null });
        const { paths } = JSON.parse(text) as { paths: Record<string, Record<string, unknown>> };
        // It leaves out the address that it has the document from.
        delete paths["/openapi.json"];
        const operations = Object.entries(paths).flatMap(([path, item]) =>
          Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
        );
        const lacking = operations.filter((operation) => {
          const counts = tally.statuses.get(operation) ?? new Map<string, number>();
          const sum = [...counts.values()].reduce((all, count) => all + count, 0);
          const succeeded = [...counts.keys()].some((status) => status.startsWith("2"));
          return sum < LEAST || (!succeeded && !NEVER.has(operation));
        });
        assert.deepEqual(lacking, []);
      },
    },
    {
      id: "FZ3",
      title: "afterwards the service makes sandboxes as before, and nothing is left of the run",
      run: async () => {
        await waitFor(
          "the namespace without sandboxes",
          async () => (await callApi(rig, "GET", "/sandboxes", { key })).text === "[]",
          120_000,
          500,
        );
        const { sandboxID } = await createSandbox(rig, {}, key);
        assert.equal((await callApi(rig, "DELETE", `/sandboxes/${sandboxID}`, { key })).status, 204);
      },
    },
  ];
}
