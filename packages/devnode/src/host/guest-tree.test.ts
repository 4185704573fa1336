import { lstatSync, mkdirSync, readFileSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../testing/temporary-folder.ts";
import { makeGuestTree } from "./guest-tree.ts";

test("a template's links lead nothing that is made for a guest out of its tree", async () => {
  await using place = temporaryFolder();
  const outside = join(place.path, "outside");
  mkdirSync(outside, { mode: 0o700 });
  writeFileSync(join(outside, "secret"), "secret", { mode: 0o600 });
  const base = join(place.path, "base");
  for (const folder of ["opt/sandbox", "etc/ssl", "home/user"]) {
    mkdirSync(join(base, folder), { recursive: true });
  }
  symlinkSync(join(outside, "secret"), join(base, "opt/sandbox/node"));
  symlinkSync(join(outside, "new"), join(base, "opt/sandbox/egress.sock"));
  symlinkSync(outside, join(base, "opt/sandbox/agent"));
  symlinkSync(outside, join(base, "etc/alternatives"));
  symlinkSync(outside, join(base, "etc/ssl/certs"));
  symlinkSync(outside, join(base, "etc/pki"));
  symlinkSync(outside, join(base, "usr"));
  symlinkSync("/nowhere", join(base, "home/user/kept"));
  const tree = join(place.path, "tree");
  mkdirSync(tree);
  const bind = (to: string, directory: boolean): { from: string; to: string; directory: boolean } => ({
    from: to,
    to,
    directory,
  });
  await makeGuestTree(
    tree,
    {
      binds: ["/usr", "/etc/alternatives", "/etc/ssl/certs", "/etc/pki/tls/certs"].map((to) => bind(to, true)),
      links: [],
    },
    {
      base,
      extraBinds: [
        bind("/opt/sandbox/node", false),
        bind("/opt/sandbox/egress.sock", false),
        bind("/opt/sandbox/agent", true),
      ],
    },
  );
  expect(readdirSync(outside)).toEqual(["secret"]);
  expect(readFileSync(join(outside, "secret"), "utf8")).toBe("secret");
  expect([statSync(outside).mode & 0o777, statSync(join(outside, "secret")).mode & 0o777]).toEqual([0o700, 0o600]);
  for (const path of ["usr", "etc/alternatives", "etc/ssl/certs", "etc/pki/tls/certs", "opt/sandbox/agent"]) {
    expect(lstatSync(join(tree, path)).isDirectory(), path).toBe(true);
  }
  expect(lstatSync(join(tree, "opt/sandbox/node")).isFile()).toBe(true);
  expect(lstatSync(join(tree, "home/user/kept")).isSymbolicLink()).toBe(true);
});

test("a template that was unpacked for one user alone makes a guest that all of its users can enter", async () => {
  await using place = temporaryFolder();
  const base = join(place.path, "base");
  mkdirSync(join(base, "opt/own"), { recursive: true, mode: 0o700 });
  mkdirSync(join(base, "var/lib"), { recursive: true, mode: 0o700 });
  writeFileSync(join(base, "opt/own/file"), "", { mode: 0o600 });
  const tree = join(place.path, "tree");
  mkdirSync(tree);
  await makeGuestTree(tree, { binds: [], links: [] }, { base, extraBinds: [] });
  const modes = ["", "opt", "var/lib", "tmp", "root", "opt/own", "opt/own/file"].map((path) =>
    (statSync(join(tree, path)).mode & 0o7777).toString(8),
  );
  expect(modes).toEqual(["755", "755", "755", "1777", "700", "700", "600"]);
});
