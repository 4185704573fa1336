import { type ImportDeclaration, type Node, parse, type Program } from "acorn";

import { IMPORT } from "./globals.ts";

/** A part of the code and what takes its place. */
interface Change {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/**
 * Turns `import` declarations and `import()` into calls of a function: the engine's notebook mode has neither. Code that
 * cannot be read stays as it is, so that the engine says what is wrong with it.
 */
export function translateImports(code: string): string {
  if (!code.includes("import")) return code;
  let program: Program;
  try {
    program = parse(code, {
      ecmaVersion: "latest",
      sourceType: "module",
      allowAwaitOutsideFunction: true,
      allowHashBang: true,
    });
  } catch {
    program = { type: "Program", body: [], sourceType: "module", start: 0, end: 0 };
    try {
      program = parse(code, { ecmaVersion: "latest", sourceType: "script", allowAwaitOutsideFunction: true });
    } catch {
      return code;
    }
  }
  const changes: Change[] = [];
  visit(program, (node) => {
    if (node.type === "ImportDeclaration") {
      changes.push({ start: node.start, end: node.end, text: declarationOf(node as ImportDeclaration, code) });
    } else if (node.type === "ImportExpression") {
      const end = node.start + "import".length;
      changes.push({ start: node.start, end, text: IMPORT });
    }
  });
  let at = 0;
  let text = "";
  for (const { start, end, text: instead } of changes.toSorted((one, other) => one.start - other.start)) {
    text += code.slice(at, start) + instead;
    at = end;
  }
  return text + code.slice(at);
}

/** An import as statements of the notebook. Names are bound once; they do not follow the module. */
function declarationOf(node: ImportDeclaration, code: string): string {
  const source = JSON.stringify(node.source.value);
  const { attributes } = node;
  const given = attributes.map(({ key, value }) => `${code.slice(key.start, key.end)}: ${JSON.stringify(value.value)}`);
  const options = given.length === 0 ? "" : `, { with: { ${given.join(", ")} } }`;
  const call = `await ${IMPORT}(${source}${options})`;
  const members: string[] = [];
  let whole: string | undefined;
  for (const specifier of node.specifiers) {
    const local = specifier.local.name;
    if (specifier.type === "ImportNamespaceSpecifier") whole = local;
    else if (specifier.type === "ImportDefaultSpecifier") members.push(`default: ${local}`);
    else {
      const { imported } = specifier;
      members.push(`${imported.type === "Identifier" ? imported.name : JSON.stringify(imported.value)}: ${local}`);
    }
  }
  // Lines are kept, so that errors name the right ones.
  const lines = "\n".repeat(code.slice(node.start, node.end).split("\n").length - 1);
  if (whole === undefined) {
    return members.length === 0 ? `${call};${lines}` : `const { ${members.join(", ")} } = ${call};${lines}`;
  }
  const rest = members.length === 0 ? "" : ` const { ${members.join(", ")} } = ${whole};`;
  return `const ${whole} = ${call};${rest}${lines}`;
}

function visit(node: Node, onNode: (node: Node) => void): void {
  onNode(node);
  for (const member of Object.values(node) as unknown[]) {
    for (const child of Array.isArray(member) ? (member as unknown[]) : [member]) {
      if (isNode(child)) visit(child, onNode);
    }
  }
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "type" in value && typeof value.type === "string";
}
