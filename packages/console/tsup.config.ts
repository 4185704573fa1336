import { defineConfig } from "tsup";

export default defineConfig({
  entry: ["src/index.ts"],
  format: ["esm"],
  target: "node22",
  // Declarations come from `tsc -b`, which runs first: cleaning here would delete them.
  dts: false,
  clean: false,
  sourcemap: true,
});
