import { execFile } from "node:child_process";
import { access, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { knownLimitsTables, readKnownLimits } from "../packages/conformance/src/known-limits.ts";

const root = new URL("..", import.meta.url).pathname;
const run = promisify(execFile);

interface Member {
  readonly folder: string;
  readonly name: string;
  readonly published: boolean;
  readonly dependencies: readonly string[];
}

async function members(): Promise<Member[]> {
  const found: Member[] = [];
  for (const group of ["packages", "apps"]) {
    for (const entry of await readdir(join(root, group))) {
      const manifest = JSON.parse(await readFile(join(root, group, entry, "package.json"), "utf8")) as {
        name: string;
        private?: boolean;
        dependencies?: Record<string, string>;
      };
      const dependencies = Object.keys(manifest.dependencies ?? {}).filter((name) => !name.startsWith("@org/"));
      found.push({
        folder: `${group}/${entry}`,
        name: manifest.name,
        published: manifest.private !== true,
        dependencies,
      });
    }
  }
  return found;
}

/** Files of the project by the pattern, tracked or about to be. */
async function files(...patterns: readonly string[]): Promise<string[]> {
  const args = ["ls-files", "--cached", "--others", "--exclude-standard", "--", ...patterns];
  const { stdout } = await run("git", args, { cwd: root, maxBuffer: 16 * 1024 * 1024 });
  const listed = stdout.split("\n").filter((file) => file !== "");
  const present = await Promise.all(
    listed.map((file) =>
      access(join(root, file)).then(
        () => true,
        () => false,
      ),
    ),
  );
  return listed.filter((_file, index) => present[index]);
}

/** The cells of a page's table rows under a heading. */
function tableUnder(page: string, heading: string): string[][] {
  const section = page.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? "";
  return section
    .split("\n")
    .filter((line) => line.startsWith("| "))
    .slice(2)
    .map((line) =>
      line
        .split("|")
        .map((cell) => cell.trim())
        .slice(1, -1),
    );
}

test("docs/dependencies.md names every run-time dependency with the packages that use it, and no other", async () => {
  const page = await readFile(join(root, "docs/dependencies.md"), "utf8");
  const told = tableUnder(page, "At run time").flatMap(([names = "", users = ""]) =>
    names.split(", ").flatMap((name) => users.split(", ").map((user) => `${name} of ${user}`)),
  );
  const real = (await members())
    .filter(({ published }) => published)
    .flatMap(({ name, dependencies }) => dependencies.map((other) => `${other} of ${name.replace("@org/", "")}`));
  expect(told.toSorted()).toEqual(real.toSorted());
});

test("docs/index.md and ARCHITECTURE.md name every package and app", async () => {
  const index = await readFile(join(root, "docs/index.md"), "utf8");
  const architecture = await readFile(join(root, "ARCHITECTURE.md"), "utf8");
  const all = await members();
  expect(all.length).toBeGreaterThan(10);
  for (const { folder, name } of all) {
    const title = folder.startsWith("apps/") ? name.replace("@org/", "") : name;
    expect(index).toContain(`\`${title}\``);
    expect(architecture).toContain(`\`${folder}\``);
  }
});

/** The anchor a heading gets. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replaceAll(/\s/g, "-");
}

async function brokenLinks(page: string): Promise<string[]> {
  const text = (await readFile(join(root, page), "utf8")).replaceAll(/^```[\s\S]*?^```/gm, "");
  const broken: string[] = [];
  for (const [, link = ""] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
    if (/^[a-z]+:/.test(link)) continue;
    const [path = "", anchor] = link.split("#");
    const target = path === "" ? join(root, page) : resolve(root, dirname(page), path);
    const content = await readFile(target, "utf8").catch(() => undefined);
    const anchors = [...(content ?? "").matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => anchorOf(heading));
    if (content === undefined || (anchor !== undefined && !anchors.includes(anchor))) broken.push(`${page}: ${link}`);
  }
  return broken;
}

test("every relative link in a page leads to a file, and to a heading if it names one", async () => {
  const pages = await files("*.md");
  expect(pages.length).toBeGreaterThan(15);
  expect((await Promise.all(pages.map(brokenLinks))).flat()).toEqual([]);
});

/** Folders of one machine, and hosts that package registries answer at. */
const MACHINE = /(?<![\w.-])\/(?:work|Users)\/|registry\.npmjs|npmjs\.org|pypi\.org|files\.pythonhosted/g;

test("no page and no source names a folder of one machine or a package registry's host", async () => {
  const found: string[] = [];
  for (const file of await files("*.md", "*.ts", "*.js", "*.cjs", "*.py", "*.json", "*.yaml")) {
    if (file === "pnpm-lock.yaml") continue;
    const text = await readFile(join(root, file), "utf8");
    for (const [part] of text.matchAll(MACHINE)) found.push(`${file}: ${part}`);
  }
  expect(found).toEqual([]);
});

// After a change of the list: UPDATE_DOCS=1 vitest run scripts/docs.test.ts
test("docs/known-limits.md shows the rows that the conformance suites expect to fail", async () => {
  const file = join(root, "docs/known-limits.md");
  const page = await readFile(file, "utf8");
  const tables = knownLimitsTables(await readKnownLimits());
  const current = page.replace(
    /(<!-- newest-python:begin -->\n)[\s\S]*(<!-- newest-python:end -->)/,
    (_all, begin: string, end: string) => `${begin}\n${tables}\n${end}`,
  );
  // Formatters pad the columns of tables.
  const words = (text: string): string =>
    text
      .replaceAll(/-{3,}/g, "---")
      .replaceAll(/\s+/g, " ")
      .replaceAll(/ ?\| ?/g, "|");
  if (process.env["UPDATE_DOCS"] === "1") await writeFile(file, current);
  else expect(words(page)).toBe(words(current));
});
