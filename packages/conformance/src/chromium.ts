import { existsSync } from "node:fs";

import { type Browser, chromium } from "playwright-core";

import { SkipRow } from "./harness-rows.ts";

const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Starts the machine's Chromium. Throws a skip where there is none. */
export function launchChromium(args: readonly string[] = []): Promise<Browser> {
  const executablePath = CHROMIUM.find((path) => existsSync(path));
  if (executablePath === undefined) {
    throw new SkipRow("there is no Chromium: run scripts/ci-setup --all");
  }
  const always = ["--no-sandbox", "--disable-dev-shm-usage", "--no-proxy-server"];
  return chromium.launch({ executablePath, args: [...always, ...args] });
}
