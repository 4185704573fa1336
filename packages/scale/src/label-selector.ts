import { ScaleError } from "./errors.ts";
import { quoted } from "./quoted.ts";

/** What one requirement of a label selector asks of a label. A missing label is `undefined`. */
export type LabelRequirement =
  | { readonly key: string; readonly operator: "exists" | "absent" }
  | { readonly key: string; readonly operator: "in" | "notin"; readonly values: readonly string[] };

type Token = "word" | "," | "(" | ")" | "=" | "==" | "!=" | "!" | "end";

interface Lexeme {
  readonly token: Token;
  readonly text: string;
  /** Where it stands, counted from 1 for people. */
  readonly column: number;
}

const LEXEME = /[ \t\r\n]*(==|!=|[,()=!]|[^ \t\r\n,()=!<>]+|[<>]=?|$)/y;
const NAME = /^[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
const DOMAIN_LABEL = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$/;
const MAX_DOMAIN = 253;

/**
 * Reads a label selector in the grammar of Kubernetes: `key=value`, `key==value`, `key!=value`, `key in (a, b)`,
 * `key notin (a, b)`, `key` and `!key`, joined by commas. An empty one selects everything.
 * @throws ScaleError `bad_request` for anything else, comparisons with `<` and `>` included.
 */
export function parseLabelSelector(text: string): readonly LabelRequirement[] {
  return new Parser(text).selector();
}

/** Whether labels satisfy every requirement. */
export function matchesLabels(
  requirements: readonly LabelRequirement[],
  labelOf: (key: string) => string | undefined,
): boolean {
  return requirements.every((requirement) => {
    const value = labelOf(requirement.key);
    if (!("values" in requirement)) {
      return (value !== undefined) === (requirement.operator === "exists");
    }
    const among = value !== undefined && requirement.values.includes(value);
    return among === (requirement.operator === "in");
  });
}

/** A selector that reads as these requirements. Equal requirements make equal text. */
export function formatLabelSelector(requirements: readonly LabelRequirement[]): string {
  return requirements.map(formatRequirement).join(",");
}

function formatRequirement(requirement: LabelRequirement): string {
  if (!("values" in requirement)) {
    return requirement.operator === "exists" ? requirement.key : `!${requirement.key}`;
  }
  const { key, operator, values } = requirement;
  // A lone empty value has no other spelling than one behind an equals sign.
  return values.length === 1
    ? `${key}${operator === "in" ? "=" : "!="}${values[0]}`
    : `${key} ${operator} (${values.join(",")})`;
}

class Parser {
  readonly #text: string;
  readonly #lexeme = new RegExp(LEXEME);
  #next: Lexeme;
  #taken: Lexeme = { token: "end", text: "", column: 1 };

  constructor(text: string) {
    this.#text = text;
    this.#next = this.#lex(0);
  }

  selector(): readonly LabelRequirement[] {
    const requirements: LabelRequirement[] = [];
    if (this.#next.token === "end") {
      return requirements;
    }
    for (;;) {
      requirements.push(this.#requirement());
      const { token } = this.#take();
      if (token === "end") {
        return requirements;
      }
      if (token !== ",") {
        this.#fail("',' or the end", this.#taken);
      }
    }
  }

  #requirement(): LabelRequirement {
    const absent = this.#next.token === "!";
    if (absent) {
      this.#take();
    }
    const key = this.#key();
    if (absent) {
      return { key, operator: "absent" };
    }
    const { token, text } = this.#next;
    if (token === "," || token === "end") {
      return { key, operator: "exists" };
    }
    this.#take();
    if (token === "=" || token === "==" || token === "!=") {
      return { key, operator: token === "!=" ? "notin" : "in", values: [this.#value()] };
    }
    if (token === "word" && (text === "in" || text === "notin")) {
      return { key, operator: text, values: this.#values() };
    }
    return this.#fail("an operator (=, ==, !=, in, notin)", this.#taken);
  }

  #key(): string {
    const { token, text } = this.#take();
    if (token !== "word") {
      this.#fail("a label key", this.#taken);
    }
    const cut = text.lastIndexOf("/");
    const domain = text.slice(0, Math.max(cut, 0));
    const fits =
      cut === -1 || (domain.length <= MAX_DOMAIN && domain.split(".").every((part) => DOMAIN_LABEL.test(part)));
    if (!fits || !NAME.test(text.slice(cut + 1))) {
      this.#refuse(`${quoted(text)} is no label key`, this.#taken);
    }
    return text;
  }

  /** A value may be left out: then it is the empty one. */
  #value(): string {
    const { token, text } = this.#next;
    if (token !== "word") {
      if (token !== "," && token !== ")" && token !== "end") {
        this.#fail("a label value", this.#next);
      }
      return "";
    }
    this.#take();
    if (!NAME.test(text)) {
      this.#refuse(`${quoted(text)} is no label value`, this.#taken);
    }
    return text;
  }

  #values(): readonly string[] {
    if (this.#take().token !== "(") {
      this.#fail("'('", this.#taken);
    }
    if (this.#next.token === ")") {
      this.#fail("a label value", this.#next);
    }
    const values = new Set<string>();
    for (;;) {
      values.add(this.#value());
      const { token } = this.#take();
      if (token === ")") {
        return [...values].sort();
      }
      if (token !== ",") {
        this.#fail("',' or ')'", this.#taken);
      }
    }
  }

  #take(): Lexeme {
    this.#taken = this.#next;
    if (this.#next.token !== "end") {
      this.#next = this.#lex(this.#next.column - 1 + this.#next.text.length);
    }
    return this.#taken;
  }

  #lex(from: number): Lexeme {
    this.#lexeme.lastIndex = from;
    const text = this.#lexeme.exec(this.#text)?.[1] ?? "";
    const column = this.#lexeme.lastIndex - text.length + 1;
    return { token: tokenOf(text), text, column };
  }

  #fail(expected: string, { token, text, column }: Lexeme): never {
    const found = token === "end" ? "the end" : quoted(text);
    return this.#refuse(`expected ${expected}, found ${found}`, { column });
  }

  #refuse(why: string, { column }: Pick<Lexeme, "column">): never {
    throw new ScaleError("bad_request", `label selector: ${why} at column ${column}`);
  }
}

function tokenOf(text: string): Token {
  switch (text) {
    case "":
      return "end";
    case ",":
    case "(":
    case ")":
    case "=":
    case "==":
    case "!=":
    case "!":
      return text;
    default:
      return "word";
  }
}
