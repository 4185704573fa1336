import { isIP } from "node:net";
import { type Finding, findingsOf } from "./finding.ts";
import { askNode, type FleetQuestion, type NodeAnswer } from "./fleet.ts";

/** Beyond this, lease ends that clients are told are visibly wrong. */
const CLOCK_WARNING_MS = 5_000;
/** Beyond this, sandboxes with the shortest useful timeout end before they can be used, or long after they should. */
const CLOCK_FAULT_MS = 60_000;

/** Whether each address answers, and answers as a node. */
export function reachFindings(answers: readonly NodeAnswer[]): Finding[] {
  const { ok, fault, warning } = findingsOf("nodes");
  return answers.flatMap(({ address, seed, info, error }): Finding[] => {
    const what = seed ? `seed ${address}` : `node ${address}`;
    if (info !== undefined) {
      if (info.draining === true)
        return [warning(`${what} is draining: it takes no sandboxes`, "undrain it: DELETE /v1/drain")];
      if (info.at_capacity === true) {
        return [
          warning(
            `${what} is at its capacity: ${info.at_capacity_reason ?? "no reason given"}`,
            "add a node, or raise its limits",
          ),
        ];
      }
      return [ok(`${what} answers: ${info.claimed} sandboxes`)];
    }
    // The token has a check of its own.
    if (error?.status === 401 || error?.status === 403) return [];
    const tell = seed ? fault : warning;
    if (error?.code === "unreachable") {
      return [tell(`${what} cannot be reached: ${error.message}`, reachFix(error.message, seed))];
    }
    if (error?.code === "timeout") {
      return [tell(`${what} does not answer in time`, "look at the node's load and log; restart sandboxd if it hangs")];
    }
    if (error?.code === "bad_request") {
      return [tell(`${what} is no address: ${error.message}`, "write host:port, or an http(s) origin")];
    }
    return [
      tell(
        `${what} does not answer as sandboxd: ${error?.message ?? "no answer"}`,
        "give the address of the node's API, and not that of another service",
      ),
    ];
  });
}

function reachFix(message: string, seed: boolean): string {
  if (/ENOTFOUND|EAI_AGAIN/.test(message)) return "mend the name in DNS or /etc/hosts, or give an IP address";
  if (/ECONNREFUSED/.test(message)) return "start sandboxd there, or mend the port";
  if (/certificate|self-signed|self signed|TLS|SSL/i.test(message)) {
    return "give the nodes' certificate authority with --sandboxd-ca-file, or http:// if they speak no TLS";
  }
  return seed
    ? "mend the address, or open the port in the firewall between this machine and the node"
    : "open the port between this machine and every node: claims go to the node itself";
}

/** Whether the token is the one the fleet wants, and whether it is wanted at all. */
export async function tokenFindings(answers: readonly NodeAnswer[], question: FleetQuestion): Promise<Finding[]> {
  const { ok, fault, warning } = findingsOf("token");
  const found: Finding[] = [];
  for (const { address, error } of answers) {
    if (error?.status === 401) {
      found.push(
        question.token === ""
          ? fault(
              `node ${address} wants a token and none is given`,
              "give the fleet's root api_token with --sandboxd-token-file",
            )
          : fault(
              `node ${address} refuses the token`,
              "give the root api_token of this very node: all nodes of a mesh share one",
            ),
      );
    } else if (error?.status === 403) {
      found.push(
        fault(
          `node ${address} takes the token for a tenant's`,
          "give the fleet's root api_token: a tenant's cannot read the inventory",
        ),
      );
    }
  }
  const answering = answers.find(({ info }) => info !== undefined);
  if (answering === undefined || found.length > 0) return found;
  const open = await askNode(answering.address, false, { ...question, token: "" });
  if (open.info === undefined) return [ok("every node takes the token")];
  return [
    question.token === ""
      ? warning(
          "the nodes are open: everybody who reaches them owns every sandbox",
          "set api_token on the nodes, and --sandboxd-token-file here",
        )
      : warning("the nodes take requests without a token as well", "set api_token on the nodes"),
  ];
}

