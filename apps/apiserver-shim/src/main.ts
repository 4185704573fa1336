#!/usr/bin/env node
// Only this file may run on an old Node: everything else is imported after the check.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < 22 || (major === 22 && minor < 19)) {
  process.stderr.write(
    `apiserver-shim: needs Node.js 22.19 or newer, this is ${process.versions.node}: put a newer one first on PATH (in a clone: node_modules/.bin)\n`,
  );
  process.exit(1);
}
const { run } = await import("./run.ts");
process.exit(await run(process.argv.slice(2), process.env));

export {};
