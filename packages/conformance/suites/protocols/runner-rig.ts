import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { createSandbox } from "../../src/api.ts";
import { type Front, startFront } from "../../src/front.ts";
import { freePorts } from "../../src/ports.ts";
import type { ProcessSet } from "../../src/processes.ts";
import type { Programs } from "../../src/programs.ts";
import { IMAGE, RIG, writeRigFiles } from "../../src/rig.ts";
import { pool, startScriptedNode } from "../../src/scripted-node.ts";
import { selfSigned } from "../../src/self-signed.ts";

/** What runners reach through the service. */
export interface RunnerRig extends AsyncDisposable {
  /** Name of the sandbox, without the port before it. Every port of it leads to the same port of this machine. */
  readonly host: string;
  readonly plainPort: number;
  readonly tlsPort: number;
  readonly certFile: string;
  /** Ports that nothing listens on, whose names {@link hostsFile} has. */
  readonly free: readonly number[];
  /** Port of a web server in the sandbox. */
  readonly webPort: number;
  /** A hosts file with the names of all these ports. */
  readonly hostsFile: string;
}

const BODY = "x".repeat(4_096);
const FREE_PORTS = 40;

/** Starts one data plane in cleartext and one over TLS, in front of a scripted node with one sandbox. */
export async function startRunnerRig(set: ProcessSet, programs: Programs): Promise<RunnerRig> {
  const files = await writeRigFiles("runners");
  const web = createServer((request, response) => {
    request.resume();
    response.end(BODY);
  });
  await new Promise<void>((resolve) => web.listen(0, "127.0.0.1", resolve));
  const webPort = (web.address() as AddressInfo).port;
  const [nodePort = 0, ...free] = await freePorts(1 + FREE_PORTS);
  const advertise = `127.0.0.1:${nodePort}`;
  const node = await startScriptedNode(set, {
    name: "runners",
    dir: join(files.dir, "node"),
    port: nodePort,
    script: {
      advertise,
      peers: [],
      token: RIG.nodeToken,
      tenantTokens: [],
      pools: [pool(IMAGE, 10)],
      redirect: [],
      faults: [],
      reapMs: 5_000,
      zoneMinutes: 0,
      idleMs: 0,
      relays: { guests: { "*": "127.0.0.1:*" }, tricks: {} },
    },
  });
  const pair = selfSigned([`*.${RIG.domain}`]);
  const certFile = join(files.dir, "cert.pem");
  const keyFile = join(files.dir, "key.pem");
  await writeFile(certFile, pair.cert);
  await writeFile(keyFile, pair.key, { mode: 0o600 });
  const options = { seeds: advertise, nodeAddresses: [advertise], mode: "seed", pollMs: 1_000 } as const;
  const plain = await startFront(set, programs, files, options);
  const tls = await startFront(set, programs, files, {
    ...options,
    flags: [`--envd-proxy-tls-cert-file=${certFile}`, `--envd-proxy-tls-private-key-file=${keyFile}`],
    certFile,
  });
  const { sandboxID } = await createSandbox(plain.facts, { timeout: 3_600 });
  const host = `${sandboxID}.${RIG.domain}`;
  const hostsFile = join(files.dir, "hosts");
  const names = [...free, webPort].map((port) => `127.0.0.1 ${port}-${host}\n`);
  await writeFile(hostsFile, ["127.0.0.1 localhost\n", ...names].join(""));
  const portOf = ({ facts }: Front): number => Number(new URL(facts.proxyUrl).port);
  return {
    host,
    plainPort: portOf(plain),
    tlsPort: portOf(tls),
    certFile,
    free,
    webPort,
    hostsFile,
    async [Symbol.asyncDispose]() {
      await Promise.all([plain.stop(), tls.stop()]);
      await node.process.stop(2_000);
      web.closeAllConnections();
      web.close();
      await rm(files.dir, { recursive: true, force: true });
    },
  };
}
