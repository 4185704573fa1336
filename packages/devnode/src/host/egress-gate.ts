import { lookup } from "node:dns/promises";
import { chmodSync } from "node:fs";
import { connect, createServer, isIP, type Server, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import ipaddr from "ipaddr.js";
import { readFirstLine } from "../shared/first-line.ts";
import { joinStreams } from "../shared/join-streams.ts";
import { createSlots, type Slots } from "../shared/slots.ts";

/** What the gate asks of the host; replaced in tests. */
export interface EgressHost {
  /** Every address of a name. */
  resolve(name: string): Promise<readonly string[]>;
  dial(address: string, port: number): Socket;
  /** Addresses of the host itself. */
  ownAddresses(): readonly string[];
}

/** Options of {@link createEgressPolicy}. */
export interface EgressPolicyOptions {
  readonly host?: EgressHost | undefined;
  /** Further destinations that are refused whatever their address: the node and its peers. */
  readonly refused?: (() => readonly { readonly host: string; readonly port: number }[]) | undefined;
}

/** The way out of the guests of one node. */
export interface EgressPolicy {
  /** Addresses a guest may reach under this name, in the order to try. Empty means: denied. */
  allowed(host: string, port: number): Promise<readonly string[]>;
  dial(address: string, port: number): Socket;
}

/** Kinds of address that are somebody else's machine. All others mean this one, its link, or nobody. */
const REACHABLE = new Set(["unicast", "private", "uniqueLocal", "carrierGradeNat"]);

const systemHost: EgressHost = {
  resolve: async (name) => (await lookup(name, { all: true })).map(({ address }) => address),
  dial: (address, port) => connect({ host: address, port, allowHalfOpen: true, noDelay: true }),
  ownAddresses: () => Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map(({ address }) => address)),
};

/** IPv4 addresses in the old form of six, which `ipaddr` takes for somebody else's machine. */
const IPV4_COMPATIBLE = ipaddr.IPv6.parseCIDR("::/96");

/**
 * The plain form of an address, IPv4 where it stands for one; `undefined` for a name. A zone is dropped: only link-local
 * addresses have one, and behind a `%` a resolver may find a name.
 */
function canonical(address: string): string | undefined {
  const plain = address.replace(/%.*$/, "");
  return isIP(plain) === 0 ? undefined : ipaddr.process(plain).toNormalizedString();
}

function isElsewhere(address: string): boolean {
  const parsed = ipaddr.parse(address);
  return REACHABLE.has(parsed.range()) && !(parsed instanceof ipaddr.IPv6 && parsed.match(IPV4_COMPATIBLE));
}

function plainName(name: string): string {
  return name.toLowerCase().replace(/\.$/, "");
}

/**
 * Names that are resolved at once for all guests, one fewer than the threads that Node has for that and for files: names
 * that nobody answers must not hold up the node.
 */
const RESOLVED_AT_ONCE = 3;
/** The same for one guest, so that it leaves some to the others. */
const RESOLVED_AT_ONCE_PER_GUEST = 2;

/**
 * Decides by address, after the name was resolved, and hands out the addresses it decided about in their plain form, so
 * that a name that resolves differently a moment later leads nowhere else.
 */
export function createEgressPolicy(options: EgressPolicyOptions = {}): EgressPolicy {
  const { host = systemHost, refused = () => [] } = options;
  const slots = createSlots(RESOLVED_AT_ONCE);

  async function addressesOf(name: string): Promise<readonly string[]> {
    const address = canonical(name);
    if (address !== undefined) {
      return [address];
    }
    return slots.run(async () => (await host.resolve(name)).map(canonical).filter((found) => found !== undefined));
  }

  return {
    dial: (address, port) => host.dial(address, port),
    allowed: async (name, port) => {
      const targets = refused().filter((target) => target.port === port);
      if (targets.some((target) => plainName(target.host) === plainName(name))) {
        return [];
      }
      const addresses = await addressesOf(name);
      const own = new Set(host.ownAddresses().map(canonical));
      // A target that is given by name is one by address, too.
      const blocked = new Set(
        (await Promise.all(targets.map((target) => addressesOf(target.host).catch(() => [])))).flat(),
      );
      return addresses.filter((address) => !own.has(address) && !blocked.has(address) && isElsewhere(address));
    },
  };
}

/** One guest's gate. */
export interface EgressGate {
  /** `false` refuses every new connection; open ones are cut. */
  allow(open: boolean): void;
  close(): void;
}

const LINE_LIMIT = 300;
const LINE_TIMEOUT_MS = 10_000;
const DIAL_TIMEOUT_MS = 15_000;
const MAX_CONNECTIONS = 512;

/**
 * Listens at `path`, which is bound into one guest. Each connection says `port host` and becomes that connection after
 * `ok`; `denied` and `failed` end it.
 */
export function openEgressGate(path: string, policy: EgressPolicy): Promise<EgressGate> {
  const sockets = new Set<Socket>();
  const slots = createSlots(RESOLVED_AT_ONCE_PER_GUEST);
  let enabled = true;
  const server: Server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
    socket.on("error", () => socket.destroy());
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    serve(socket, policy, slots, () => enabled).catch(() => socket.destroy());
  });
  server.maxConnections = MAX_CONNECTIONS;
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(path, () => {
      server.off("error", reject);
      server.on("error", () => undefined);
      // The folder around it is private; inside a guest any of its users may connect.
      chmodSync(path, 0o666);
      resolve({
        allow: (open) => {
          enabled = open;
          if (!open) {
            for (const socket of sockets) {
              socket.destroy();
            }
          }
        },
        close: () => {
          server.close();
          for (const socket of sockets) {
            socket.destroy();
          }
        },
      });
    });
  });
}

async function serve(socket: Socket, policy: EgressPolicy, slots: Slots, enabled: () => boolean): Promise<void> {
  const line = await readFirstLine(socket, LINE_LIMIT, LINE_TIMEOUT_MS);
  const match = /^([0-9]{1,5}) ([\w.:%-]{1,255})$/.exec(line);
  const [, portText = "", host = ""] = match ?? [];
  const port = Number(portText);
  if (match === null || port < 1 || port > 65_535 || !enabled()) {
    socket.end("denied\n");
    return;
  }
  let addresses: readonly string[];
  try {
    addresses =
      canonical(host) === undefined
        ? // Whoever has left while it waited asks nothing any more.
          await slots.run(async () => (socket.destroyed ? [] : policy.allowed(host, port)))
        : await policy.allowed(host, port);
  } catch {
    socket.end("failed\n");
    return;
  }
  if (addresses.length === 0) {
    socket.end("denied\n");
    return;
  }
  for (const address of addresses) {
    const upstream = await dial(policy, address, port);
    if (upstream !== undefined) {
      if (socket.destroyed || !enabled()) {
        upstream.destroy();
        socket.destroy();
        return;
      }
      socket.write("ok\n");
      joinStreams(socket, upstream);
      return;
    }
  }
  socket.end("failed\n");
}

function dial(policy: EgressPolicy, address: string, port: number): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const upstream = policy.dial(address, port);
    const timer = setTimeout(() => upstream.destroy(new Error("connect timed out")), DIAL_TIMEOUT_MS);
    const onError = (): void => {
      clearTimeout(timer);
      upstream.destroy();
      resolve(undefined);
    };
    upstream.once("error", onError);
    upstream.once("connect", () => {
      clearTimeout(timer);
      upstream.off("error", onError);
      resolve(upstream);
    });
  });
}