/** Whether the addresses that nodes give themselves lead back to them. */
export async function addressFindings(answers: readonly NodeAnswer[], question: FleetQuestion): Promise<Finding[]> {
  const { ok, fault, warning } = findingsOf("addresses");
  const found = await Promise.all(
    answers.map(async ({ address, info }): Promise<Finding | undefined> => {
      if (info === undefined) return undefined;
      const own = info.advertise_addr ?? "";
      if (own === "") {
        return fault(
          `node ${address} advertises no address`,
          "set advertise_addr (or client_advertise) in the node's configuration to a host:port that other machines reach",
        );
      }
      if (isLoopback(own) && answers.length > 1 && !answers.every((answer) => isLoopback(answer.address))) {
        return fault(
          `node ${address} advertises the loopback address ${own}`,
          "set its advertise_addr to an address that other machines reach",
        );
      }
      if (own === address) return undefined;
      const there = await askNode(own, false, question);
      if (there.info === undefined) {
        return fault(
          `node ${address} advertises ${own}, which cannot be used from here: ${there.error?.message ?? "no answer"}`,
          "set advertise_addr to an address that this machine reaches: claims are sent there, only polls go to the seed",
        );
      }
      if (there.info.advertise_addr !== own) {
        return fault(
          `node ${address} advertises ${own}, where another node answers (${there.info.advertise_addr ?? "without an address"})`,
          "give each node an advertise_addr of its own",
        );
      }
      return undefined;
    }),
  );
  const twice = doubled(answers.flatMap(({ info }) => info?.advertise_addr ?? []));
  const faults = found.filter((finding) => finding !== undefined);
  const doubles = twice.map((own) =>
    warning(
      `several addresses lead to the node that calls itself ${own}`,
      "list each node once in --sandboxd-seeds, under its own address",
    ),
  );
  const any = answers.some(({ info }) => info !== undefined);
  return [
    ...faults,
    ...doubles,
    ...(any && faults.length + doubles.length === 0 ? [ok("every node is reached under its own address")] : []),
  ];
}

/** Whether the nodes know each other. */
export function meshFindings(answers: readonly NodeAnswer[]): Finding[] {
  const { ok, fault } = findingsOf("mesh");
  const nodes = answers.flatMap(({ info }) => (info?.advertise_addr === undefined ? [] : [info]));
  if (nodes.length < 2) return [];
  const found = nodes.flatMap((node) => {
    const strangers = nodes.filter(
      (other) =>
        other !== node &&
        other.advertise_addr !== node.advertise_addr &&
        !node.peers.includes(other.advertise_addr ?? ""),
    );
    return strangers.length === 0
      ? []
      : [
          fault(
            `node ${node.advertise_addr} does not know ${strangers.map((other) => other.advertise_addr).join(", ")}`,
            "let its mesh join theirs: without it a full node cannot send claims to the others",
          ),
        ];
  });
  return found.length > 0 ? found : [ok(`${nodes.length} nodes know each other`)];
}

/** Whether the nodes' clocks go with ours. */
export function clockFindings(answers: readonly NodeAnswer[]): Finding[] {
  const { ok, fault, warning } = findingsOf("clocks");
  const timed = answers.flatMap(({ address, clockAheadMs }) =>
    clockAheadMs === undefined ? [] : [{ address, clockAheadMs }],
  );
  if (timed.length === 0) return [];
  const off = timed.filter(({ clockAheadMs }) => Math.abs(clockAheadMs) > CLOCK_WARNING_MS);
  if (off.length === 0) return [ok("the clocks of the nodes and of this machine agree")];
  return off.map(({ address, clockAheadMs }) => {
    const seconds = Math.round(Math.abs(clockAheadMs) / 1000);
    const message = `the clock of node ${address} is ${seconds} s ${clockAheadMs > 0 ? "ahead of" : "behind"} this machine's`;
    const fix = "run a time service (chrony, systemd-timesyncd) on both: leases end by the node's clock";
    return Math.abs(clockAheadMs) > CLOCK_FAULT_MS ? fault(message, fix) : warning(message, fix);
  });
}

function isLoopback(address: string): boolean {
  const host = address
    .replace(/^https?:\/\//, "")
    .replace(/:\d+$/, "")
    .replace(/^\[(.*)\]$/, "$1");
  return host === "localhost" || (isIP(host) === 4 ? host.startsWith("127.") : host === "::1");
}

function doubled(values: readonly string[]): string[] {
  return [...new Set(values.filter((value, index) => values.indexOf(value) !== index))];
}
