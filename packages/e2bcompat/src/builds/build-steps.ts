import { E2bError } from "../errors.ts";

/** One instruction of a template, as the step forms of the API have it. */
export type BuildStep =
  | { readonly kind: "RUN"; readonly command: string; readonly user: string | undefined }
  | { readonly kind: "ENV"; readonly variables: readonly (readonly [name: string, value: string])[] }
  | { readonly kind: "WORKDIR"; readonly directory: string }
  | { readonly kind: "USER"; readonly user: string }
  | {
      readonly kind: "COPY";
      readonly source: string;
      readonly destination: string;
      /** `user` or `user:group`; absent means the current user. */
      readonly owner: string | undefined;
      /** Octal digits; absent keeps the modes of the archive. */
      readonly mode: string | undefined;
      /** Hex SHA-256 under which the archive was uploaded. */
      readonly hash: string;
    };

/** One step of a request, not yet looked at. */
export interface RawStep {
  readonly type: string;
  readonly args?: readonly string[] | null | undefined;
  readonly filesHash?: string | null | undefined;
}

/** What an upload is known by. */
export const FILES_HASH: RegExp = /^[0-9a-f]{64}$/;

const USER = /^[A-Za-z_][A-Za-z0-9_.-]{0,31}$|^[0-9]{1,10}$/;
const OWNER = /^(?:[A-Za-z_][A-Za-z0-9_.-]{0,31}|[0-9]{1,10})(?::(?:[A-Za-z_][A-Za-z0-9_.-]{0,31}|[0-9]{1,10}))?$/;
const MODE = /^[0-7]{3,4}$/;
const NAME = /^[^=\0]+$/;

/** Reads the steps of a start request. Throws `bad_request` naming the first one that is malformed. */
export function parseSteps(steps: readonly RawStep[]): readonly BuildStep[] {
  return steps.map((step, index) => {
    const args = step.args ?? [];
    const malformed = (why: string): E2bError => new E2bError("bad_request", `steps: step ${index + 1} ${why}`);
    if (args.some((arg) => arg.includes("\0"))) {
      throw malformed("has an argument with a NUL character");
    }
    return parseStep(step, args, malformed);
  });
}

function parseStep(
  { type, filesHash }: RawStep,
  args: readonly string[],
  malformed: (why: string) => E2bError,
): BuildStep {
  const [first = "", second = "", third = "", fourth = ""] = args;
  switch (type) {
    case "RUN":
      if (args.length < 1 || args.length > 2 || first === "" || !(second === "" || USER.test(second))) {
        throw malformed("is no RUN step: want a command and, if wanted, a user");
      }
      return { kind: "RUN", command: first, user: second || undefined };
    case "ENV":
      return { kind: "ENV", variables: pairs(args, malformed) };
    case "WORKDIR":
      if (args.length !== 1 || first === "") {
        throw malformed("is no WORKDIR step: want a folder");
      }
      return { kind: "WORKDIR", directory: first };
    case "USER":
      if (args.length !== 1 || !OWNER.test(first)) {
        throw malformed("is no USER step: want the name of a user");
      }
      return { kind: "USER", user: first };
    case "COPY":
      if (args.length < 2 || args.length > 4 || first === "" || second === "") {
        throw malformed("is no COPY step: want source, destination and, if wanted, owner and mode");
      }
      if (!(third === "" || OWNER.test(third)) || !(fourth === "" || MODE.test(fourth))) {
        throw malformed("is no COPY step: want an owner such as user:group, and a mode such as 0755");
      }
      if (typeof filesHash !== "string" || !FILES_HASH.test(filesHash)) {
        throw malformed("is no COPY step: filesHash is not 64 hexadecimal digits");
      }
      return {
        kind: "COPY",
        source: first,
        destination: second,
        owner: third || undefined,
        mode: fourth || undefined,
        hash: filesHash,
      };
    default:
      throw malformed(`has the type ${JSON.stringify(type)}: want RUN, ENV, WORKDIR, USER or COPY`);
  }
}

function pairs(
  args: readonly string[],
  malformed: (why: string) => E2bError,
): readonly (readonly [name: string, value: string])[] {
  if (args.length === 0 || args.length % 2 !== 0) {
    throw malformed("is no ENV step: want names and values in turn");
  }
  return Array.from({ length: args.length / 2 }, (_, index) => {
    const name = args[index * 2] ?? "";
    if (!NAME.test(name)) {
      throw malformed(`is no ENV step: ${JSON.stringify(name)} is no name of a variable`);
    }
    return [name, args[index * 2 + 1] ?? ""] as const;
  });
}

/** A step in one line, for logs. Values of variables are left out: they may be secrets. */
export function describeStep(step: BuildStep): string {
  switch (step.kind) {
    case "RUN":
      return `RUN ${step.command}`;
    case "ENV":
      return `ENV ${step.variables.map(([name]) => name).join(" ")}`;
    case "WORKDIR":
      return `WORKDIR ${step.directory}`;
    case "USER":
      return `USER ${step.user}`;
    case "COPY":
    default:
      return `COPY ${step.source} ${step.destination}`;
  }
}
