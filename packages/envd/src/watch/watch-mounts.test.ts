import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Code, ConnectError } from "@connectrpc/connect";
import { EventType } from "@org/envd-client";
import { describe, expect, it } from "vitest";

import { startGuest } from "../testing/guest.ts";
import { mountAt, mountFuse, unmount } from "../testing/mounts.ts";

const ON_NETWORK =
  /is on a network mount, where changes made elsewhere are not seen; allow network mounts to watch it$/;

async function failureOf(call: Promise<unknown>): Promise<ConnectError> {
  return call.then(
    () => expect.unreachable("the call was expected to fail"),
    (reason: unknown) => ConnectError.from(reason),
  );
}

describe("a directory on a network mount", () => {
  it("is refused unless the client allows it", async ({ skip }) => {
    using mount = mountFuse();
    skip(mount === undefined, "FUSE cannot be mounted here: it takes root and /dev/fuse");
    await using guest = await startGuest();
    const client = guest.filesystem({});
    const path = mount?.path ?? "";
    for (const recursive of [false, true]) {
      const polled = await failureOf(client.createWatcher({ path, recursive }));
      expect([polled.code, polled.rawMessage]).toEqual([Code.InvalidArgument, expect.stringMatching(ON_NETWORK)]);
      const stream = client.watchDir({ path, recursive });
      const streamed = await failureOf(stream[Symbol.asyncIterator]().next());
      expect([streamed.code, streamed.rawMessage]).toEqual([polled.code, polled.rawMessage]);
      const { watcherId } = await client.createWatcher({ path, recursive, allowNetworkMounts: true });
      expect((await client.getWatcherEvents({ watcherId })).events).toEqual([]);
      await client.removeWatcher({ watcherId });
    }
  });
});

describe("a directory of layers", () => {
  it("is no network mount, and tells of what is written over a lower layer", async ({ skip }) => {
    const root = await mkdtemp(join(tmpdir(), "layers-"));
    const at = (name: string): string => join(root, name);
    for (const name of ["lower", "merged", "tmpfs"]) await mkdir(at(name));
    // An upper layer must not lie on layers itself, as that of a container may.
    const mounted = mountAt(at("tmpfs"), "tmpfs", "");
    await mkdir(at("tmpfs/upper"));
    await mkdir(at("tmpfs/work"));
    const layers = `lowerdir=${at("lower")},upperdir=${at("tmpfs/upper")},workdir=${at("tmpfs/work")}`;
    const layered = mounted && mountAt(at("merged"), "overlay", layers);
    try {
      skip(!layered, "layers cannot be mounted here: it takes root");
      await writeFile(at("lower/below"), "x");
      await using guest = await startGuest();
      const client = guest.filesystem({});
      const { watcherId } = await client.createWatcher({ path: at("merged") });
      await writeFile(at("merged/new"), "");
      await writeFile(at("merged/below"), "y");
      const { events } = await client.getWatcherEvents({ watcherId });
      const told = events.map(({ type, name }) => `${EventType[type].toLowerCase()} ${name}`);
      expect(told).toEqual(expect.arrayContaining(["create new", "write below"]));
      await client.removeWatcher({ watcherId });
    } finally {
      unmount(at("merged"));
      unmount(at("tmpfs"));
      await rm(root, { recursive: true, force: true });
    }
  });
});
