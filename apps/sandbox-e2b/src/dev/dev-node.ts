import { addressesOf, textOf, UsageError } from "@org/command-line";
import type { CommandCall } from "@org/command-line";
import { parseBindAddress } from "@org/sandbox-address";
import { tokenFrom } from "@org/sandboxd-client";
import { untilAborted } from "../compose.ts";
import type { Surroundings } from "../surroundings.ts";
import { guestTemplates } from "./interpreter.ts";
import { guestFlags } from "./node-options.ts";
import { parsePools } from "./pools.ts";
import { stateFolder } from "./state.ts";
import { readTenants } from "./tenants.ts";

const LOOPBACK = /^(127\.|localhost$|::1$)/;

/**
 * Reads the flags of `dev-node`: one development node alone.
 * @throws UsageError for flags that make no sense
 */
export function checkDevNode({ values }: CommandCall): (around: Surroundings) => Promise<void> {
  const tokenFile = textOf(values, "token-file");
  const tenantFile = textOf(values, "tenant-file");
  const open = values["open"] === true;
  if (open && (tokenFile !== "" || tenantFile !== "")) {
    throw new UsageError("--open means a node without tokens: leave --token-file and --tenant-file out");
  }
  if (!open && tokenFile === "") {
    throw new UsageError("--token-file is required: a file with the token that all nodes share");
  }
  const pool = values["pool"];
  const pools = parsePools(typeof pool === "object" ? pool : []);
  const guests = guestFlags(values);
  const advertise = textOf(values, "advertise");
  const listen = parseBindAddress(textOf(values, "listen"));
  if (listen === undefined) throw new UsageError("--listen must be host:port");
  if (open && !LOOPBACK.test(listen.host ?? "")) {
    throw new UsageError("--open lets everybody run programs: --listen must be a loopback address");
  }
  return async ({ env, signal, logger }) => {
    const token = open ? undefined : await tokenFrom("", tokenFile);
    const tenants = tenantFile === "" ? [] : await readTenants(tenantFile);
    const { startDevNode } = await import("@org/devnode");
    await using node = await startDevNode({
      ...guests,
      // Without a host every interface is meant, which the node refuses unless it is told what to advertise.
      listen: { host: listen.host ?? "", port: listen.port },
      ...(advertise === "" ? {} : { advertise }),
      peers: addressesOf(values, "peers"),
      token,
      tenants,
      pools,
      templates: await guestTemplates(),
      refuseUnpooled: values["refuse-unpooled"] === true,
      egress: values["egress"] === true,
      faults: values["allow-faults"] === true,
      stateDir: stateFolder(textOf(values, "state-dir"), env),
      logger,
    });
    logger.info(
      { func: "main.run", address: node.address, isolation: node.isolation },
      `development node up address=${node.address} isolation=${node.isolation}`,
    );
    await untilAborted(signal);
  };
}
