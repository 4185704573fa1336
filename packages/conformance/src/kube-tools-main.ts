import { KUBE_MINORS, kubeTools } from "./kube-tools.ts";

// Prints where kubectl and helm are, one version a line: `node packages/conformance/src/kube-tools-main.ts`.
for (const minor of KUBE_MINORS) {
  const tools = await kubeTools(minor);
  if (tools.kind === "ready") {
    process.stdout.write(`${minor} ${tools.kubectl} ${tools.helm}\n`);
  } else {
    process.stderr.write(`${tools.reason}\n`);
    process.exitCode = 1;
  }
}
