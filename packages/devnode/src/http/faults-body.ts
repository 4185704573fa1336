import { Refusal } from "../node/refusal.ts";
import { foldKeys } from "./strict-json.ts";

/** What a fault can do. */
export const FAULT_KINDS = ["delay", "status", "refuse", "drop-reply", "hang", "stop-accepting"] as const;

/** What a fault does. */
export type FaultKind = (typeof FAULT_KINDS)[number];

/** One fault as it was asked for. */
export interface FaultSpec {
  readonly kind: FaultKind;
  /** Only requests with this method; absent: any. */
  readonly method: string | undefined;
  /** Only requests to this path: `*` stands for one part, `**` at the end for all that follow; absent: any. */
  readonly path: string | undefined;
  /** How many requests it meets; absent: all. */
  readonly times: number | undefined;
  /** Wait before it does what it does, in milliseconds. */
  readonly delayMs: number;
  /** Of the answer; for `status` alone. */
  readonly status: number | undefined;
  /** Of the answer; for `status` alone. */
  readonly body: string | undefined;
  /** How long nobody is let in, in milliseconds; for `stop-accepting` alone. */
  readonly forMs: number | undefined;
}

/** Longest delay. */
const MOST_MS = 600_000;
const MOST_FAULTS = 100;

const COMMON = ["kind", "delay_ms"];
const FILTER = ["method", "path", "times"];

/** Members that a kind takes. */
const MEMBERS: Readonly<Record<FaultKind, readonly string[]>> = {
  delay: [...COMMON, ...FILTER],
  status: [...COMMON, ...FILTER, "status", "body"],
  refuse: [...COMMON, ...FILTER],
  "drop-reply": [...COMMON, ...FILTER],
  hang: [...COMMON, ...FILTER],
  "stop-accepting": [...COMMON, "for_ms"],
};

/** Reads `{"faults": [...]}`. @throws Refusal 400 naming what is wrong */
export function parseFaults(body: Record<string, unknown>): FaultSpec[] {
  const { faults } = body;
  for (const name of Object.keys(body)) {
    if (name !== "faults") {
      throw invalid(`unknown member ${JSON.stringify(name)}`);
    }
  }
  if (!Array.isArray(faults) || faults.length > MOST_FAULTS) {
    throw invalid(`faults: must be a list of at most ${MOST_FAULTS}`);
  }
  return faults.map((fault: unknown, index) => parseFault(fault, `faults[${index}]`));
}

function parseFault(value: unknown, where: string): FaultSpec {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalid(`${where}: must be an object`);
  }
  const fault = foldKeys(value);
  const kind = FAULT_KINDS.find((name) => name === fault["kind"]);
  if (kind === undefined) {
    const given = fault["kind"] === undefined ? "missing" : `unknown kind ${JSON.stringify(fault["kind"])}`;
    throw invalid(`${where}.kind: ${given}, want one of ${FAULT_KINDS.join(", ")}`);
  }
  for (const name of Object.keys(fault)) {
    if (!MEMBERS[kind].includes(name)) {
      throw invalid(`${where}.${name}: ${kind} takes ${MEMBERS[kind].join(", ")}`);
    }
  }
  const whole = (name: string, least: number, most: number): number | undefined => {
    const number = fault[name];
    if (number === undefined) {
      return undefined;
    }
    if (typeof number !== "number" || !Number.isSafeInteger(number) || number < least || number > most) {
      throw invalid(`${where}.${name}: must be a whole number from ${least} to ${most}`);
    }
    return number;
  };
  const text = (name: string, form: RegExp, words: string): string | undefined => {
    const given = fault[name];
    if (given === undefined) {
      return undefined;
    }
    if (typeof given !== "string" || !form.test(given)) {
      throw invalid(`${where}.${name}: must be ${words}`);
    }
    return given;
  };
  const spec: FaultSpec = {
    kind,
    method: text("method", /^[A-Za-z]+$/, "a method")?.toUpperCase(),
    path: text("path", /^\/[^?#]*$/, "a path that starts with / and has no query"),
    times: whole("times", 1, Number.MAX_SAFE_INTEGER),
    delayMs: whole("delay_ms", kind === "delay" ? 1 : 0, MOST_MS) ?? 0,
    status: whole("status", 200, 599),
    body: text("body", /^/, "a text"),
    forMs: whole("for_ms", 1, MOST_MS),
  };
  if (spec.path?.split("/").slice(0, -1).includes("**") === true) {
    throw invalid(`${where}.path: ** stands at the end only`);
  }
  const needed = { delay: "delay_ms", status: "status", "stop-accepting": "for_ms" } as const;
  const member = kind in needed ? needed[kind as keyof typeof needed] : undefined;
  if (member !== undefined && fault[member] === undefined) {
    throw invalid(`${where}.${member}: is needed by ${kind}`);
  }
  return spec;
}

function invalid(what: string): Refusal {
  return new Refusal(400, `invalid request body: ${what}`);
}
