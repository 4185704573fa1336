import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import { KubeAuthority, type KubePair } from "../../src/kube-certificates.ts";
import { type KubeAnswer, kubeCall, type KubeCaller, kubeWatch } from "../../src/kube-call.ts";
import { extensionAuthentication, RULES, TOKENS } from "../../src/kube-users.ts";
import { waitFor } from "../../src/polling.ts";
import type { ControlContext, HeldRows } from "../control/context.ts";
import { type KubeCheck, type KubeLane, laneOf } from "./context.ts";
import { GROUP_VERSION, sandbox } from "./manifests.ts";

const LIST = `/apis/${GROUP_VERSION}/namespaces/team/sandboxes`;

/** Longer than reviews are kept. */
const FORGOTTEN_MS = 10_500;

interface ReviewSpec {
  readonly token?: string;
  readonly user?: string;
  readonly uid?: string;
  readonly groups?: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
  readonly resourceAttributes?: Readonly<Record<string, unknown>>;
  readonly nonResourceAttributes?: Readonly<Record<string, unknown>>;
}

/** Reviews that the shim asked for since the last call. */
async function reviews(
  { rig }: KubeLane,
  kind: "tokenreviews" | "subjectaccessreviews",
): Promise<readonly ReviewSpec[]> {
  const notes = await rig.standin.requests();
  return notes
    .filter(({ path }) => path.endsWith(`/${kind}`))
    .map(({ body }) => (body as { readonly spec: ReviewSpec }).spec);
}

const caller = ({ shim }: KubeLane, more: Omit<KubeCaller, "url" | "ca"> = {}): KubeCaller => ({
  url: shim.url,
  ca: shim.ca,
  ...more,
});

/** A user nobody has asked about: reviews are kept, and a new name makes sure that there is one. */
let strangers = 0;
const stranger = (): string => {
  strangers += 1;
  return `stranger-${strangers}`;
};

/** Asks, and answers as whom the shim took the caller: the user of the only access review. */
async function seenAs(
  lane: KubeLane,
  more: Omit<KubeCaller, "url" | "ca">,
  path = LIST,
): Promise<ReviewSpec | undefined> {
  await lane.rig.standin.requests();
  const { status } = await kubeCall(caller(lane, more), path);
  const found = await reviews(lane, "subjectaccessreviews");
  assert.ok(status === 200 || status === 403, `it is known who asks: ${status}`);
  return found[0];
}

function isStatus(answer: KubeAnswer, code: number, reason: string): string {
  assert.equal(answer.status, code, answer.text);
  const status = JSON.parse(answer.text) as { kind: string; reason: string; code: number; message: string };
  assert.deepEqual([status.kind, status.reason, status.code], ["Status", reason, code]);
  return status.message;
}

