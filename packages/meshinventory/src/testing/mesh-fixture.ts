import type { Logger } from "@org/scale";
import { afterEach } from "vitest";
import { MeshInventory, MeshStartError, type MeshInventoryOptions } from "../index.ts";
import { FakeMesh, type FakeNode } from "./fake-mesh.ts";

const HOUR: number = 3_600_000;
export const MAX_STALE: number = 3;

let life = new AbortController();
afterEach(() => {
  life.abort();
  life = new AbortController();
});

/** Ends what the running test has started. */
export function currentLife(): AbortController {
  return life;
}

export type Line = { readonly level: string; readonly message: string } & Record<string, unknown>;

export function recorder(): { readonly lines: Line[]; readonly logger: Logger } {
  const lines: Line[] = [];
  const log = (level: string) => (fields: object, message: string) => {
    lines.push({ ...fields, level, message });
  };
  return { lines, logger: { debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") } };
}

export function start(
  mesh: FakeMesh,
  seeds: readonly string[],
  more: Partial<MeshInventoryOptions> = {},
): Promise<MeshInventory> {
  return MeshInventory.start({ seeds, dial: mesh.dial, pollIntervalMs: HOUR, signal: life.signal, ...more });
}

export async function startFailure(mesh: FakeMesh, seeds: readonly string[]): Promise<MeshStartError> {
  const error: unknown = await start(mesh, seeds).then(
    () => new Error("did start"),
    (reason: unknown) => reason,
  );
  if (!(error instanceof MeshStartError)) {
    throw error;
  }
  return error;
}

export async function ticks(inventory: MeshInventory, count: number): Promise<void> {
  for (let tick = 0; tick < count; tick += 1) {
    await inventory.tick();
  }
}

export function addresses(inventory: MeshInventory): string[] {
  return inventory.members().map((member) => member.address);
}

export function failsOf(inventory: MeshInventory, address: string): number | undefined {
  return inventory.members().find((member) => member.address === address)?.fails;
}

/** Two nodes that name each other, a first. */
export function pair(): { mesh: FakeMesh; a: FakeNode; b: FakeNode } {
  const mesh = new FakeMesh();
  return { mesh, a: mesh.add("a:1", ["b:1"]), b: mesh.add("b:1", ["a:1"]) };
}
