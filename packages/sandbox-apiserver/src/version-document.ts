import { arch, platform } from "node:process";
import type { ServerVersion } from "./api-server.ts";

const SEMVER =
  /^v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?$/;

/**
 * What `/version` answers. Clients refuse a `gitVersion` that is no semantic version. There is no Go here: the members
 * that speak of it name what runs instead.
 * @throws TypeError for a version that is none
 */
export function versionDocument({ version, gitCommit, buildDate }: ServerVersion, runtime: string): object {
  const [, major, minor] = SEMVER.exec(version) ?? [];
  if (major === undefined || minor === undefined) {
    throw new TypeError(`version ${JSON.stringify(version)} is no semantic version`);
  }
  return {
    major,
    minor,
    emulationMajor: major,
    emulationMinor: minor,
    minCompatibilityMajor: major,
    minCompatibilityMinor: minor,
    gitVersion: version.startsWith("v") ? version : `v${version}`,
    gitCommit: gitCommit ?? "",
    gitTreeState: gitCommit === undefined ? "" : "clean",
    buildDate: buildDate ?? "1970-01-01T00:00:00Z",
    goVersion: runtime,
    compiler: "node",
    platform: `${platform}/${arch === "x64" ? "amd64" : arch}`,
  };
}
