import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { callApi, createSandbox, killSandbox } from "../src/api.ts";
import type { HarnessRow } from "../src/harness-rows.ts";
import { nodeAdmin } from "../src/node-admin.ts";
import type { ProcessSet } from "../src/processes.ts";
import type { RigFacts } from "../src/rig.ts";
import { createCli } from "./cli-runner.ts";

const DOCKERFILE = `FROM e2bdev/base
ARG EXTRA
ENV GREETING=hi
RUN useradd -m builder
WORKDIR /srv/cli
COPY --chown=builder data ./data
RUN echo $GREETING > greeting && id -un > who
USER builder
CMD ["sleep", "100000"]
`;
const NAME = "cli-template";

/** Template builds by the E2B CLI, from a Dockerfile. */
export function cliBuildRows(
  set: ProcessSet,
  rig: RigFacts,
): { rows: readonly HarnessRow[]; close: () => Promise<void> } {
  const cli = createCli(set, rig);
  const nodes = rig.nodeAddresses.map((address) => nodeAdmin(address, rig.nodeToken));
  let folder: Promise<string> | undefined;

  const files = (): Promise<string> => {
    folder ??= (async () => {
      const dir = await mkdtemp(join(tmpdir(), "conformance-cli-build-"));
      await writeFile(join(dir, "Dockerfile"), DOCKERFILE);
      await mkdir(join(dir, "data"));
      await writeFile(join(dir, "data", "file.txt"), "data\n");
      await writeFile(join(dir, "Failing"), "FROM e2bdev/base\nRUN true\nRUN echo last-words; exit 4\n");
      return dir;
    })();
    return folder;
  };
  const claims = async (): Promise<number> =>
    (await Promise.all(nodes.map((node) => node.sandboxes()))).flat().filter((row) => row.claim_ref?.startsWith("ns1/"))
      .length;

  const rows: HarnessRow[] = [
    {
      id: "C8a",
      title: "template create builds a Dockerfile: exit 0, and it is listed",
      run: async () => {
        const before = await claims();
        const dir = await files();
        const out = await cli.ok(["template", "create", NAME, "-p", dir, "--ready-cmd", "test -e /srv/cli/greeting"]);
        assert.match(out, /finished/);
        const list = (await cli.json(["template", "list", "-f", "json"])) as {
          templateID: string;
          createdAt: string;
        }[];
        const entry = list.find((template) => template.templateID === NAME);
        assert.ok(!Number.isNaN(Date.parse(entry?.createdAt ?? "")), JSON.stringify(entry));
        assert.equal(await claims(), before);
      },
    },
    {
      id: "C8b",
      title: "a sandbox of it has the Dockerfile's files, user, folder, variables and program",
      run: async () => {
        const own = await createSandbox(rig, { templateID: NAME });
        const command =
          "id -un; pwd; echo $GREETING; cat greeting who data/file.txt; stat -c %U data; pgrep -x sleep | wc -l";
        const out = await cli.ok(["sandbox", "exec", own.sandboxID, command]);
        assert.deepEqual(out.trim().split("\n"), ["builder", "/srv/cli", "hi", "hi", "root", "data", "builder", "1"]);
        await killSandbox(rig, own.sandboxID);
      },
    },
    {
      id: "C8c",
      title: "a failing instruction: exit 1, its output and its step; nothing is left",
      run: async () => {
        const before = await claims();
        const done = await cli.run(["template", "create", "cli-failing", "-p", await files(), "-d", "Failing"]);
        assert.equal(done.code, 1, done.out.slice(-300));
        const said = done.out + done.err;
        assert.match(said, /last-words/);
        assert.match(said, /exited with code 4/);
        assert.equal((await callApi(rig, "GET", "/templates/cli-failing")).status, 404);
        assert.equal(await claims(), before);
      },
    },
    {
      id: "C8d",
      title: "template publish and delete of a built template: exit 0",
      run: async () => {
        await cli.ok(["template", "publish", "-y", NAME]);
        await cli.ok(["template", "delete", "-y", NAME]);
        assert.equal((await callApi(rig, "GET", `/templates/${NAME}`)).status, 404);
      },
    },
  ];

  const close = async (): Promise<void> => {
    await callApi(rig, "DELETE", `/templates/${NAME}`).catch(() => undefined);
    await cli[Symbol.asyncDispose]();
    if (folder !== undefined) {
      await rm(await folder, { recursive: true, force: true });
    }
  };
  return { rows, close };
}
