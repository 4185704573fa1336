import { mkdtemp, rm, stat, lstat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { isRoot } from "../testing/guest.ts";
import { createIdentity } from "./identity.ts";

const user = { name: "user", uid: 1000, gid: 1000, home: "/", groups: [] };

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "envd-identity-"));
});
afterAll(() => rm(folder, { recursive: true }));

describe("giving a path to a user", () => {
  it.runIf(isRoot)("gives away no target of a link that took its place (as root only)", async () => {
    const [target, link] = [join(folder, "target"), join(folder, "link")];
    await writeFile(target, "");
    await symlink(target, link);
    await createIdentity("auto").own(link, user);
    expect([(await stat(target)).uid, (await lstat(link)).uid]).toEqual([0, 1000]);
  });

  it("says when the path is gone", async () => {
    await expect(createIdentity("auto").own(join(folder, "gone"), user)).rejects.toMatchObject({ code: "ENOENT" });
  });
});
