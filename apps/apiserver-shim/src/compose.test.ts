import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findCluster, refuse } from "./compose.ts";

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "apiserver-shim-"));
  for (const file of ["kubeconfig", "account/token", "home/.kube/config"]) {
    const path = join(folder, file);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, "");
  }
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const inCluster = { KUBERNETES_SERVICE_HOST: "10.0.0.1" };

/** Places below the test's folder; a name that is left out leads nowhere. */
function places(env: Readonly<Record<string, string>>, home = "none", serviceAccount = "none") {
  return { env, home: join(folder, home), serviceAccount: join(folder, serviceAccount) };
}

describe("a cluster's configuration", () => {
  test("is KUBECONFIG before all, the first file of the list that exists", () => {
    const list = `${join(folder, "missing")}:${join(folder, "kubeconfig")}`;
    expect(findCluster(places({ KUBECONFIG: list, ...inCluster }, "home", "account"))).toBe(
      `KUBECONFIG ${join(folder, "kubeconfig")}`,
    );
  });

  test("is the pod's service account next", () => {
    expect(findCluster(places(inCluster, "home", "account"))).toBe("the service account of this pod (10.0.0.1)");
  });

  test("is the user's file last, also where only half of a pod is there", () => {
    const file = join(folder, "home", ".kube", "config");
    expect(findCluster(places({}, "home", "account"))).toBe(file);
    expect(findCluster(places(inCluster, "home"))).toBe(file);
  });

  test("that is missing is told with what to set", () => {
    expect(() => findCluster(places({}))).toThrow(
      /set KUBECONFIG to a kubeconfig, run in a pod .* or create ~\/\.kube\/config/,
    );
  });

  test("that KUBECONFIG names and that is missing is told by name, whatever else there is", () => {
    const env = { KUBECONFIG: join(folder, "missing"), ...inCluster };
    expect(() => findCluster(places(env, "home", "account"))).toThrow(join(folder, "missing"));
  });
});

test("with a cluster the program says that it does not serve yet", () => {
  expect(() => refuse(places({}, "home"))).toThrow(/found a cluster in .* is not part of this version/);
});

test("without one it says what to set", () => {
  expect(() => refuse(places({}))).toThrow(/no Kubernetes cluster is configured/);
});
