import { defineConfig } from "vitest/config";

// One run over all packages, straight from the sources: the source condition makes a build unnecessary.
export default defineConfig({
  resolve: { conditions: ["@org/source"] },
  ssr: { resolve: { conditions: ["@org/source"], externalConditions: ["@org/source"] } },
  test: {
    include: ["{packages,apps}/*/{src,test}/**/*.test.ts", "scripts/*.test.ts"],
    exclude: ["**/node_modules/**", "**/dist/**", "packages/conformance/suites/**"],
    sequence: { shuffle: true },
    testTimeout: 30_000,
    hookTimeout: 30_000,
  },
});
