import { E2bError } from "../errors.ts";

const NAME = /^[A-Za-z_][A-Za-z0-9_]*/;

/**
 * Puts the values of variables in place of `$name`, `${name}`, `${name:-word}` and `${name:+word}`, as a Dockerfile has
 * it: no command is run, unknown variables are empty, `\$` is a dollar sign, and a dollar sign in front of anything else
 * stays. Throws `bad_request` for another form in braces.
 */
export function expandVariables(text: string, variables: Readonly<Record<string, string>>): string {
  let out = "";
  let at = 0;
  while (at < text.length) {
    const char = text.charAt(at);
    if (char === "\\" && text.charAt(at + 1) === "$") {
      out += "$";
      at += 2;
    } else if (char === "$") {
      const [value, next] = readReference(text, at, variables);
      out += value;
      at = next;
    } else {
      out += char;
      at += 1;
    }
  }
  return out;
}

function valueOf(variables: Readonly<Record<string, string>>, name: string): string {
  return Object.hasOwn(variables, name) ? (variables[name] ?? "") : "";
}

/** The value of the reference that begins at `at`, and where the text goes on. */
function readReference(
  text: string,
  at: number,
  variables: Readonly<Record<string, string>>,
): readonly [value: string, next: number] {
  if (text.charAt(at + 1) !== "{") {
    const name = NAME.exec(text.slice(at + 1))?.[0];
    return name === undefined ? ["$", at + 1] : [valueOf(variables, name), at + 1 + name.length];
  }
  const end = closingBrace(text, at + 2);
  const inside = end === -1 ? "" : text.slice(at + 2, end);
  const name = NAME.exec(inside)?.[0] ?? "";
  const rest = inside.slice(name.length);
  const value = valueOf(variables, name);
  if (name !== "" && rest === "") {
    return [value, end + 1];
  }
  if (name !== "" && (rest.startsWith(":-") || rest.startsWith(":+"))) {
    const usesWord = rest.startsWith(":-") === (value === "");
    const otherwise = rest.startsWith(":-") ? value : "";
    return [usesWord ? expandVariables(rest.slice(2), variables) : otherwise, end + 1];
  }
  const shown = end === -1 ? text.slice(at) : text.slice(at, end + 1);
  throw new E2bError(
    "bad_request",
    `${JSON.stringify(shown)} is not supported: want \${name}, \${name:-word} or \${name:+word}`,
  );
}

/** Where the brace is closed that was opened in front of `from`; -1 when it is not. */
function closingBrace(text: string, from: number): number {
  let depth = 1;
  for (let at = from; at < text.length; at += 1) {
    const char = text.charAt(at);
    if (char === "\\") {
      at += 1;
    } else if (char === "$" && text.charAt(at + 1) === "{") {
      depth += 1;
      at += 1;
    } else if (char === "}") {
      depth -= 1;
      if (depth === 0) {
        return at;
      }
    }
  }
  return -1;
}
