import { defineConfig, type Options } from "tsup";

const shared: Options = {
  format: ["esm"],
  target: "node22",
  // Declarations come from `tsc -b`, which runs first: cleaning here would delete them.
  dts: false,
  clean: false,
  sourcemap: true,
};

/**
 * The agent is one file that is copied into every guest. Only the terminal library stays outside, for its binary; the
 * CommonJS packages inside need a `require`.
 */
export const guest: Options = {
  ...shared,
  entry: { guest: "src/guest/main.ts" },
  sourcemap: false,
  splitting: false,
  noExternal: [/^(?!@lydell\/node-pty)/],
  external: [/^@lydell\/node-pty/],
  banner: {
    js: 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);',
  },
  esbuildOptions: (options) => {
    options.conditions = ["@org/source"];
  },
};

export default defineConfig([{ ...shared, entry: ["src/index.ts"] }, guest]);
