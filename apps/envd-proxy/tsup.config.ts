import { defineConfig } from "tsup";

export default defineConfig({
  entry: ["src/main.ts"],
  format: ["esm"],
  target: "node22",
  // Declarations come from `tsc -b`, which runs first: cleaning here would delete them.
  dts: false,
  clean: false,
  sourcemap: true,
  // What the start line tells of a release.
  env: { BUILD_REVISION: process.env["BUILD_REVISION"] ?? "", BUILD_TIME: process.env["BUILD_TIME"] ?? "" },
});
