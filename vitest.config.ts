import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files that take longest, mostly since they wait for processes they start: begun last they would be waited for alone. */
const LONG = [
  "packages/bench/src/bench.test.ts",
  "packages/devnode/src/isolation.test.ts",
  "packages/packaging/test/packed-libraries.test.ts",
  "scripts/import-rules.test.ts",
  "packages/devnode/src/http/faults.test.ts",
  "packages/envdproxy/src/streaming.test.ts",
  "packages/envd/src/boot.test.ts",
  "apps/sandbox-e2b/src/program.test.ts",
];

class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification): number => {
      const found = LONG.findIndex((file) => moduleId.endsWith(`/${file}`));
      return found < 0 ? LONG.length : found;
    };
    return (await super.sort(files)).toSorted((a, b) => place(a) - place(b));
  }
}

// One run over all packages, straight from the sources: the source condition makes a build unnecessary.
export default defineConfig({
  resolve: { conditions: ["@org/source"] },
  ssr: { resolve: { conditions: ["@org/source"], externalConditions: ["@org/source"] } },
  test: {
    include: ["{packages,apps,docs/examples}/*/{src,test}/**/*.test.ts", "scripts/*.test.ts"],
    exclude: ["**/node_modules/**", "**/dist/**", "packages/conformance/suites/**"],
    // Files have processes of their own, so that only the tests within one can see each other.
    sequence: { shuffle: { tests: true, files: false }, sequencer: LongFirst },
    // Many tests wait for timers, sockets and programs: with one worker for each processor half of the time is idle.
    maxWorkers: 2 * availableParallelism(),
    testTimeout: 30_000,
    hookTimeout: 30_000,
  },
});
