import { readFile } from "node:fs/promises";

import type { NodeTargetOptions } from "./node-target.ts";

/** Where `--suite node` goes, as the command line says. */
export interface NodeArgs {
  readonly url: string;
  readonly token: string | undefined;
  readonly tokenFile: string | undefined;
  readonly peerUrls: readonly string[];
  readonly tenantTokenFile: string | undefined;
  readonly template: string | undefined;
  readonly maxClaims: number | undefined;
  readonly keepPools: boolean;
}

/** The flags of a node address, for `parseArgs`. */
export const NODE_OPTIONS = {
  url: { type: "string" },
  token: { type: "string" },
  "token-file": { type: "string" },
  "peer-url": { type: "string", multiple: true },
  "tenant-token-file": { type: "string" },
  template: { type: "string" },
  "max-claims": { type: "string" },
  "keep-pools": { type: "boolean" },
} as const;

/** Their part of the usage text. */
export const NODE_USAGE = `
  --suite node takes the address of any node; without one it starts its own:

  --url                http://host:port of the node
  --token              its root token, which other users of this machine can see; or
  --token-file         a file with it; neither means an open node
  --peer-url           another node of its mesh; may be given several times (default: the peers it names)
  --tenant-token-file  a file with a tenant's token, for the rows about tenants
  --template           template to claim (default: that of one of its pools)
  --max-claims         the node's own limit, when it is small enough to be filled
  --keep-pools         skip the rows that change pools
`;

/** What `parseArgs` made of {@link NODE_OPTIONS}. */
export interface NodeValues {
  readonly url?: string | undefined;
  readonly token?: string | undefined;
  readonly "token-file"?: string | undefined;
  readonly "peer-url"?: readonly string[] | undefined;
  readonly "tenant-token-file"?: string | undefined;
  readonly template?: string | undefined;
  readonly "max-claims"?: string | undefined;
  readonly "keep-pools"?: boolean | undefined;
}

/** Reads the flags. Undefined without `--url`. Throws an error for flags that do not go together. */
export function readNodeArgs(suite: string, values: NodeValues): NodeArgs | undefined {
  const { url } = values;
  const given = Object.keys(NODE_OPTIONS).filter((name) => values[name as keyof NodeValues] !== undefined);
  if (given.length > 0 && suite !== "node") {
    throw new Error(`--${given[0]} belongs to --suite node`);
  }
  if (url === undefined) {
    if (given.length > 0) {
      throw new Error(`--${given[0]} wants --url: without one the suite starts nodes of its own`);
    }
    return undefined;
  }
  if (values.token !== undefined && values["token-file"] !== undefined) {
    throw new Error("--token and --token-file say the same: give one of them");
  }
  const limit = values["max-claims"];
  if (limit !== undefined && !/^[1-9]\d{0,8}$/.test(limit)) {
    throw new Error(`--max-claims must be a number above 0, not ${JSON.stringify(limit)}`);
  }
  return {
    url,
    token: values.token,
    tokenFile: values["token-file"],
    peerUrls: values["peer-url"] ?? [],
    tenantTokenFile: values["tenant-token-file"],
    template: values.template,
    maxClaims: limit === undefined ? undefined : Number(limit),
    keepPools: values["keep-pools"] ?? false,
  };
}

/** Reads the files that the flags name. Throws an error with the file's name. */
export async function loadNodeTarget(args: NodeArgs): Promise<NodeTargetOptions> {
  return {
    url: args.url,
    token: args.tokenFile === undefined ? args.token : await secretIn(args.tokenFile),
    peerUrls: args.peerUrls,
    tenantToken: args.tenantTokenFile === undefined ? undefined : await secretIn(args.tenantTokenFile),
    template: args.template,
    maxClaims: args.maxClaims,
    keepPools: args.keepPools,
  };
}

async function secretIn(file: string): Promise<string> {
  let text: string;
  try {
    text = (await readFile(file, "utf8")).trim();
  } catch (cause) {
    throw new Error(`read token file ${JSON.stringify(file)}: ${cause instanceof Error ? cause.message : "failed"}`, {
      cause,
    });
  }
  if (text === "" || /\s/.test(text)) {
    throw new Error(`token file ${JSON.stringify(file)} must hold a token alone`);
  }
  return text;
}
