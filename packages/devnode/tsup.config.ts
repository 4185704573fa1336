import { defineConfig } from "tsup";
import { guestBundle } from "./src/guest/bundle-options.ts";

export default defineConfig([
  {
    // The thread's program is a file of its own beside the library.
    entry: { index: "src/index.ts", "tree-worker": "src/host/tree-worker.ts" },
    format: ["esm"],
    target: "node22",
    // Declarations come from `tsc -b`, which runs first: cleaning here would delete them.
    dts: false,
    clean: false,
    sourcemap: true,
    splitting: false,
  },
  { ...guestBundle, entry: { guest: "src/guest/main.ts" } },
]);
