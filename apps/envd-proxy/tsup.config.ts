import { defineConfig } from "tsup";

export default defineConfig({
  // Two entries, so that the part behind the version check has a name that does not change from build to build.
  entry: ["src/main.ts", "src/run.ts"],
  format: ["esm"],
  target: "node22",
  // Declarations come from `tsc -b`, which runs first: cleaning here would delete them.
  dts: false,
  clean: false,
  sourcemap: true,
  // What the start line tells of a release.
  env: { BUILD_REVISION: process.env["BUILD_REVISION"] ?? "", BUILD_TIME: process.env["BUILD_TIME"] ?? "" },
});
