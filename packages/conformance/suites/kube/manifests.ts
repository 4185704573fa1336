import { IMAGE } from "../../src/rig.ts";

/** Choices of {@link sandbox}. */
export interface SandboxChoices {
  readonly name?: string;
  readonly generateName?: string;
  readonly namespace?: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly labels?: Readonly<Record<string, string>>;
  readonly image?: string;
  /** Merged into the spec. */
  readonly spec?: Readonly<Record<string, unknown>>;
}

/** Group and version of the API. */
export const GROUP_VERSION = "agents.x-k8s.io/v1beta1";

/** A Sandbox of the rigs' image, as JSON, which is YAML as well. Its lease is two minutes. */
export function sandbox(choices: SandboxChoices = {}): string {
  const { name, generateName, namespace, annotations, labels, image = IMAGE, spec } = choices;
  return JSON.stringify({
    apiVersion: GROUP_VERSION,
    kind: "Sandbox",
    metadata: {
      ...(name === undefined ? {} : { name }),
      ...(generateName === undefined ? {} : { generateName }),
      ...(namespace === undefined ? {} : { namespace }),
      ...(labels === undefined ? {} : { labels }),
      annotations: { "sandbox.cocoonstack.io/ttl-seconds": "120", ...annotations },
    },
    spec: { podTemplate: { spec: { containers: [{ name: "main", image }] } }, ...spec },
  });
}
