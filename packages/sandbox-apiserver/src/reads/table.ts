import { humanDuration } from "./human-duration.ts";
import type { SandboxBody } from "./sandbox-resource.ts";

const PREFIX = "sandbox.cocoonstack.io/";

interface ColumnDefinition {
  readonly name: string;
  readonly type: "string";
  readonly format: "" | "name" | "date-time";
  readonly description: string;
  /** 0 is shown always, 1 with `-o wide`. */
  readonly priority: 0 | 1;
}

/** What rows are made of. */
export type RowSource = Pick<SandboxBody, "metadata" | "status">;

/** A column and what a sandbox has in it. */
interface Column extends ColumnDefinition {
  readonly cell: (source: RowSource, nowMs: number) => string;
}

function column(
  name: string,
  description: string,
  cell: Column["cell"],
  more: Partial<Pick<Column, "format" | "priority">> = {},
): Column {
  return { name, type: "string", format: "", description, priority: 0, ...more, cell };
}

const COLUMNS: readonly Column[] = [
  column("Name", "Name of the sandbox in its namespace.", ({ metadata }) => metadata.name, { format: "name" }),
  column("Ready", "Whether the sandbox runs.", ({ status }) => status.conditions[0]?.status ?? ""),
  column("Reason", "Phase that its node reports.", ({ status }) => status.conditions[0]?.reason ?? ""),
  column("Age", "Time since it was claimed.", ({ metadata }, nowMs) => ageOf(metadata.creationTimestamp, nowMs)),
  column("Node", "Node that holds the sandbox.", ({ status }) => status.nodeName, { priority: 1 }),
  column("Template", "Template that it was made from.", ({ metadata }) => metadata.labels[`${PREFIX}template`] ?? "", {
    priority: 1,
  }),
  column("Claim", "The node's own id of it.", ({ metadata }) => metadata.annotations?.[`${PREFIX}claim-id`] ?? "", {
    priority: 1,
  }),
  column("Deadline", "When its lease ends.", ({ metadata }) => metadata.annotations?.[`${PREFIX}deadline`] ?? "", {
    format: "date-time",
    priority: 1,
  }),
];

/** The columns of a Table of sandboxes. Kube specification §2.7. */
export const COLUMN_DEFINITIONS: readonly ColumnDefinition[] = COLUMNS.map(
  ({ cell: _cell, ...definition }) => definition,
);

/** The cells of one sandbox. */
export function cellsOf(source: RowSource, nowMs: number): readonly string[] {
  return COLUMNS.map(({ cell }) => cell(source, nowMs));
}

/** The cells of an object that has nothing to show. */
export const EMPTY_CELLS: readonly string[] = COLUMNS.map(() => "");

function ageOf(created: string | undefined, nowMs: number): string {
  return created === undefined ? "<unknown>" : humanDuration(nowMs - Date.parse(created));
}
