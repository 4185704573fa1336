// Runs rows with one JavaScript SDK and prints one JSON line per row. The job comes in CONFORMANCE_JOB.
import { writeSync } from "node:fs";

import { admissionRows } from "./js/admission-rows.ts";
import { aliasRows } from "./js/alias-rows.ts";
import { buildRows } from "./js/build-rows.ts";
import { baseRows, reconnect } from "./js/base-rows.ts";
import { commandRows } from "./js/command-rows.ts";
import { Absent, type ClientJob, type Row, RowContext, type Sdk } from "./js/context.ts";
import { copyRows } from "./js/copy-rows.ts";
import { dataRows } from "./js/data-rows.ts";
import { fileRows } from "./js/file-rows.ts";
import { interpreterRows } from "./js/interpreter-rows.ts";
import { pagingRows } from "./js/paging-rows.ts";
import { ptyRows } from "./js/pty-rows.ts";
import { surfaceRows } from "./js/surface-rows.ts";
import { trafficRows } from "./js/traffic-rows.ts";

const ROWS: Readonly<Record<string, Row>> = {
  ...baseRows,
  ...pagingRows,
  ...aliasRows,
  ...commandRows,
  ...fileRows,
  ...ptyRows,
  ...surfaceRows,
  ...copyRows,
  ...admissionRows,
  ...trafficRows,
  ...buildRows,
  ...interpreterRows,
  ...dataRows,
};

const ROW_LIMIT_MS = 60_000;

const job = JSON.parse(process.env["CONFORMANCE_JOB"] ?? "null") as ClientJob & { reconnect?: string };
const sdk = (await import(job.module)) as Sdk;
const context = new RowContext(sdk, job);

const say = (value: unknown): void => void writeSync(1, `${JSON.stringify(value)}\n`);

const describe = (error: unknown): string => {
  if (!(error instanceof Error)) {
    return String(error);
  }
  const place = error.stack?.split("\n").find((line) => line.includes("-rows.ts:"));
  return (
    `${error.name}: ${error.message}`.slice(0, 500) +
    (place === undefined ? "" : ` (${place.trim().replace(/.*\//, "").replace(/\)$/, "")})`)
  );
};

const runRow = async (id: string): Promise<void> => {
  const begun = performance.now();
  let detail = "";
  let failed: "fail" | "skip" = "fail";
  let timer: NodeJS.Timeout | undefined;
  try {
    const row = ROWS[id];
    if (row === undefined) {
      throw new Error(`this client has no row ${id}`);
    }
    const limit = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => reject(new Error(`no end within ${ROW_LIMIT_MS} ms`)), ROW_LIMIT_MS);
    });
    await Promise.race([row(context), limit]);
  } catch (error) {
    detail = describe(error) || "failed";
    failed = error instanceof Absent ? "skip" : "fail";
  } finally {
    clearTimeout(timer);
  }
  say({ row: id, status: detail === "" ? "pass" : failed, detail, ms: Math.round(performance.now() - begun) });
};

// A row may leave a stream of the SDK behind that breaks later; that must not end the rows after it.
process.on("unhandledRejection", (error) => process.stderr.write(`left behind: ${describe(error)}\n`));

if (job.reconnect !== undefined) {
  say(await reconnect(context, job.reconnect));
} else {
  for (const id of job.rows) {
    await runRow(id);
  }
  await context.cleanUp();
}
// Connections that the SDK keeps open would hold the process for minutes.
process.exit(0);
