import { type ClientId, DATA_PARTS, QUICK_DATA } from "./catalogue.ts";
import { type Launcher, runClientSuite } from "./clients.ts";
import type { Lane } from "./lanes.ts";
import { startDev, type Transport } from "./rig.ts";
import type { RunContext } from "./run-context.ts";

/** What `quick` runs the few rows with that it takes of the suite. */
const QUICK_CLIENTS: readonly ClientId[] = ["js-2.51", "py-2.51"];

/**
 * Runs what users rely on inside a sandbox over both ways to the data plane, with derived tokens: at one cleartext origin
 * that the client is told, and over TLS at the names that it derives.
 */
export function dataLanes(
  context: RunContext,
  clients: readonly ClientId[],
  launchers: ReadonlyMap<ClientId, Launcher>,
): readonly Lane[] {
  const quick = context.args.suite === "quick";
  const some = quick ? clients.filter((client) => QUICK_CLIENTS.includes(client)) : clients;
  const ways: readonly Transport[] = quick ? ["by-host"] : ["by-url", "by-host"];
  return ways.map((transport) => ({
    name: `data ${transport}`,
    run: () => runRows(context, transport, some, launchers),
  }));
}

async function runRows(
  context: RunContext,
  transport: Transport,
  clients: readonly ClientId[],
  launchers: ReadonlyMap<ClientId, Launcher>,
): Promise<void> {
  const { set, programs, args, collector, say } = context;
  const quick = args.suite === "quick";
  const size = quick ? { nodes: 1, warm: 2, warmEgress: 0 } : { nodes: 2, warm: 6, warmEgress: 1 };
  const tls = transport === "by-host";
  await using rig = await startDev(set, programs, { mode: "secret", isolation: args.isolation, tls, ...size });
  for (const client of clients) {
    const launcher = launchers.get(client) ?? { kind: "absent", reason: "no launcher" };
    for (const [suite, part] of Object.entries(DATA_PARTS)) {
      const wanted = quick ? (suite === "data" ? QUICK_DATA : []) : part;
      await runClientSuite({
        set,
        launcher,
        client,
        suite,
        rig: { ...rig.facts, transport },
        collector,
        only: (row) => wanted === "all" || wanted.includes(row.id),
        onlyRow: args.row,
        onRow: say,
      });
    }
  }
}
