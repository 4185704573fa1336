import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import type { Browser, BrowserContextOptions, Page } from "playwright-core";

import { createSandbox, killSandbox } from "../src/api.ts";
import { launchChromium } from "../src/chromium.ts";
import type { HarnessRow } from "../src/harness-rows.ts";
import { waitFor } from "../src/polling.ts";
import type { ProcessSet } from "../src/processes.ts";
import type { Programs } from "../src/programs.ts";
import { type Rig, startDev } from "../src/rig.ts";

/** Where the pictures of the last run lie. */
const PICTURES = fileURLToPath(new URL("../.state/console", import.meta.url));

const LOOKS = {
  light: { colorScheme: "light", viewport: { width: 1200, height: 900 } },
  dark: { colorScheme: "dark", viewport: { width: 1200, height: 900 } },
  phone: { colorScheme: "light", viewport: { width: 390, height: 800 }, hasTouch: true, isMobile: true },
} as const satisfies Record<string, BrowserContextOptions>;

/** The console of a running mesh of two nodes, as people see it. */
export function consoleRows(
  set: ProcessSet,
  programs: Programs,
): { readonly rows: readonly HarnessRow[]; readonly close: () => Promise<void> } {
  let rig: Rig | undefined;
  let browser: Browser | undefined;

  const started = async (): Promise<{ rig: Rig; browser: Browser; url: string; credential: string }> => {
    browser ??= await launchChromium();
    rig ??= await startDev(set, programs, {
      mode: "secret",
      nodes: 2,
      warm: 2,
      warmEgress: 0,
      extraFlags: ["--console-bind-address=127.0.0.1:0"],
    });
    const [, url = "", file = ""] = await rig.front.waitForOutput(
      /Console: (\S+) \(log in with what is in (.*)\)/,
      5_000,
    );
    return { rig, browser, url, credential: (await readFile(file, "utf8")).trim() };
  };

  /** Logs in by keyboard, and waits for data. */
  const opened = async (look: BrowserContextOptions): Promise<Page> => {
    const { browser: program, url, credential } = await started();
    const page = await (await program.newContext(look)).newPage();
    await page.goto(url);
    // The field takes the focus by itself, but at a moment of its own.
    await page.getByLabel("Credential of this console").focus();
    await page.keyboard.type(credential);
    await page.keyboard.press("Enter");
    await page.getByText("Live", { exact: true }).waitFor();
    return page;
  };

  const shows = (id: string, title: string, look: keyof typeof LOOKS): HarnessRow => ({
    id,
    title,
    run: async () => {
      const page = await opened(LOOKS[look]);
      const problems: string[] = [];
      page.on("pageerror", (error) => problems.push(error.message));
      page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
      const { facts } = (await started()).rig;
      const { sandboxID } = await createSandbox(facts, { timeout: 300, metadata: { secret: "of-a-user" } });
      const claimId = sandboxID.replace("-", "_");
      await page.locator("#sandbox-table").getByText(claimId).waitFor();
      for (const node of facts.nodeAddresses) {
        await page.locator("#node-table").getByText(node).waitFor();
      }
      await page.getByText(facts.image).first().waitFor();
      const wide = await page.evaluate("document.documentElement.scrollWidth <= innerWidth");
      assert.equal(wide, true, "nothing is cut off at the side");
      const text = (await page.content()) + (await page.context().cookies()).map(({ value }) => value).join(" ");
      for (const secret of ["of-a-user", facts.nodeToken, facts.keys.one, (await started()).credential]) {
        assert.ok(!text.includes(secret), "the page holds no secret");
      }
      await mkdir(PICTURES, { recursive: true });
      const file = join(PICTURES, `${look}.png`);
      await writeFile(file, await page.screenshot({ fullPage: true }));
      assert.deepEqual(problems, []);
      await killSandbox(facts, sandboxID);
      await waitFor(
        "the sandbox leaves the page",
        async () => ((await page.locator("#sandbox-table").getByText(claimId).count()) === 0 ? true : undefined),
        20_000,
      );
      await page.context().close();
    },
  });

  return {
    rows: [
      shows("CO1", "light: nodes, pools and a sandbox that comes and goes, live", "light"),
      shows("CO2", "dark: the same", "dark"),
      shows("CO3", "on a phone: the same, with nothing beyond its side", "phone"),
      {
        id: "CO4",
        title: "by keyboard alone: skip link, filter, log out",
        run: async () => {
          const page = await opened(LOOKS.light);
          await page.keyboard.press("Tab");
          assert.equal(await page.evaluate("document.activeElement.textContent"), "Skip to the nodes");
          await page.keyboard.press("Enter");
          assert.equal(await page.evaluate("document.activeElement.id"), "nodes");
          await page.getByLabel("Filter").focus();
          await page.keyboard.type("no-such-sandbox");
          await page.getByText("None of the newest sandboxes fits the filter.").waitFor();
          await page.getByRole("button", { name: "Log out" }).focus();
          await page.keyboard.press("Enter");
          await page.getByLabel("Credential of this console").waitFor();
          await page.context().close();
        },
      },
      {
        id: "CO5",
        title: "when the service is gone the page says so",
        run: async () => {
          const page = await opened(LOOKS.light);
          const { rig: running } = await started();
          await running.stop();
          rig = undefined;
          await page.getByText("No answer. Trying again.").waitFor({ timeout: 20_000 });
          await page.context().close();
        },
      },
    ],
    close: async () => {
      await browser?.close();
      await rig?.stop();
    },
  };
}
