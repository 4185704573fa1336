import { describe, expect, test } from "vitest";
import { planLaunch } from "./launch.ts";
import { parseMountTable } from "./mount-table.ts";
import { quote } from "./shell.ts";

describe("a launch", () => {
  const input = {
    tree: "/state/it's/tree",
    view: { binds: [{ from: "/usr", to: "/usr", directory: true }], links: [] },
    binds: [],
    mounts: parseMountTable("29 28 254:1 / /usr rw,nosuid,nodev,noatime - ext4 /dev/vdb rw\n"),
    agent: ["/opt/sandbox/node", "agent"],
  };

  test("of an ordinary user maps the guest's user, of root a range that the host writes", () => {
    const plain = planLaunch({ ...input, isolation: "bubblewrap" });
    expect(plain.needsIdMap).toBe(false);
    expect(plain.args.join(" ")).toContain("--unshare-user --uid 1000 --gid 1000");
    const root = planLaunch({ ...input, isolation: "bubblewrap", range: { base: 2e9, count: 65_536 } });
    expect(root.needsIdMap).toBe(true);
    expect(root.args.join(" ")).toContain("echo map >&4");
    expect(planLaunch({ ...input, isolation: "process", range: { base: 2e9, count: 65_536 } }).needsIdMap).toBe(false);
  });

  test("with util-linux keeps the flags of what it binds", () => {
    const script = planLaunch({ ...input, isolation: "unshare" }).args.at(-1) ?? "";
    expect(script).toContain("mount -n --rbind -o ro,nosuid,nodev,noatime '/usr' 'usr'");
    expect(script).toContain(`cd ${quote("/state/it's/tree")}`);
  });

  test("enters its cgroup before anything else runs", () => {
    const launch = planLaunch({ ...input, isolation: "unshare", group: "/cg/guest" });
    expect([launch.command, launch.args[1]?.split("\n", 1)[0], launch.args[2]]).toEqual([
      "/bin/sh",
      'echo 0 > "$0/cgroup.procs" || exit 1',
      "/cg/guest",
    ]);
  });
});
