import { describe, expect, test } from "vitest";
import { findHierarchies } from "./cgroup-group.ts";
import { parseMountTable } from "./mount-table.ts";

const MOUNTS = `24 21 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
25 24 0:23 / /sys/fs/cgroup/unified rw,nosuid shared:4 master:1 - cgroup2 cgroup2 rw
26 24 0:24 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
`;

describe("the cgroup hierarchies", () => {
  const mounts = parseMountTable(MOUNTS);
  const pure = parseMountTable("25 24 0:23 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");

  test.each([
    [
      "hybrid",
      mounts,
      "6:freezer:/\n0::/\n",
      [
        ["v2", "/sys/fs/cgroup/unified/"],
        ["v1", "/sys/fs/cgroup/freezer/"],
      ],
    ],
    [
      "hybrid, below a slice",
      mounts,
      "6:freezer:/a\n0::/b/c\n",
      [
        ["v2", "/sys/fs/cgroup/unified/b/c"],
        ["v1", "/sys/fs/cgroup/freezer/a"],
      ],
    ],
    ["pure v2", pure, "0::/user.slice\n", [["v2", "/sys/fs/cgroup/user.slice"]]],
    ["joint v1 controllers", mounts, "6:cpu,freezer:/x\n", [["v1", "/sys/fs/cgroup/freezer/x"]]],
    ["none", [], "0::/\n", []],
    ["no membership", mounts, "", []],
  ] as const)("are found: %s", (_, table, membership, expected) => {
    expect(findHierarchies(table, membership).map(({ layout, folder }) => [layout, folder])).toEqual(expected);
  });
});