const TOKEN_ROWS: readonly KubeCheck[] = [
  [
    "AU01",
    "a token is reviewed once in ten seconds; its user, groups, uid and extras reach the access review",
    async (lane) => {
      await lane.rig.standin.requests();
      const token = TOKENS.admin;
      for (let count = 0; count < 3; count += 1) {
        assert.equal((await kubeCall(caller(lane, { token }), LIST)).status, 200);
      }
      const notes = await lane.rig.standin.requests();
      const count = (kind: string): number => notes.filter(({ path }) => path.endsWith(kind)).length;
      assert.deepEqual([count("/tokenreviews"), count("/subjectaccessreviews")], [1, 1]);
      const access = notes.find(({ path }) => path.endsWith("/subjectaccessreviews"));
      const body = access?.body as { readonly spec: ReviewSpec } | undefined;
      assert.deepEqual(body?.spec, {
        resourceAttributes: {
          namespace: "team",
          verb: "list",
          group: "agents.x-k8s.io",
          version: "v1beta1",
          resource: "sandboxes",
        },
        user: "alice",
        uid: "1",
        groups: ["ops", "system:authenticated"],
        extra: { "example.org/team": ["one", "two"] },
      });
    },
  ],
  [
    "AU02",
    "a token nobody knows, two tokens and another scheme are 401, never anonymous",
    async (lane) => {
      isStatus(await kubeCall(caller(lane, { token: "nobodys" }), "/livez/none"), 401, "Unauthorized");
      for (const value of ["Basic YTpi", "Bearer ", "Bearer a b", "nonsense"]) {
        const answer = await kubeCall(caller(lane, { headers: [["Authorization", value]] }), LIST);
        isStatus(answer, 401, "Unauthorized");
      }
      assert.match((await kubeCall(caller(lane, { token: "nobodys" }), LIST)).text, /"Unauthorized"/);
    },
  ],
  [
    "AU03",
    "who shows nothing is anonymous: health answers, everything else is 403 and says so",
    async (lane) => {
      assert.equal((await kubeCall(caller(lane), "/livez")).text, "ok");
      const message = isStatus(await kubeCall(caller(lane), LIST), 403, "Forbidden");
      assert.match(message, /User "system:anonymous" cannot list resource "sandboxes"/);
      assert.match(isStatus(await kubeCall(caller(lane), "/apis"), 403, "Forbidden"), /cannot get path "\/apis"/);
    },
  ],
  [
    "AU04",
    "an access review has verb, resource, subresource, name and selectors of each request",
    async (lane) => {
      const token = TOKENS.nobody;
      const asked = async (path: string, method = "GET", body?: string): Promise<unknown> => {
        await lane.rig.standin.requests();
        await kubeCall(caller(lane, { token }), path, method, body);
        const [spec] = await reviews(lane, "subjectaccessreviews");
        return spec?.resourceAttributes ?? spec?.nonResourceAttributes;
      };
      const base = { group: "agents.x-k8s.io", version: "v1beta1", resource: "sandboxes" };
      const name = stranger();
      assert.deepEqual(await asked(`${LIST}/${name}`), { namespace: "team", verb: "get", ...base, name });
      assert.deepEqual(await asked(`${LIST}?watch=true&x=${name}`), { namespace: "team", verb: "watch", ...base });
      assert.deepEqual(await asked(`${LIST}/${name}`, "DELETE"), { namespace: "team", verb: "delete", ...base, name });
      assert.deepEqual(await asked(LIST, "POST", sandbox({ name })), { namespace: "team", verb: "create", ...base });
      assert.deepEqual(await asked(`${LIST}/${name}/pause`, "POST", "{}"), {
        namespace: "team",
        verb: "create",
        ...base,
        subresource: "pause",
        name,
      });
      assert.deepEqual(await asked(`/apis/${GROUP_VERSION}/sandboxes`), { verb: "list", ...base });
      assert.deepEqual(await asked(`${LIST}?fieldSelector=metadata.name%3D${name}`), {
        namespace: "team",
        verb: "list",
        ...base,
        name,
        fieldSelector: { requirements: [{ key: "metadata.name", operator: "In", values: [name] }] },
      });
      assert.deepEqual(await asked(`/metrics/${name}`), { path: `/metrics/${name}`, verb: "get" });
    },
  ],
  [
    "AU05",
    "a changed permission holds after ten seconds, both ways",
    async (lane) => {
      const token = TOKENS.reader;
      const status = async (): Promise<number> => (await kubeCall(caller(lane, { token }), LIST)).status;
      assert.equal(await status(), 200);
      await lane.rig.standin.order({ op: "rules", rules: RULES.slice(0, 2) });
      assert.equal(await status(), 200, "it is kept a while");
      await delay(FORGOTTEN_MS);
      assert.equal(await status(), 403);
      await lane.rig.standin.order({ op: "rules", rules: RULES });
      await delay(FORGOTTEN_MS);
      assert.equal(await status(), 200);
    },
  ],
  [
    "AU06",
    "whoever asks to be somebody else is refused",
    async (lane) => {
      for (const name of ["Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-scopes"]) {
        const answer = await kubeCall(caller(lane, { token: TOKENS.admin, headers: [[name, "bob"]] }), LIST);
        assert.equal(answer.status, 403, `${name}: ${answer.text}`);
      }
    },
  ],
];

