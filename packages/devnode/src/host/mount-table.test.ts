import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { lockedFlags, parseMountTable } from "./mount-table.ts";

const MOUNTS = `21 28 0:20 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
24 21 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
25 24 0:23 / /sys/fs/cgroup/unified rw,nosuid shared:4 master:1 - cgroup2 cgroup2 rw
26 24 0:24 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
28 1 254:0 / / rw,relatime - ext4 /dev/vda rw
29 28 254:1 / /usr rw,nosuid,nodev,noatime - ext4 /dev/vdb rw
30 28 0:30 / /mnt/a\\040b\\134c rw - tmpfs tmpfs rw

broken line
`;

describe("the mount table", () => {
  const table = parseMountTable(MOUNTS);

  test("is read with any number of optional fields and with escaped paths", () => {
    expect(table.map((mount) => `${mount.path} ${mount.type}`)).toEqual([
      "/sys sysfs",
      "/sys/fs/cgroup tmpfs",
      "/sys/fs/cgroup/unified cgroup2",
      "/sys/fs/cgroup/freezer cgroup",
      "/ ext4",
      "/usr ext4",
      "/mnt/a b\\c tmpfs",
    ]);
  });

  test.each([
    ["/usr", ["nosuid", "nodev", "noatime"]],
    ["/usr/share/x", ["nosuid", "nodev", "noatime"]],
    ["/usrlocal", ["relatime"]],
    ["/etc", ["relatime"]],
  ])("gives the flags that a bind of %s must keep", (path, flags) => {
    expect(lockedFlags(table, path)).toEqual(flags);
  });

  test("never throws", () => {
    fc.assert(fc.property(fc.string(), (text) => Array.isArray(parseMountTable(text))));
  });
});
