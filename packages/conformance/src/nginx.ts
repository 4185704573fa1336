import { execFileSync } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { SkipRow } from "./harness-rows.ts";
import { freePorts } from "./ports.ts";
import type { ManagedProcess, ProcessSet } from "./processes.ts";
import { waitFor } from "./polling.ts";
import { open } from "./raw-talk.ts";

/** nginx in front of the data plane. */
export interface Nginx {
  readonly port: number;
  readonly process: ManagedProcess;
}

/**
 * Starts nginx in front of a port. Its configuration is the least that passes requests on with their host; whatever it
 * does not say is as Debian's package has it, buffers included. Skips the row where there is no nginx.
 */
export async function startNginx(set: ProcessSet, dir: string, upstream: number): Promise<Nginx> {
  const program = ["/usr/sbin/nginx", "nginx"].find((name) => {
    try {
      execFileSync(name, ["-v"], { stdio: "ignore" });
      return true;
    } catch {
      return false;
    }
  });
  if (program === undefined) {
    throw new SkipRow("nginx is absent: run scripts/ci-setup --all, or install the package nginx");
  }
  const [port = 0] = await freePorts(1);
  const own = join(dir, "nginx");
  await mkdir(own, { recursive: true });
  const file = join(own, "nginx.conf");
  const folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  await writeFile(
    file,
    [
      "daemon off;",
      // Only where the master is root may it name one.
      process.getuid?.() === 0 ? "user root;" : "",
      `pid ${join(own, "pid")};`,
      "error_log stderr;",
      "events {}",
      "http {",
      "  access_log off;",
      ...folders.map((name) => `  ${name}_temp_path ${join(own, name)};`),
      "  server {",
      `    listen 127.0.0.1:${port};`,
      "    location / {",
      `      proxy_pass http://127.0.0.1:${upstream};`,
      "      proxy_http_version 1.1;",
      "      proxy_set_header Host $http_host;",
      '      proxy_set_header Connection "";',
      "    }",
      "  }",
      "}",
      "",
    ].join("\n"),
  );
  const child = await set.start({
    name: "nginx",
    command: program,
    args: ["-p", own, "-c", file, "-e", "stderr"],
    env: { PATH: process.env["PATH"] },
  });
  await waitFor(
    "nginx",
    async () => {
      (await open(port)).destroy();
      return true;
    },
    10_000,
  );
  return { port, process: child };
}