const CERTIFICATE_ROWS: readonly KubeCheck[] = [
  [
    "AU10",
    "a client certificate is its common name with its organizations; system:masters needs no review",
    async (lane) => {
      const { clients } = lane.rig.authorities;
      const name = stranger();
      for (const http2 of [false, true]) {
        const pair = clients.issue({ commonName: `${name}-${http2}`, organizations: ["dev", "a,b"] });
        const spec = await seenAs(lane, { pair, http2 });
        assert.deepEqual([spec?.user, spec?.groups], [`${name}-${http2}`, ["dev", "a,b", "system:authenticated"]]);
      }
      await lane.rig.standin.requests();
      const root = clients.issue({ commonName: stranger(), organizations: ["system:masters"] });
      assert.equal((await kubeCall(caller(lane, { pair: root }), LIST)).status, 200);
      assert.deepEqual(await reviews(lane, "subjectaccessreviews"), []);
    },
  ],
  [
    "AU11",
    "certificates that are over, not yet, of another authority or for servers are 401, never anonymous",
    async (lane) => {
      const { clients, frontProxy } = lane.rig.authorities;
      const bad: Readonly<Record<string, KubePair>> = {
        "is over": clients.issue({ commonName: "x", organizations: ["system:masters"], days: [-10, -1] }),
        "is not yet": clients.issue({ commonName: "x", organizations: ["system:masters"], days: [1, 10] }),
        "is a stranger's": new KubeAuthority("kubernetes").issue({
          commonName: "x",
          organizations: ["system:masters"],
        }),
        "is a server's": clients.issue({ commonName: "x", organizations: ["system:masters"], serverNames: ["x"] }),
        "is a front proxy's without a word": frontProxy.issue({ commonName: "front-proxy-client" }),
      };
      for (const [what, pair] of Object.entries(bad)) {
        const answer = await kubeCall(caller(lane, { pair }), LIST);
        assert.equal(answer.status, 401, `what ${what}: ${answer.status} ${answer.text}`);
      }
    },
  ],
  [
    "AU12",
    "a front proxy's word: user, repeated groups, also with commas, extras, over both protocols",
    async (lane) => {
      for (const http2 of [false, true]) {
        const name = stranger();
        const spec = await seenAs(lane, {
          pair: lane.rig.authorities.aggregator,
          http2,
          headers: [
            ["X-Remote-User", name],
            ["X-Remote-Group", "one"],
            ["X-Remote-Group", "two, three"],
            ["X-Remote-Group", "four"],
            ["X-Remote-Uid", "not configured"],
            ["X-Remote-Extra-Example.org%2FTeam", "a"],
            ["X-Remote-Extra-Example.org%2FTeam", "b,c"],
          ],
        });
        assert.deepEqual(spec, {
          resourceAttributes: spec?.resourceAttributes,
          user: name,
          groups: ["one", "two, three", "four", "system:authenticated"],
          extra: { "example.org/team": ["a", "b,c"] },
        });
      }
    },
  ],
  [
    "AU13",
    "the same headers from everybody else count for nothing",
    async (lane) => {
      const { clients, frontProxy } = lane.rig.authorities;
      const headers = [
        ["X-Remote-User", "root"],
        ["X-Remote-Group", "system:masters"],
      ] as const;
      const user = stranger();
      const spec = await seenAs(lane, { headers, pair: clients.issue({ commonName: user }) });
      assert.deepEqual([spec?.user, spec?.groups], [user, ["system:authenticated"]], "a user's certificate");
      assert.equal((await kubeCall(caller(lane, { headers, token: TOKENS.nobody }), LIST)).status, 403, "a token");
      assert.equal((await kubeCall(caller(lane, { headers }), LIST)).status, 403, "nothing");
      const others = [
        frontProxy.issue({ commonName: "somebody-else" }),
        frontProxy.issue({ commonName: "front-proxy-client", days: [-9, -1] }),
        new KubeAuthority("front-proxy-ca").issue({ commonName: "front-proxy-client" }),
      ];
      for (const pair of others) {
        assert.equal((await kubeCall(caller(lane, { headers, pair }), LIST)).status, 401, "another proxy");
      }
    },
  ],
  [
    "AU14",
    "the aggregator's probe and its fetch of the description are answered",
    async (lane) => {
      const probe = (user: string, group: string): KubeCaller =>
        caller(lane, {
          pair: lane.rig.authorities.aggregator,
          http2: true,
          headers: [
            ["X-Remote-User", user],
            ["X-Remote-Group", group],
          ],
        });
      const found = await kubeCall(probe("system:kube-aggregator", "system:masters"), `/apis/${GROUP_VERSION}`);
      assert.equal(found.status, 200);
      assert.equal((JSON.parse(found.text) as { kind: string }).kind, "APIResourceList");
      const description = await kubeCall(probe("system:aggregator", "system:masters"), "/openapi/v3");
      assert.ok(description.text.includes(`apis/${GROUP_VERSION}`), description.text.slice(0, 200));
    },
  ],
  [
    "AU15",
    "authorities that the cluster replaces are taken up while it serves",
    async (lane) => {
      const { frontProxy, clients } = lane.rig.authorities;
      const next = new KubeAuthority("kubernetes");
      const pair = next.issue({ commonName: stranger() });
      const status = async (): Promise<number> => (await kubeCall(caller(lane, { pair }), LIST)).status;
      assert.equal(await status(), 401);
      try {
        await lane.rig.standin.order(extensionAuthentication(next, frontProxy));
        await waitFor("a permission of the new authority", async () => (await status()) === 403, 10_000);
      } finally {
        await lane.rig.standin.order(extensionAuthentication(clients, frontProxy));
      }
      await waitFor("an end of it", async () => (await status()) === 401, 10_000);
    },
  ],
];

