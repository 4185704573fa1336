import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { parse } from "yaml";

import type { HarnessRow } from "../../src/harness-rows.ts";
import { argsOf, at, Chart, CHART, type Members, NAMESPACE, objectOf, templateArgs, WITH_E2B } from "./chart.ts";
import type { Programs } from "../../src/programs.ts";
import { CERTIFICATES, DEFAULT_OBJECTS, E2B_OBJECTS, PERMISSIONS, VALUES } from "./chart-expectations.ts";
import { resourceDefinition } from "./chart-definition.ts";
import { chartProgramRow } from "./chart-programs.ts";

const RBAC = "rbac.authorization.k8s.io/v1";
const PROXY = "sandbox-envd-proxy";

/** KC1 to KC13: the chart, rendered by helm and held against what is promised, field by field. */
export function chartRows(programs: Programs): readonly HarnessRow[] {
  const chart = new Chart();
  return [
    {
      id: "KC1",
      title: "helm lint finds nothing, and every helm renders the same objects",
      run: async () => {
        const helms = await chart.helms();
        const [first, ...others] = await Promise.all(helms.map((one) => chart.render(WITH_E2B, one)));
        for (const other of others) {
          assert.deepEqual(other, first);
        }
        for (const values of [{}, WITH_E2B]) {
          const sets = Object.entries(values).flatMap(([path, value]) => ["--set", `${path}=${value}`]);
          const { code, stdout, stderr } = await chart.helm(["lint", "--strict", CHART, ...sets]);
          assert.equal(code, 0, stdout + stderr);
          assert.doesNotMatch(stdout, /\[(WARNING|ERROR)\]/);
        }
      },
    },
    {
      id: "KC2",
      title: "16 objects by default, 22 with E2B, one more with a secret of the chart, none of the driver without it",
      run: async () => {
        const names = async (values: Readonly<Record<string, string>>): Promise<string[]> =>
          [...(await chart.render(values)).keys()].toSorted();
        assert.equal(DEFAULT_OBJECTS.length, 16);
        assert.deepEqual(await names({}), [...DEFAULT_OBJECTS].toSorted());
        assert.equal(E2B_OBJECTS.length, 6);
        const all = [...DEFAULT_OBJECTS, ...E2B_OBJECTS];
        assert.deepEqual(await names(WITH_E2B), all.toSorted());
        const { "apiserver.e2b.envdSecret.secretName": _, ...rest } = WITH_E2B;
        const secret = { ...rest, "apiserver.e2b.envdSecret.value": "s3cret" };
        assert.deepEqual(await names(secret), [...all, "Secret sandbox-apiserver-envd-secret"].toSorted());
        const aliases = { ...WITH_E2B, "apiserver.e2b.templateAliases": "base python:3.12" };
        assert.deepEqual(await names(aliases), [...all, "ConfigMap sandbox-apiserver-template-aliases"].toSorted());
        assert.deepEqual(
          await names({ "apiserver.warmPoolDriver": "false" }),
          DEFAULT_OBJECTS.filter((name) => !name.endsWith("leader-election")).toSorted(),
        );
        assert.deepEqual(
          await names({ "certManager.enabled": "false", "certManager.caBundle": "Q0E=" }),
          DEFAULT_OBJECTS.filter((name) => !/^(Issuer|Certificate) /.test(name)).toSorted(),
        );
      },
    },
    {
      id: "KC3",
      title: "the Deployment: two replicas on nodes of their own, probes over HTTPS, resources, flags",
      run: async () => {
        const rendered = await chart.render();
        const { spec } = objectOf(rendered, "Deployment sandbox-apiserver") as { readonly spec: Members };
        const selector = { matchLabels: { "app.kubernetes.io/name": "sandbox-apiserver" } };
        assert.equal(spec["replicas"], 2);
        assert.deepEqual(spec["selector"], selector);
        const pod = at(spec, "template", "spec");
        assert.equal(at(pod, "serviceAccountName"), "sandbox-apiserver");
        assert.deepEqual(at(pod, "topologySpreadConstraints"), [
          {
            maxSkew: 1,
            topologyKey: "kubernetes.io/hostname",
            whenUnsatisfiable: "DoNotSchedule",
            labelSelector: selector,
          },
        ]);
        const container = at(pod, "containers", 0);
        const probe = (path: string): Members => ({ path, port: "https", scheme: "HTTPS" });
        assert.deepEqual(at(container, "livenessProbe"), {
          httpGet: probe("/livez"),
          initialDelaySeconds: 10,
          periodSeconds: 20,
        });
        assert.deepEqual(at(container, "readinessProbe"), {
          httpGet: probe("/readyz"),
          initialDelaySeconds: 5,
          periodSeconds: 10,
        });
        assert.deepEqual(at(container, "resources"), {
          requests: { cpu: "100m", memory: "128Mi" },
          limits: { memory: "512Mi" },
        });
        assert.deepEqual(at(container, "ports"), [{ name: "https", containerPort: 6443 }]);
        assert.deepEqual(argsOf(rendered, "sandbox-apiserver"), [
          "--secure-port=6443",
          "--tls-cert-file=/etc/apiserver-shim/serving/tls.crt",
          "--tls-private-key-file=/etc/apiserver-shim/serving/tls.key",
          "--enable-warm-pool-driver=true",
        ]);
        assert.deepEqual(at(pod, "volumes"), [
          { name: "serving", secret: { secretName: "sandbox-apiserver-serving-certs", defaultMode: 0o440 } },
        ]);
      },
    },
    {
      id: "KC4",
      title: "the Service leads port 443 to the secure port, and one replica always stays",
      run: async () => {
        const rendered = await chart.render({ "apiserver.securePort": "7443", "apiserver.replicaCount": "3" });
        const selector = { "app.kubernetes.io/name": "sandbox-apiserver" };
        assert.deepEqual(objectOf(rendered, "Service sandbox-apiserver"), {
          apiVersion: "v1",
          kind: "Service",
          metadata: { name: "sandbox-apiserver", namespace: NAMESPACE },
          spec: { selector, ports: [{ name: "https", port: 443, targetPort: 7443, protocol: "TCP" }] },
        });
        assert.deepEqual(objectOf(rendered, "PodDisruptionBudget sandbox-apiserver"), {
          apiVersion: "policy/v1",
          kind: "PodDisruptionBudget",
          metadata: { name: "sandbox-apiserver", namespace: NAMESPACE },
          spec: { minAvailable: 1, selector: { matchLabels: selector } },
        });
        assert.ok(argsOf(rendered, "sandbox-apiserver").includes("--secure-port=7443"));
        assert.equal(at(objectOf(rendered, "Deployment sandbox-apiserver"), "spec", "replicas"), 3);
      },
    },
    {
      id: "KC5",
      title: "the APIService and the chain of certificates, by cert-manager or by hand",
      run: async () => {
        const service = { name: "sandbox-apiserver", namespace: NAMESPACE, port: 443 };
        const group = { group: "agents.x-k8s.io", version: "v1beta1" };
        const spec = { ...group, groupPriorityMinimum: 1000, versionPriority: 15, service };
        const about = { apiVersion: "apiregistration.k8s.io/v1", kind: "APIService" };
        const rendered = await chart.render();
        const annotations = { "cert-manager.io/inject-ca-from": `${NAMESPACE}/sandbox-apiserver-serving` };
        const name = "v1beta1.agents.x-k8s.io";
        assert.deepEqual(objectOf(rendered, `APIService ${name}`), { ...about, metadata: { name, annotations }, spec });
        for (const [certificate, expected] of Object.entries(CERTIFICATES)) {
          assert.deepEqual(at(objectOf(rendered, certificate), "spec"), expected, certificate);
        }
        const byHand = await chart.render({
          "certManager.enabled": "false",
          "certManager.caBundle": "Q0E=",
          "certManager.servingCertSecret": "mine",
        });
        assert.deepEqual(objectOf(byHand, `APIService ${name}`), {
          ...about,
          metadata: { name },
          spec: { ...spec, caBundle: "Q0E=" },
        });
        const volumes = at(objectOf(byHand, "Deployment sandbox-apiserver"), "spec", "template", "spec", "volumes");
        assert.deepEqual(volumes, [{ name: "serving", secret: { secretName: "mine", defaultMode: 0o440 } }]);
      },
    },
    {
      id: "KC6",
      title: "permissions: what each account may, and nothing else; the driver's only with the driver",
      run: async () => {
        const rendered = await chart.render(WITH_E2B);
        for (const [name, { rules, role, account, namespace }] of Object.entries(PERMISSIONS)) {
          const kind = namespace === undefined ? "ClusterRole" : "Role";
          if (rules !== undefined) {
            assert.deepEqual(at(objectOf(rendered, `${kind} ${name}`), "rules"), rules, name);
          }
          const where = namespace === undefined ? {} : { namespace };
          assert.deepEqual(objectOf(rendered, `${kind}Binding ${name}`), {
            apiVersion: RBAC,
            kind: `${kind}Binding`,
            metadata: { name, ...where },
            roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: role.kind, name: role.name },
            subjects: [{ kind: "ServiceAccount", name: account, namespace: NAMESPACE }],
          });
        }
        const roles = [...rendered.keys()].filter((name) => /^(Cluster)?Role(Binding)? /.test(name));
        assert.equal(roles.length, 4 + 2 * Object.values(PERMISSIONS).filter(({ rules }) => rules).length - 2);
        const alone = await chart.render({ "apiserver.warmPoolDriver": "false" });
        assert.deepEqual(
          at(objectOf(alone, "ClusterRole sandbox-apiserver-inventory-reader"), "rules"),
          PERMISSIONS["sandbox-apiserver-inventory-reader"]?.rules?.slice(0, 1),
        );
        assert.ok(argsOf(alone, "sandbox-apiserver").includes("--enable-warm-pool-driver=false"));
      },
    },
    {
      id: "KC7",
      title: "the resource definition of NodeInventory: every member, columns, one version, no status",
      run: async () => {
        const rendered = await chart.render();
        const found = objectOf(rendered, "CustomResourceDefinition nodeinventories.sandbox.cocoonstack.io");
        assert.deepEqual(withoutDescriptions(found), resourceDefinition);
      },
    },
    {
      id: "KC8",
      title: "with E2B: flags, files and services of the front and of the proxy",
      run: async () => {
        const rendered = await chart.render({
          ...WITH_E2B,
          "apiserver.sandboxdToken.secretName": "node-token",
          "apiserver.e2b.port": "8081",
          "apiserver.e2b.namespace": "team",
          "apiserver.e2b.envdVersion": "0.6.2",
          "apiserver.e2b.defaultTimeoutSeconds": "120",
          "apiserver.e2b.templateAliases": "base python:3.12",
          "apiserver.e2b.builds.enabled": "true",
          "apiserver.e2b.builds.parallel": "3",
          "envdProxy.tlsSecretName": "wildcard",
          "envdProxy.namespace": "team",
        });
        assert.deepEqual(argsOf(rendered, "sandbox-apiserver").slice(4), [
          "--sandboxd-token-file=/etc/apiserver-shim/sandboxd/token",
          "--enable-e2b-api=true",
          "--e2b-bind-address=:8081",
          "--e2b-domain=sandbox.example.com",
          "--e2b-namespace=team",
          "--e2b-api-key-file=/etc/apiserver-shim/keys/keys",
          "--e2b-envd-secret-file=/etc/apiserver-shim/envd/secret",
          "--e2b-envd-version=0.6.2",
          "--e2b-default-timeout=120s",
          "--e2b-template-aliases=/etc/apiserver-shim/aliases/aliases",
          "--e2b-builds=true",
          "--e2b-build-parallel=3",
          "--e2b-build-dir=/var/lib/apiserver-shim/builds",
        ]);
        assert.deepEqual(argsOf(rendered, PROXY), [
          "--inventory=kube",
          "--bind-address=:8443",
          "--domain=sandbox.example.com",
          "--namespace=team",
          "--e2b-envd-secret-file=/etc/envd-proxy/envd/secret",
          "--sandboxd-token-file=/etc/envd-proxy/sandboxd/token",
          "--tls-cert-file=/etc/envd-proxy/tls/tls.crt",
          "--tls-private-key-file=/etc/envd-proxy/tls/tls.key",
        ]);
        for (const deployment of ["sandbox-apiserver", PROXY]) {
          const pod = at(objectOf(rendered, `Deployment ${deployment}`), "spec", "template", "spec");
          const mounts = at(pod, "containers", 0, "volumeMounts") as readonly { name: string; mountPath: string }[];
          const volumes = at(pod, "volumes") as readonly { name: string }[];
          assert.deepEqual(mounts.map(({ name }) => name).toSorted(), volumes.map(({ name }) => name).toSorted());
          for (const file of argsOf(rendered, deployment).filter((arg) => /=\/etc\//.test(arg))) {
            assert.ok(
              mounts.some(({ mountPath }) => file.includes(`=${mountPath}/`)),
              file,
            );
          }
        }
        assert.deepEqual(at(objectOf(rendered, "Service sandbox-apiserver-e2b"), "spec"), {
          selector: { "app.kubernetes.io/name": "sandbox-apiserver" },
          sessionAffinity: "ClientIP",
          ports: [{ name: "http", port: 80, targetPort: 8081, protocol: "TCP" }],
        });
        assert.deepEqual(at(objectOf(rendered, `Service ${PROXY}`), "spec"), {
          selector: { "app.kubernetes.io/name": PROXY },
          ports: [{ name: "https", port: 443, targetPort: 8443, protocol: "TCP" }],
        });
        const aliases = objectOf(rendered, "ConfigMap sandbox-apiserver-template-aliases");
        assert.deepEqual(at(aliases, "data"), { aliases: "base python:3.12\n" });
      },
    },
    {
      id: "KC9",
      title: "with E2B and nothing more: no affinity, a cleartext proxy of all namespaces on the same domain",
      run: async () => {
        const rendered = await chart.render(WITH_E2B);
        assert.deepEqual(at(objectOf(rendered, "Service sandbox-apiserver-e2b"), "spec"), {
          selector: { "app.kubernetes.io/name": "sandbox-apiserver" },
          ports: [{ name: "http", port: 80, targetPort: 8080, protocol: "TCP" }],
        });
        assert.deepEqual(argsOf(rendered, PROXY), [
          "--inventory=kube",
          "--bind-address=:8443",
          "--domain=sandbox.example.com",
          "--namespace=",
          "--e2b-envd-secret-file=/etc/envd-proxy/envd/secret",
        ]);
        assert.equal(at(objectOf(rendered, `Deployment ${PROXY}`), "spec", "replicas"), 2);
        assert.deepEqual(at(objectOf(rendered, `Service ${PROXY}`), "spec", "ports"), [
          { name: "http", port: 80, targetPort: 8443, protocol: "TCP" },
        ]);
        const own = await chart.render({ ...WITH_E2B, "envdProxy.domain": "other.example.com" });
        assert.ok(argsOf(own, PROXY).includes("--domain=other.example.com"));
      },
    },
    {
      id: "KC10",
      title: "what cannot work does not render, and the error says what is missing; so do unknown and wrong values",
      run: async () => {
        const without = (path: string): Record<string, string> => ({ ...WITH_E2B, [path]: "" });
        assert.match(
          await chart.renderError(without("apiserver.e2b.apiKeySecret.name")),
          /needs apiserver\.e2b\.apiKeySecret\.name/,
        );
        assert.match(await chart.renderError(without("apiserver.e2b.domain")), /needs apiserver\.e2b\.domain/);
        assert.match(
          await chart.renderError(without("apiserver.e2b.envdSecret.secretName")),
          /needs apiserver\.e2b\.envdSecret\.value or apiserver\.e2b\.envdSecret\.secretName/,
        );
        assert.match(
          await chart.renderError({ "certManager.enabled": "false" }),
          /certManager\.enabled=false needs certManager\.caBundle/,
        );
        assert.match(
          await chart.renderError({ ...WITH_E2B, "apiserver.e2b.envdSecret.value": "x" }),
          /envdSecret\.value and apiserver\.e2b\.envdSecret\.secretName exclude each other/,
        );
        assert.match(await chart.renderError({ ...WITH_E2B, "apiserver.e2b.port": "6443" }), /must differ/);
        assert.match(await chart.renderError({ "apiserver.replicas": "2" }), /'replicas'/);
        assert.match(await chart.renderError({ "apiserver.replicaCount": "0" }), /replicaCount/);
        assert.match(await chart.renderError({ "apiserver.securePort": "443" }), /securePort/);
        assert.match(await chart.renderError({ "certManager.caBundle": "-----BEGIN" }), /caBundle/);
      },
    },
    {
      id: "KC11",
      title: "the values and their defaults are those that are promised",
      run: async () => {
        const values: unknown = parse(await readFile(join(CHART, "values.yaml"), "utf8"));
        assert.deepEqual(values, VALUES);
      },
    },
    {
      id: "KC12",
      title: "pods are not root, write nowhere, and have no capability; secrets are in Secrets alone",
      run: async () => {
        const { "apiserver.e2b.envdSecret.secretName": _, ...rest } = WITH_E2B;
        const values = { ...rest, "apiserver.e2b.envdSecret.value": "very-s3cret" };
        const rendered = await chart.render(values);
        for (const deployment of ["sandbox-apiserver", PROXY]) {
          const pod = at(objectOf(rendered, `Deployment ${deployment}`), "spec", "template", "spec");
          assert.deepEqual(at(pod, "securityContext"), {
            runAsNonRoot: true,
            runAsUser: 65532,
            runAsGroup: 65532,
            fsGroup: 65532,
            seccompProfile: { type: "RuntimeDefault" },
          });
          assert.deepEqual(at(pod, "containers", 0, "securityContext"), {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ["ALL"] },
          });
        }
        const secret = objectOf(rendered, "Secret sandbox-apiserver-envd-secret");
        const encoded = Buffer.from("very-s3cret").toString("base64");
        assert.deepEqual(at(secret, "data"), { secret: encoded });
        const { stdout } = await chart.helm(templateArgs(values));
        assert.equal(stdout.split(encoded).length, 2);
        assert.doesNotMatch(stdout, /very-s3cret/);
        // Programs read these once: other content is another pod.
        const notes = async (more: Readonly<Record<string, string>>): Promise<readonly unknown[]> => {
          const objects = await chart.render({ ...values, ...more });
          return ["sandbox-apiserver", PROXY].map((deployment) =>
            at(objectOf(objects, `Deployment ${deployment}`), "spec", "template", "metadata", "annotations"),
          );
        };
        const [front, proxy] = await notes({});
        const other = await notes({ "apiserver.e2b.envdSecret.value": "another" });
        assert.notDeepEqual(other[0], front);
        assert.notDeepEqual(other[1], proxy);
        const aliases = await notes({ "apiserver.e2b.templateAliases": "base python:3.12" });
        assert.notDeepEqual(aliases[0], front);
        assert.deepEqual(aliases[1], proxy);
      },
    },
    chartProgramRow(chart, programs),
  ];
}

/** The same without what is for readers alone. */
function withoutDescriptions(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(withoutDescriptions);
  }
  if (typeof value !== "object" || value === null) {
    return value;
  }
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name, member]) => name !== "description" || typeof member !== "string")
      .map(([name, member]) => [name, withoutDescriptions(member)]),
  );
}
