import type { ListedRow } from "../../packages/conformance/src/harness-catalogue.ts";
import { choicesOf, operationsOf } from "./document.ts";
import { E2B_OPTIONS, type OptionCase, type OptionGroup, SIGNED_OPERATIONS } from "./e2b-options.ts";
import { type AskedFleet, messageOf } from "./fleet.ts";
import { table } from "./table.ts";

/**
 * What the service does with each option, one table for each kind of request. Every case is sent. Throws when the answer
 * is not what the case says, when a refused create claims something, when the service's document has an option that no
 * case is about or lacks one, and when a case names a row that there is not.
 */
export async function optionTables(fleet: AskedFleet, listed: readonly ListedRow[]): Promise<string> {
  await assertComplete(fleet);
  const rows = new Set(listed.map((row) => `${row.suite} ${row.id}`));
  const parts: string[] = [];
  for (const group of E2B_OPTIONS) {
    const lines: string[][] = [];
    for (const one of group.cases) {
      for (const row of one.rows ?? []) {
        if (!rows.has(row)) {
          throw new Error(`${group.title}, ${one.field}: there is no row ${row}`);
        }
      }
      lines.push(await line(fleet, group, one));
    }
    parts.push(`### ${group.title}\n\n${table(["option", "wire", "value", "here", "what", "seen by"], lines)}`);
  }
  return parts.join("\n\n");
}

async function line(fleet: AskedFleet, group: OptionGroup, one: OptionCase): Promise<string[]> {
  const { field, option, value, shown, state, means = "", rows = [] } = one;
  const before = fleet.claims();
  const reply = await group.send(fleet, field, value);
  const answered = reply.status >= 200 && reply.status < 300 ? "taken" : "refused";
  if (answered !== (state === "refused" ? "refused" : "taken")) {
    throw new Error(`${group.title}, ${field}: ${state} was expected, the answer is ${reply.status} ${reply.text}`);
  }
  if (state === "refused" && group.operations.includes("createSandbox") && fleet.claims() !== before) {
    throw new Error(`${group.title}, ${field}: it is refused, and something was claimed`);
  }
  const seen = rows.length > 0 ? rows.join(", ") : "unit tests";
  return [
    option,
    `\`${field}\``,
    shown ?? `\`${JSON.stringify(value)}\``,
    state === "refused" ? `refused, ${reply.status}` : state,
    state === "refused" ? messageOf(reply) : means,
    seen,
  ];
}

async function assertComplete(fleet: AskedFleet): Promise<void> {
  const document = await fleet.document();
  const told = new Set(
    E2B_OPTIONS.flatMap(({ operations, cases }) =>
      operations.flatMap((id) => cases.map(({ field }) => `${id} ${field}`)),
    ),
  );
  const real = new Set(
    operationsOf(document)
      .map(({ operation }) => operation)
      .filter(({ operationId }) => !SIGNED_OPERATIONS.includes(operationId))
      .flatMap((operation) => choicesOf(document, operation).map((name) => `${operation.operationId} ${name}`)),
  );
  const missing = [...real].filter((name) => !told.has(name));
  const stray = [...told].filter((name) => !real.has(name));
  if (missing.length > 0 || stray.length > 0) {
    const all = (names: readonly string[]): string => names.join(", ") || "none";
    throw new Error(`options of the service that no case is about: ${all(missing)}; the reverse: ${all(stray)}`);
  }
}