const OUTAGE_ROWS: readonly KubeCheck[] = [
  [
    "AU20",
    "no reviewer: what is kept is served, masters too, the rest is 503 with Retry-After; health, watches and lists go on",
    async (lane) => {
      const masters = lane.rig.authorities.clients.issue({ commonName: stranger(), organizations: ["system:masters"] });
      const known = caller(lane, { token: TOKENS.admin });
      assert.equal((await kubeCall(known, LIST)).status, 200);
      const watch = await kubeWatch(known, `${LIST}?watch=true`);
      await lane.rig.standin.order({ op: "outage" });
      try {
        assert.equal((await kubeCall(known, LIST)).status, 200, "kept");
        assert.equal((await kubeCall(caller(lane, { pair: masters }), LIST)).status, 200, "masters");
        for (const path of ["/livez", "/readyz", "/healthz"]) {
          assert.equal((await kubeCall(caller(lane), path)).status, 200, path);
        }
        const unkept: readonly Omit<KubeCaller, "url" | "ca">[] = [
          { token: `unknown-${stranger()}` },
          { pair: lane.rig.authorities.clients.issue({ commonName: stranger() }) },
        ];
        for (const more of unkept) {
          const answer = await kubeCall(caller(lane, more), LIST);
          isStatus(answer, 503, "ServiceUnavailable");
          assert.match(String(answer.headers["retry-after"]), /^\d+$/);
        }
        const ended = watch.ended.then(() => "ended");
        assert.equal(await Promise.race([ended, delay(500, "open")]), "open", "the watch goes on");
      } finally {
        watch.close();
        await lane.rig.standin.order({ op: "back" });
      }
      await waitFor(
        "answers again",
        async () => (await kubeCall(caller(lane, { token: TOKENS.nobody }), LIST)).status === 403,
        20_000,
      );
    },
  ],
  [
    "AU21",
    "a reviewer that fails twice is asked again; one that is silent is given up",
    async (lane) => {
      const path = "/(tokenreviews|subjectaccessreviews)$";
      const retried = { path, times: 2, action: { kind: "status", code: 500, reason: "InternalError" } } as const;
      await lane.rig.standin.order({ op: "faults", faults: [retried] });
      const pair = lane.rig.authorities.clients.issue({ commonName: stranger() });
      assert.equal((await kubeCall(caller(lane, { pair }), LIST)).status, 403);
      await lane.rig.standin.order({ op: "faults", faults: [{ path, action: { kind: "hang" } }] });
      try {
        const other = lane.rig.authorities.clients.issue({ commonName: stranger() });
        const answer = await kubeCall(caller(lane, { pair: other }), LIST);
        assert.ok(answer.status === 503 || answer.status === 504, answer.text);
      } finally {
        await lane.rig.standin.order({ op: "faults", faults: [] });
      }
    },
  ],
];

/** Who is who, and what they may: certificates, headers, tokens, and a cluster that does not answer. */
export function authRows(context: ControlContext): HeldRows {
  return laneOf(context, "kube-auth", { nodes: 1, warm: 2 }, [...TOKEN_ROWS, ...CERTIFICATE_ROWS, ...OUTAGE_ROWS]);
}
