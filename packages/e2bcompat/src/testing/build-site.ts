import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, vi } from "vitest";
import { buildDaemon } from "./build-daemon.ts";
import type { BuildDaemon, Ran, RanCommand } from "./build-daemon.ts";
import { createFleet, IMAGE } from "./fleet.ts";
import type { Fleet, FleetOptions, Reply } from "./fleet.ts";

export const HASH: string = "ab".repeat(32);

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "builds-"));
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

/** Where the uploads of the running test go. */
export function uploadFolder(): string {
  return directory;
}

/** A fleet with builds on. */
export interface Site {
  readonly fleet: Fleet;
  readonly daemon: BuildDaemon;
}

/** What a test changes of it. */
export interface SiteOptions extends FleetOptions {
  readonly play?: (command: RanCommand) => Ran | undefined;
  readonly keepsBoot?: boolean;
}

/** A fleet with builds on, whose guests play commands. Nothing of it may be left when the test ends. */
export function site({ play = usual, keepsBoot, ...options }: SiteOptions = {}): Site {
  const fleet = createFleet({
    envdSecret: "s3cret",
    builds: { uploads: { directory, maxBytes: 16 } },
    ...options,
  });
  onTestFinished(() => fleet.server.settled());
  return { fleet, daemon: buildDaemon(fleet.node, play, keepsBoot === undefined ? {} : { keepsBoot }) };
}

/** Users are there, and the environment has a home. */
export function usual({ text, args }: RanCommand): Ran | undefined {
  if (text === "env -0") {
    return { stdout: "HOME=/home/user\0PATH=/bin\0" };
  }
  return text.includes("useradd") ? { stdout: `${args[0]}\n` } : undefined;
}

/** What plays first, and the usual for the rest. */
export const but =
  (texts: Readonly<Record<string, Ran>>) =>
  (command: RanCommand): Ran | undefined =>
    texts[command.text] ?? usual(command);

/** Asks for a build and gives its id. */
export async function request(fleet: Fleet, body: object = {}): Promise<string> {
  const reply = await fleet.send("POST", "/v3/templates", { name: "mine", ...body });
  expect(reply.status).toBe(202);
  return reply.body.buildID as string;
}

export function start(fleet: Fleet, buildId: string, body: object = {}): Promise<Reply> {
  return fleet.send("POST", `/v2/templates/mine/builds/${buildId}`, { fromImage: IMAGE, steps: [], ...body });
}

export function status(fleet: Fleet, buildId: string, query = ""): Promise<Reply> {
  return fleet.send("GET", `/templates/mine/builds/${buildId}/status${query}`);
}

/** Waits for the end and gives the last status. */
export async function ended(fleet: Fleet, buildId: string): Promise<Reply> {
  return vi.waitFor(
    async () => {
      const reply = await status(fleet, buildId);
      expect(["ready", "error"]).toContain(reply.body.status);
      return reply;
    },
    { timeout: 20_000, interval: 10 },
  );
}

/** Builds from request to end. */
export async function build(fleet: Fleet, body: object = {}, asked: object = {}): Promise<Reply> {
  const buildId = await request(fleet, asked);
  const started = await start(fleet, buildId, body);
  expect([started.status, started.text, started.headers.get("content-length")]).toStrictEqual([202, "", "0"]);
  const reply = await ended(fleet, buildId);
  // In every case.
  expect(fleet.node.sandboxes).toStrictEqual([]);
  return reply;
}

/** A RUN step. */
export const run = (...args: readonly string[]): object => ({ type: "RUN", args, force: false });
