import { defineConfig } from "tsup";

/** What runs in guests: one file each, for the Node that is there. */
const guest = {
  format: ["esm"] as ["esm"],
  target: "node22",
  platform: "node" as const,
  outDir: "dist/template/opt/code-interpreter",
  outExtension: () => ({ js: ".mjs" }),
  dts: false,
  clean: false,
  splitting: true,
  esbuildOptions: (options: { chunkNames?: string }) => {
    // Names that stay, so that no build leaves files of another one behind.
    options.chunkNames = "[name]";
  },
  noExternal: [/./],
};

export default defineConfig([
  {
    entry: ["src/index.ts"],
    format: ["esm"],
    target: "node22",
    // Declarations come from `tsc -b`, which runs first: cleaning here would delete them.
    dts: false,
    clean: false,
    sourcemap: true,
    publicDir: "src/public",
  },
  { ...guest, entry: { service: "src/service/main.ts" }, publicDir: "src/python" },
  { ...guest, entry: { javascript: "src/javascript/main.ts" }, publicDir: false },
]);
