const text = { type: "string" };
const time = { type: "string", format: "date-time" };
const count = { type: "integer", format: "int64" };
const list = (required: readonly string[] | undefined, properties: object): object => ({
  type: "array",
  "x-kubernetes-list-type": "atomic",
  items: { type: "object", ...(required === undefined ? {} : { required }), properties },
});

/** The resource definition of NodeInventory, without descriptions. */
export const resourceDefinition: unknown = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "nodeinventories.sandbox.cocoonstack.io" },
  spec: {
    group: "sandbox.cocoonstack.io",
    scope: "Cluster",
    names: {
      kind: "NodeInventory",
      listKind: "NodeInventoryList",
      plural: "nodeinventories",
      singular: "nodeinventory",
    },
    versions: [
      {
        name: "v1beta1",
        served: true,
        storage: true,
        additionalPrinterColumns: [
          { name: "Node", type: "string", jsonPath: ".node" },
          { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
        ],
        schema: {
          openAPIV3Schema: {
            type: "object",
            required: ["node"],
            properties: {
              apiVersion: text,
              kind: text,
              metadata: { type: "object" },
              node: text,
              address: text,
              publishedAt: time,
              entries: list(["name", "phase"], {
                name: text,
                id: text,
                phase: text,
                template: text,
                claimRef: text,
                addr: text,
                deadline: time,
                claimedAt: time,
                claimMetadata: text,
                cpuCount: count,
                memoryBytes: count,
              }),
              pools: list(["template", "warm", "target"], {
                template: text,
                net: text,
                size: text,
                warm: count,
                target: count,
              }),
              templates: list(undefined, {
                template: text,
                net: text,
                size: text,
                contentDigest: text,
                tenant: text,
                createdAt: time,
                cpuCount: count,
                memoryBytes: count,
                labels: { type: "object", additionalProperties: text },
              }),
            },
          },
        },
      },
    ],
  },
};
