import type { InfoReply } from "@org/sandboxd-client/wire";
import { type Finding, findingsOf } from "./finding.ts";
import type { NodeAnswer } from "./fleet.ts";

/** A name that clients create sandboxes under, and what it stands for. */
export interface AliasedTemplate {
  readonly alias: string;
  readonly image: string;
  readonly size: string;
}

/** Whether each template that clients may name is kept warm somewhere. */
export function poolFindings(answers: readonly NodeAnswer[], aliases: readonly AliasedTemplate[]): Finding[] {
  const { ok, fault, warning } = findingsOf("pools");
  const infos = answers.flatMap(({ info }) => (info === undefined ? [] : [info]));
  if (infos.length === 0) return [];
  if (infos.every(({ pools, templates }) => pools.length === 0 && templates.length === 0)) {
    return [fault("no node keeps any pool", "give the nodes pools in their configuration, or by PUT /v1/pools")];
  }
  const found = aliases.map((alias) => {
    const { warm, target, promoted } = countsOf(alias, infos);
    const name = `template ${alias.alias} (${alias.image}, ${alias.size})`;
    if (target === 0 && promoted === 0) {
      const other = sizesOf(alias.image, infos);
      return fault(
        `no node serves ${name}`,
        other.length > 0
          ? `the nodes have it as ${other.join(", ")}: mend the size in the alias file, or give a node such a pool`
          : `give a node a pool of ${alias.image}, or mend the image in the alias file`,
      );
    }
    if (warm === 0 && target > 0) {
      return warning(
        `no sandbox of ${name} is warm now, ${target} are wanted`,
        "wait for the refill; if it lasts, look at the nodes' logs",
      );
    }
    return ok(`${name}: ${warm} of ${target} warm${promoted > 0 ? `, promoted on ${promoted} nodes` : ""}`);
  });
  const named = new Set(aliases.map(({ image }) => image));
  const unnamed = [...new Set(infos.flatMap(({ pools }) => pools.map(({ key }) => key.template)))].filter(
    (image) => !named.has(image),
  );
  const hint =
    unnamed.length === 0 || aliases.length === 0
      ? []
      : [
          warning(
            `no alias leads to the pools of ${unnamed.join(", ")}`,
            "add a line to the alias file, unless clients name the image itself",
          ),
        ];
  const none =
    aliases.length === 0
      ? [
          warning(
            'no aliases are given, so that Sandbox.create() without a template, which asks for "base", finds none',
            "give --e2b-template-aliases a file with a line such as: base <image> small",
          ),
        ]
      : aliases.some(({ alias }) => alias === "base")
        ? []
        : [
            warning(
              'no alias is called "base", which Sandbox.create() asks for when no template is named',
              "add: base <image> small",
            ),
          ];
  return [...found, ...hint, ...none];
}

interface Counts {
  readonly warm: number;
  readonly target: number;
  /** How many nodes hold it as a promoted template. */
  readonly promoted: number;
}

function countsOf({ image, size }: AliasedTemplate, infos: readonly InfoReply[]): Counts {
  let [warm, target, promoted] = [0, 0, 0];
  for (const { pools, templates } of infos) {
    for (const pool of pools) {
      if (pool.key.template === image && pool.key.size === size) {
        warm += pool.warm;
        target += pool.target;
      }
    }
    if (templates.some(({ key }) => key.template === image && key.size === size)) promoted += 1;
  }
  return { warm, target, promoted };
}

function sizesOf(image: string, infos: readonly InfoReply[]): string[] {
  const keys = infos.flatMap(({ pools, templates }) => [...pools, ...templates].map(({ key }) => key));
  return [...new Set(keys.filter(({ template }) => template === image).map(({ size }) => size))];
}
