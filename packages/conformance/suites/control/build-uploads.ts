import assert from "node:assert/strict";
import { mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { BuildError, Sandbox, Template, type TemplateClass } from "e2b-2.51";

import { callApi, expectError } from "../../src/api.ts";
import type { Front } from "../../src/front.ts";
import { buildFlags, type GuestMesh, noSandboxLeft } from "../../src/guest-mesh.ts";
import type { HarnessRow } from "../../src/harness-rows.ts";
import { type ObjectStore, startObjectStore } from "../../src/object-store.ts";
import { waitFor } from "../../src/polling.ts";
import { IMAGE } from "../../src/rig.ts";
import { sdkOptions } from "../faults/context.ts";
import { type ControlContext, type HeldRows, laneMesh } from "./context.ts";

const HASH = "c0ffee".padEnd(64, "0");
const SIZE = 1 << 20;

/** Where a front wants the files of a COPY step. */
async function linkOf(front: Front, name: string): Promise<{ present: boolean; url?: string }> {
  const reply = await callApi(front.facts, "GET", `/templates/${name}/files/${HASH}`);
  assert.equal(reply.status, 201, reply.text);
  return JSON.parse(reply.text) as { present: boolean; url?: string };
}

/** An upload that has sent half of what it announced and then waits for what is done with it. */
async function halfUpload(url: string): Promise<{ readonly breakOff: () => Promise<void> }> {
  const upload = httpRequest(url, { method: "PUT", headers: { "content-length": String(SIZE) } });
  const closed = new Promise<void>((resolve) => upload.once("close", resolve));
  upload.on("error", () => undefined);
  await new Promise<void>((resolve) => upload.write(Buffer.alloc(SIZE / 2, "x"), () => resolve()));
  return {
    breakOff: async () => {
      upload.destroy();
      await closed;
    },
  };
}

/** BU1 to BU5: files of COPY steps that come in halves, or whose store fails. */
export function buildUploadRows(context: ControlContext): HeldRows {
  const held = laneMesh(context, "build-uploads", { nodes: 1, warm: 4 });
  let folder: Promise<string> | undefined;
  let store: Promise<ObjectStore> | undefined;

  const copying = async (): Promise<TemplateClass> => {
    folder ??= (async () => {
      const dir = await mkdtemp(join(tmpdir(), "conformance-copy-"));
      await writeFile(join(dir, "file.txt"), "copied\n");
      return dir;
    })();
    return Template({ fileContextPath: await folder })
      .fromImage(IMAGE)
      .copy("file.txt", "/srv/file.txt");
  };
  const bucketFlags = async (mesh: GuestMesh): Promise<{ flags: readonly string[]; objects: ObjectStore }> => {
    const objects = await (store ??= startObjectStore());
    const credentials = join(mesh.files.dir, "credentials");
    const lines = ["[default]", "aws_access_key_id = key-of-the-store", "aws_secret_access_key = its-secret", ""];
    await writeFile(credentials, lines.join("\n"), { mode: 0o600 });
    const flag = "--e2b-build-store-s3";
    return {
      objects,
      flags: [
        "--e2b-builds=true",
        `${flag}-bucket=files`,
        `${flag}-endpoint=${objects.origin}`,
        `${flag}-force-path-style=true`,
        `${flag}-credentials-file=${credentials}`,
      ],
    };
  };
  const uploads = (mesh: GuestMesh, name: string): Promise<string[]> => {
    return readdir(join(mesh.files.dir, "uploads", "ns1", name)).catch(() => []);
  };
  /** Builds with a file, and uses what was built. */
  const buildsWhole = async (front: Front, mesh: GuestMesh, name: string): Promise<void> => {
    const options = sdkOptions(front);
    await Template.build(await copying(), name, options);
    const sandbox = await Sandbox.create(name, { ...options, timeoutMs: 60_000 });
    assert.equal((await sandbox.commands.run("cat /srv/file.txt")).stdout, "copied\n");
    await sandbox.kill();
    assert.equal((await callApi(front.facts, "DELETE", `/templates/${name}`)).status, 204);
    await noSandboxLeft(mesh, "ns1", 2_000);
  };
  /** A build whose files never came. */
  const failsWithoutFiles = async (front: Front, mesh: GuestMesh, name: string, why: RegExp): Promise<void> => {
    const asked = await callApi(front.facts, "POST", "/v3/templates", { body: { name } });
    const { buildID } = JSON.parse(asked.text) as { buildID: string };
    const steps = [{ type: "COPY", args: ["a", "/srv/a", "", ""], filesHash: HASH }];
    const body = { fromImage: IMAGE, steps };
    const start = await callApi(front.facts, "POST", `/v2/templates/${name}/builds/${buildID}`, { body });
    assert.equal(start.status, 202, start.text);
    const status = await waitFor(
      "the end of the build",
      async () => {
        const reply = await callApi(front.facts, "GET", `/templates/${name}/builds/${buildID}/status`);
        const seen = JSON.parse(reply.text) as { status: string; reason?: { message: string; step: string } };
        return seen.status === "building" ? undefined : seen;
      },
      30_000,
    );
    assert.equal(status.status, "error");
    assert.equal(status.reason?.step, "1");
    assert.match(status.reason.message, why);
    await noSandboxLeft(mesh, "ns1", 2_000);
    assert.deepEqual(await mesh.templates("ns1"), []);
  };

  const rows: HarnessRow[] = [
    {
      id: "BU1",
      title: "folder: an upload that breaks off leaves nothing, and its build says that the files are not there",
      run: async () => {
        const mesh = await held.mesh();
        const front = await mesh.front({ flags: buildFlags(mesh.files) });
        const { present, url = "" } = await linkOf(front, "bu1");
        assert.equal(present, false);
        const upload = await halfUpload(url);
        await waitFor("the half of it", async () => (await uploads(mesh, "bu1")).length === 1, 5_000);
        assert.equal((await linkOf(front, "bu1")).present, false, "a half is not there");
        await upload.breakOff();
        await waitFor("its end", async () => (await uploads(mesh, "bu1")).length === 0, 5_000);
        await failsWithoutFiles(front, mesh, "bu1", /step 1 \(COPY\) failed: the files were not uploaded/);
        await buildsWhole(front, mesh, "bu1");
        await front.stop();
      },
    },
    {
      id: "BU2",
      title: "folder: a front that is killed during an upload leaves no archive; its half goes with the next upload",
      run: async () => {
        const mesh = await held.mesh();
        const first = await mesh.front({ flags: buildFlags(mesh.files) });
        const { url = "" } = await linkOf(first, "bu2");
        const upload = await halfUpload(url);
        await waitFor("the half of it", async () => (await uploads(mesh, "bu2")).length === 1, 5_000);
        first.process.signal("SIGKILL");
        await first.process.ended;
        await upload.breakOff();
        const front = await mesh.front({ flags: buildFlags(mesh.files) });
        assert.equal((await linkOf(front, "bu2")).present, false);
        await failsWithoutFiles(front, mesh, "bu2", /the files were not uploaded/);
        const [half = ""] = await uploads(mesh, "bu2");
        assert.match(half, /\.part$/);
        // What was left ten minutes ago is nobody's any more.
        const then = new Date(Date.now() - 601_000);
        await utimes(join(mesh.files.dir, "uploads", "ns1", "bu2", half), then, then);
        await buildsWhole(front, mesh, "bu2");
        assert.ok(!(await uploads(mesh, "bu2")).includes(half), "the half is gone");
        await front.stop();
      },
    },
    {
      id: "BU3",
      title:
        "bucket: the SDK uploads to it by a signed address and the build reads it; an upload that breaks off is not there",
      run: async () => {
        const mesh = await held.mesh();
        const { flags, objects } = await bucketFlags(mesh);
        const front = await mesh.front({ flags });
        const { url = "" } = await linkOf(front, "bu3");
        assert.equal(new URL(url).origin, objects.origin);
        const upload = await halfUpload(url);
        await upload.breakOff();
        assert.equal((await linkOf(front, "bu3")).present, false);
        await failsWithoutFiles(front, mesh, "bu3", /the files were not uploaded/);
        await buildsWhole(front, mesh, "bu3");
        const paths = [...objects.objects.keys()];
        assert.equal(paths.length, 1, paths.join(" "));
        assert.match(paths[0] ?? "", /^\/files\/e2b-files\/ns1\/bu3\/[0-9a-f]{64}\.tar$/);
        assert.deepEqual(
          objects.seen.filter((line) => line.endsWith("unsigned")),
          [],
        );
        await front.stop();
      },
    },
    {
      id: "BU4",
      title: "bucket: a front that is killed during an upload does not break it; the next front finds the files",
      run: async () => {
        const mesh = await held.mesh();
        const { flags, objects } = await bucketFlags(mesh);
        const first = await mesh.front({ flags });
        const { url = "" } = await linkOf(first, "bu4");
        first.process.signal("SIGKILL");
        await first.process.ended;
        const put = await fetch(url, { method: "PUT", body: Buffer.alloc(10_240) });
        assert.equal(put.status, 200);
        const front = await mesh.front({ flags });
        assert.equal((await linkOf(front, "bu4")).present, true);
        assert.ok(objects.objects.has(new URL(url).pathname));
        await front.stop();
      },
    },
    {
      id: "BU5",
      title: "bucket: one that fails is a JSON error for clients and ends the build at its step; nothing is left",
      run: async () => {
        const mesh = await held.mesh();
        const { flags, objects } = await bucketFlags(mesh);
        const front = await mesh.front({ flags });
        objects.fail(503);
        const reply = await callApi(front.facts, "GET", `/templates/bu5/files/${HASH}`);
        assert.match(expectError(reply, 500, "a link while the store fails"), /store/);
        await failsWithoutFiles(front, mesh, "bu5", /step 1 \(COPY\) failed: .*store/);
        await assert.rejects(Template.build(await copying(), "bu5", sdkOptions(front)), (error: unknown) => {
          assert.ok(error instanceof Error);
          assert.ok(error instanceof BuildError || /500/.test(error.message), error.message);
          return !error.message.includes("its-secret");
        });
        objects.fail(undefined);
        await noSandboxLeft(mesh, "ns1", 2_000);
        assert.deepEqual(await mesh.templates("ns1"), []);
        await front.stop();
      },
    },
  ];

  return {
    rows,
    close: async () => {
      await held.close();
      await (await store)?.[Symbol.asyncDispose]();
      if (folder !== undefined) {
        await rm(await folder, { recursive: true, force: true });
      }
    },
  };
}
