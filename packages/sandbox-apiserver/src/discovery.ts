import { createHash } from "node:crypto";
import type { ApiCall, ApiHandler } from "./api-call.ts";
import { objectAnswer } from "./answer.ts";
import { notAcceptable } from "./api-status.ts";
import { GROUP, GROUP_VERSION, VERSION } from "./group.ts";
import { acceptClauses, ANSWER_TYPES } from "./negotiation.ts";
import type { AcceptClause } from "./negotiation.ts";
import { RESOURCE_TABLE } from "./resource-table.ts";

const DISCOVERY_GROUP = "apidiscovery.k8s.io";
const DISCOVERY_KIND = "APIGroupDiscoveryList";
const AGGREGATED_TYPE = `application/json;g=${DISCOVERY_GROUP};v=v2;as=${DISCOVERY_KIND}`;

const GROUP_VERSION_ENTRY = { groupVersion: GROUP_VERSION, version: VERSION };

/** Documents that tell clients what there is. Kube specification §2.2. */
export interface Discovery {
  /** `/apis`, in both forms. */
  readonly groups: ApiHandler;
  readonly group: ApiHandler;
  readonly resources: ApiHandler;
}

/** Builds the documents. `serverAddress` is what clients are told to ask; else what they asked. */
export function createDiscovery(serverAddress: string | undefined): Discovery {
  const aggregated = JSON.stringify(aggregatedDocument());
  const etag = `"${createHash("sha512").update(aggregated).digest("hex").toUpperCase()}"`;
  const groupEntry = ({ host }: ApiCall): object => ({
    name: GROUP,
    versions: [GROUP_VERSION_ENTRY],
    preferredVersion: GROUP_VERSION_ENTRY,
    serverAddressByClientCIDRs: [{ clientCIDR: "0.0.0.0/0", serverAddress: serverAddress ?? host }],
  });
  return {
    groups: (call) => {
      for (const clause of acceptClauses(call.accept)) {
        if (isAggregated(clause)) {
          return aggregatedAnswer(call);
        }
        if (isPlain(clause)) {
          return objectAnswer({ kind: "APIGroupList", groups: [groupEntry(call)] }, call.negotiated(), {
            headers: { vary: "Accept" },
          });
        }
      }
      throw notAcceptable(ANSWER_TYPES);
    },
    group: (call) => objectAnswer({ kind: "APIGroup", apiVersion: "v1", ...groupEntry(call) }, call.negotiated()),
    resources: (call) => objectAnswer(resourceList(), call.negotiated()),
  };

  function aggregatedAnswer({ ifNoneMatch = "" }: ApiCall): Response {
    const headers = { etag, vary: "Accept", "cache-control": "public" };
    const known = ifNoneMatch.split(",").some((one) => one.trim().replace(/^W\//, "") === etag);
    return known || ifNoneMatch.trim() === "*"
      ? new Response(null, { status: 304, headers })
      : new Response(aggregated, { headers: { ...headers, "content-type": AGGREGATED_TYPE } });
  }
}

function isAggregated({ type, parameters }: AcceptClause): boolean {
  return (
    type === "application/json" &&
    parameters.get("g") === DISCOVERY_GROUP &&
    parameters.get("v") === "v2" &&
    parameters.get("as") === DISCOVERY_KIND
  );
}

function isPlain({ type, parameters }: AcceptClause): boolean {
  return !parameters.has("as") && (ANSWER_TYPES.includes(type) || type === "*/*" || type === "application/*");
}

function resourceList(): object {
  const { name, singular, kind, verbs, shortNames, categories, subresources } = RESOURCE_TABLE;
  return {
    kind: "APIResourceList",
    apiVersion: "v1",
    groupVersion: GROUP_VERSION,
    resources: [
      { name, singularName: singular, namespaced: true, kind, verbs, shortNames, categories },
      ...subresources.map((sub) => ({
        name: `${name}/${sub.name}`,
        singularName: "",
        namespaced: true,
        group: GROUP,
        version: VERSION,
        kind: sub.kind,
        verbs: ["create"],
      })),
    ],
  };
}

function aggregatedDocument(): object {
  const { name, singular, kind, verbs, shortNames, categories, subresources } = RESOURCE_TABLE;
  const responseKind = (of: string): object => ({ group: GROUP, version: VERSION, kind: of });
  return {
    kind: DISCOVERY_KIND,
    apiVersion: `${DISCOVERY_GROUP}/v2`,
    metadata: {},
    items: [
      {
        metadata: { name: GROUP, creationTimestamp: null },
        versions: [
          {
            version: VERSION,
            freshness: "Current",
            resources: [
              {
                resource: name,
                responseKind: responseKind(kind),
                scope: "Namespaced",
                singularResource: singular,
                shortNames,
                categories,
                verbs,
                subresources: subresources.map((sub) => ({
                  subresource: sub.name,
                  responseKind: responseKind(sub.kind),
                  verbs: ["create"],
                })),
              },
            ],
          },
        ],
      },
    ],
  };
}
