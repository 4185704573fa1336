import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import { createUserDatabase, parseUsers } from "./users.ts";

const PASSWD = `# a comment
root:x:0:0:root:/root:/bin/bash
user:x:1000:1000:,,,:/home/user:/bin/bash
twin:x:1000:1001::/home/twin:/bin/sh
nohome:x:7:7:::
user:x:5:5::/other:/bin/sh
broken
bad-id:x:-1:0::/:/bin/sh
huge:x:99999999999:0::/:/bin/sh
+::::::
`;
const GROUP = `root:x:0:
user:x:1000:user
sudo:x:27:user,root
docker:x:999:user\r
alias:x:27:
`;

describe("parseUsers", () => {
  const users = parseUsers(PASSWD, GROUP);

  it("finds users with their supplementary groups", () => {
    expect(users.find("user")).toEqual({ name: "user", uid: 1000, gid: 1000, home: "/home/user", groups: [27, 999] });
    expect(users.find("root")).toMatchObject({ uid: 0, groups: [27] });
    expect(users.find("nohome")).toMatchObject({ home: "/" });
  });

  it("names ids by their first line, and does not know others", () => {
    expect(["user", users.groupName(27)]).toEqual([users.userName(1000), "sudo"]);
    expect([users.userName(4711), users.groupName(4711)]).toEqual([undefined, undefined]);
  });

  it.each(["broken", "bad-id", "huge", "+", "", "toString", "__proto__", "nobody"])("does not find '%s'", (name) => {
    expect(users.find(name)).toBeUndefined();
  });

  it("takes any text", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom("a", ":", "0", "\n", ",", "x", "\r") }), (text) => {
        parseUsers(text, text).find("a");
      }),
    );
  });
});

describe("a user database", () => {
  it("follows its files, which may be missing", async () => {
    const directory = await mkdtemp(join(tmpdir(), "envd-users-"));
    try {
      const passwdFile = join(directory, "passwd");
      const database = createUserDatabase({ passwdFile, groupFile: join(directory, "group") });
      expect(database.current().find("ann")).toBeUndefined();
      await writeFile(passwdFile, "ann:x:1:1::/ann:/bin/sh\n");
      expect(database.current().find("ann")).toMatchObject({ uid: 1 });
      expect(database.current()).toBe(database.current());
      await writeFile(passwdFile, "ann:x:22:1::/ann:/bin/sh\n");
      expect(database.current().find("ann")).toMatchObject({ uid: 22 });
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});
