import { defineConfig } from "tsup";

export default defineConfig({
  entry: { index: "src/index.ts", libc: "src/system/libc.ts" },
  format: ["esm"],
  target: "node22",
  // Declarations come from `tsc -b`, which runs first: cleaning here would delete them.
  dts: false,
  clean: false,
  sourcemap: true,
});
