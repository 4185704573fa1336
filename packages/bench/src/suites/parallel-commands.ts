import { runCommand } from "../connect-call.ts";
import { startDev } from "../dev-service.ts";
import type { DevService } from "../dev-service.ts";
import { http2Sessions } from "../http2-load.ts";
import type { Bench, Suite } from "../suite.ts";

const CONNECTIONS = 100;
const COMMANDS = 1500;

/** Very many commands at once in one real sandbox. */
export const parallelCommandsSuite: Suite = {
  name: "parallel-commands",
  what: "commands at once in one sandbox of `sandbox-e2b dev`, over a hundred connections",
  realGuests: true,
  async run(bench: Bench) {
    const commands = bench.quick ? 20 : COMMANDS;
    await using dev = await startDev(1);
    const headers = await createSandbox(dev);
    const sessions = await http2Sessions(new URL(dev.sandboxUrl).host, Math.min(CONNECTIONS, commands));
    const began = performance.now();
    const micros: number[] = [];
    const failures = new Map<string, number>();
    await Promise.all(
      Array.from({ length: commands }, async (_command, at) => {
        const session = sessions[at % sessions.length];
        try {
          if (session === undefined) {
            throw new Error("no connection");
          }
          const { stdout, exitCode } = await runCommand(session, headers, `echo command ${at}`);
          if (exitCode !== 0 || stdout !== `command ${at}\n`) {
            throw new Error(`exit code ${exitCode}, output ${JSON.stringify(stdout.slice(0, 50))}`);
          }
          micros.push((performance.now() - began) * 1000);
        } catch (error) {
          const why = error instanceof Error ? error.message : String(error);
          failures.set(why, (failures.get(why) ?? 0) + 1);
        }
      }),
    );
    const wallMs = performance.now() - began;
    for (const [why, count] of failures) {
      process.stderr.write(`${count} commands failed: ${why}\n`);
    }
    for (const session of sessions) {
      session.destroy();
    }
    const fleet = `${commands} over ${sessions.length}`;
    const errors = commands - micros.length;
    bench.report({
      name: "parallel-commands.errors",
      fleet,
      unit: "count",
      value: errors,
      bar: { limit: 0, on: "value", side: "at most" },
    });
    bench.report({ name: "parallel-commands.rate", fleet, unit: "/s", value: (commands / wallMs) * 1000 });
  },
};

/** Creates a sandbox and returns what leads requests to its daemon. */
async function createSandbox({ apiUrl, apiKey }: DevService): Promise<Readonly<Record<string, string>>> {
  const reply = await fetch(`${apiUrl}/v2/sandboxes`, {
    method: "POST",
    headers: { "x-api-key": apiKey, "content-type": "application/json" },
    body: JSON.stringify({ templateID: "base", timeout: 600 }),
  });
  if (reply.status !== 201) {
    throw new Error(`no sandbox: ${reply.status} ${await reply.text()}`);
  }
  const { sandboxID, envdAccessToken } = (await reply.json()) as { sandboxID: string; envdAccessToken: string };
  return { "e2b-sandbox-id": sandboxID, "e2b-sandbox-port": "49983", "x-access-token": envdAccessToken };
}
