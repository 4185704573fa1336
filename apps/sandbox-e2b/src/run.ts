import { readFileSync } from "node:fs";
import { runProgram } from "@org/command-line";
import type { CommandCall } from "@org/command-line";
import type { Logger } from "@org/scale";
import { prepare, serve } from "./compose.ts";
import { checkDevNode } from "./dev/dev-node.ts";
import { checkDev } from "./dev/dev.ts";
import { checkDoctor } from "./doctor.ts";
import { programSpec, serviceConfig } from "./flags.ts";
import { createLogger } from "./logger.ts";
import type { Surroundings } from "./surroundings.ts";

type Env = Surroundings["env"];

/** Runs the program and resolves with the exit status. */
export function run(argv: readonly string[], env: Env): Promise<number> {
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
    const command = checkCommand(call);
    return async () => {
      const logger = await createLogger(env["OPERATOR_LOG_LEVEL"] || "info");
      const revision = process.env["BUILD_REVISION"] || "unknown";
      const builtAt = process.env["BUILD_TIME"] || "unknown";
      logger.info(
        { func: "main.run", version, revision, builtAt },
        `starting sandbox-e2b version=${version} revision=${revision} builtAt=${builtAt}`,
      );
      process.on("unhandledRejection", (err) => logger.error({ func: "main.run", err }, "unhandled rejection"));
      await command({ env, signal: processSignal(logger), logger });
    };
  });
}

function checkCommand(call: CommandCall): (around: Surroundings) => Promise<void> {
  switch (call.command) {
    case "dev":
      return checkDev(call);
    case "dev-node":
      return checkDevNode(call);
    case "doctor":
      return checkDoctor(call);
    default: {
      const config = serviceConfig(call.values);
      return async (around) => {
        if (config.seeds.length === 0) {
          throw new Error(
            "at least one seed is required: set --sandboxd-seeds to a node's address, or run `sandbox-e2b dev`, which brings nodes",
          );
        }
        await serve(await prepare(config), around);
      };
    }
  }
}

/** Signals after the first one change nothing: the drain is bounded. */
function processSignal(logger: Logger): AbortSignal {
  const controller = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const) {
    process.on(name, () => {
      if (!controller.signal.aborted) logger.info({ func: "main.run", signal: name }, "stopping");
      controller.abort();
    });
  }
  return controller.signal;
}
