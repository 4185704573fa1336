import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { runProgram } from "@org/command-line";
import type { Logger } from "@org/scale";
import { SERVICE_ACCOUNT } from "./clusters.ts";
import { serve } from "./compose.ts";
import { programSpec, shimConfig } from "./flags.ts";
import { createLogger } from "./logger.ts";

/** Runs the program and resolves with the exit status. */
export function run(argv: readonly string[], env: Readonly<Record<string, string | undefined>>): Promise<number> {
  const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
    version: string;
  };
  // A reader that went away (`| head`) is no reason to end.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);
  const io = {
    argv,
    env,
    stdout: (text: string) => void process.stdout.write(text),
    stderr: (text: string) => void process.stderr.write(text),
  };
  return runProgram(programSpec(version), io, (call) => {
    const config = shimConfig(call);
    return async () => {
      const logger = await createLogger(env["OPERATOR_LOG_LEVEL"] || "info");
      const revision = process.env["BUILD_REVISION"] || "unknown";
      const builtAt = process.env["BUILD_TIME"] || "unknown";
      logger.info(
        { func: "main.run", version, revision, builtAt },
        `starting apiserver-shim version=${version} revision=${revision} builtAt=${builtAt}`,
      );
      process.on("unhandledRejection", (err) => logger.error({ func: "main.run", err }, "unhandled rejection"));
      await serve(config, {
        signal: processSignal(logger),
        logger,
        places: { env, home: homedir(), serviceAccount: SERVICE_ACCOUNT },
        version: {
          version,
          ...(revision !== "unknown" && { gitCommit: revision }),
          ...(builtAt !== "unknown" && { buildDate: builtAt }),
        },
      });
    };
  });
}

/** The first signal begins the drain, the second one ends the process: in-flight requests may take a minute. */
function processSignal(logger: Logger): AbortSignal {
  const controller = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const) {
    process.on(name, () => {
      if (controller.signal.aborted) process.exit(1);
      logger.info({ func: "main.run", signal: name }, "stopping");
      controller.abort();
    });
  }
  return controller.signal;
}
