import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";

import { restock } from "../../src/guest-mesh.ts";
import { type KubeAnswer, type KubeCaller, kubeCall, kubeJson, kubeWatch } from "../../src/kube-call.ts";
import { TOKENS } from "../../src/kube-users.ts";
import { waitFor } from "../../src/polling.ts";
import type { ControlContext, HeldRows } from "../control/context.ts";
import { type KubeCheck, type KubeLane, laneOf } from "./context.ts";
import { GROUP_VERSION, sandbox } from "./manifests.ts";

const GROUP = `/apis/${GROUP_VERSION}`;
const LIST = `${GROUP}/namespaces/api/sandboxes`;
const METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const ONE_METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";

interface Item {
  readonly kind?: string;
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}

interface List {
  readonly kind: string;
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly Item[];
}

const admin = ({ shim }: KubeLane, accept?: string): KubeCaller => ({
  url: shim.url,
  ca: shim.ca,
  token: TOKENS.admin,
  ...(accept === undefined ? {} : { headers: [["Accept", accept]] as const }),
});

async function list(lane: KubeLane, query = "", accept?: string): Promise<List> {
  return (await kubeJson(admin(lane, accept), `${LIST}${query}`)) as unknown as List;
}

/** Has sandboxes of these names, and removes all of the namespace in the end. */
async function having(lane: KubeLane, names: readonly string[], use: () => Promise<void>): Promise<void> {
  await restock(lane.rig.guests, 1_000);
  try {
    for (const name of names) {
      await kubeJson(admin(lane), LIST, 201, "POST", sandbox({ name }));
    }
    // What a node publishes of a sandbox may say more than what its create answered.
    await delay(names.length > 0 ? 1_500 : 0);
    await use();
  } finally {
    for (const { metadata } of (await list(lane)).items) {
      await kubeCall(admin(lane), `${LIST}/${metadata.name}`, "DELETE");
    }
  }
}

function statusOf(answer: KubeAnswer, code: number): Readonly<Record<string, unknown>> {
  assert.equal(answer.status, code, answer.text.slice(0, 300));
  const status = JSON.parse(answer.text) as Readonly<Record<string, unknown>>;
  assert.deepEqual([status["kind"], status["code"]], ["Status", code]);
  return status;
}

const ROWS: readonly KubeCheck[] = [
  [
    "AP01",
    "aggregated discovery has an ETag that saves its second fetch; v2beta1 alone is 406",
    async (lane) => {
      const accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
      const first = await kubeCall(admin(lane, `${accept},application/json`), "/apis");
      assert.equal(first.status, 200);
      assert.equal(first.headers["content-type"], accept);
      const etag = String(first.headers["etag"]);
      assert.match(etag, /^"[0-9A-F]{128}"$/);
      const headers = [
        ["Accept", accept],
        ["If-None-Match", etag],
      ] as const;
      assert.equal((await kubeCall({ ...admin(lane), headers }, "/apis")).status, 304);
      const old = accept.replace("v=v2", "v=v2beta1");
      statusOf(await kubeCall(admin(lane, old), "/apis"), 406);
    },
  ],
  [
    "AP02",
    "paths that are none, methods that are none, bodies of strange types and sizes have a Status each",
    async (lane) => {
      statusOf(await kubeCall(admin(lane), `${GROUP}/namespaces/api/pods`), 404);
      statusOf(await kubeCall(admin(lane), "/apis/agents.x-k8s.io/v9/sandboxes"), 404);
      statusOf(await kubeCall(admin(lane), LIST, "DELETE"), 405);
      statusOf(await kubeCall(admin(lane), `${GROUP}/sandboxes`, "POST", sandbox({ name: "x" })), 405);
      statusOf(await kubeCall(admin(lane, "application/vnd.kubernetes.protobuf"), LIST), 406);
      const typed: KubeCaller = { ...admin(lane), http2: true, headers: [["Content-Encoding", "identity"]] };
      statusOf(await kubeCall(typed, LIST, "POST", "no JSON"), 400);
      statusOf(await kubeCall(admin(lane), LIST, "POST", JSON.stringify({ x: "y".repeat(3 << 20) })), 413);
      const paths = JSON.parse((await kubeCall(admin(lane), "/nowhere")).text) as { paths: readonly string[] };
      assert.ok(paths.paths.includes(GROUP));
    },
  ],
  [
    "AP03",
    "pages: in order, none twice, none left out, also when one goes meanwhile; a token that is none is 400",
    (lane) =>
      having(lane, ["a", "b", "c", "d"], async () => {
        const names = (page: List): readonly string[] => page.items.map(({ metadata }) => metadata.name);
        const first = await list(lane, "?limit=2");
        assert.deepEqual(names(first), ["a", "b"]);
        const token = encodeURIComponent(first.metadata.continue ?? "");
        await kubeJson(admin(lane), `${LIST}/b`, 200, "DELETE");
        const second = await list(lane, `?limit=2&continue=${token}`);
        assert.deepEqual([names(second), second.metadata.continue ?? ""], [["c", "d"], ""]);
        statusOf(await kubeCall(admin(lane), `${LIST}?limit=2&continue=nonsense`), 400);
        assert.match(first.metadata.resourceVersion, /^\d+$/);
      }),
  ],
  [
    "AP04",
    "metadata alone, listed and watched, as the garbage collector asks for it",
    (lane) =>
      having(lane, ["one"], async () => {
        const found = await list(lane, "", METADATA);
        assert.equal(found.kind, "PartialObjectMetadataList");
        assert.deepEqual(
          Object.keys(found.items[0] ?? {}).toSorted((a, b) => (a < b ? -1 : 1)),
          ["apiVersion", "kind", "metadata"],
        );
        const watch = await kubeWatch(
          admin(lane, ONE_METADATA),
          `${GROUP}/sandboxes?watch=true&allowWatchBookmarks=true`,
        );
        await waitFor("the first event", () => watch.events.length > 0, 5_000);
        assert.equal(watch.events[0]?.object["kind"], "PartialObjectMetadata");
        assert.equal(watch.events[0]?.object["spec"], undefined);
        watch.close();
      }),
  ],
  [
    "AP05",
    "a watch from a list's version tells only what comes; one as a list tells all, then a bookmark",
    (lane) =>
      having(lane, ["one"], async () => {
        const { metadata } = await list(lane);
        const later = await kubeWatch(admin(lane), `${LIST}?watch=true&resourceVersion=${metadata.resourceVersion}`);
        await delay(1_200);
        assert.deepEqual(later.events, []);
        await kubeJson(admin(lane), LIST, 201, "POST", sandbox({ name: "two" }));
        await waitFor("the new one", () => later.events.some(({ type }) => type === "ADDED"), 5_000);
        later.close();
        const query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
        const listing = await kubeWatch(admin(lane), `${LIST}?${query}`);
        await waitFor("a bookmark", () => listing.events.some(({ type }) => type === "BOOKMARK"), 5_000);
        assert.deepEqual(
          listing.events.slice(0, 3).map(({ type }) => type),
          ["ADDED", "ADDED", "BOOKMARK"],
        );
        const bookmark = listing.events[2]?.object["metadata"] as Item["metadata"] | undefined;
        assert.equal(bookmark?.annotations?.["k8s.io/initial-events-end"], "true");
        listing.close();
        statusOf(await kubeCall(admin(lane), `${LIST}?watch=true&sendInitialEvents=true`), 422);
      }),
  ],
  [
    "AP06",
    "a delete of another uid or version is a conflict and ends nothing; the right one ends it",
    (lane) =>
      having(lane, ["one"], async () => {
        const { metadata } = (await kubeJson(admin(lane), `${LIST}/one`)) as unknown as Item;
        const remove = (preconditions: object): Promise<KubeAnswer> =>
          kubeCall(
            admin(lane),
            `${LIST}/one`,
            "DELETE",
            JSON.stringify({ apiVersion: "v1", kind: "DeleteOptions", preconditions }),
          );
        statusOf(await remove({ uid: "11111111-2222-3333-4444-555555555555" }), 409);
        statusOf(await remove({ resourceVersion: "1" }), 409);
        assert.equal((await lane.rig.guests.sandboxes("api")).length, 1);
        assert.equal((await remove({ uid: metadata.uid })).status, 200);
        assert.equal((await lane.rig.guests.sandboxes("api")).length, 0);
      }),
  ],
  [
    "AP07",
    "a second shim finds at once what the first one made, and ends it",
    (lane) =>
      having(lane, [], async () => {
        const other = await lane.rig.shim();
        try {
          for (const name of ["one", "two", "three"]) {
            await kubeJson(admin(lane), LIST, 201, "POST", sandbox({ name }));
            const second: KubeLane = { rig: lane.rig, shim: other };
            await kubeJson(admin(second), `${LIST}/${name}`);
            await kubeJson(admin(second), `${LIST}/${name}`, 200, "DELETE");
          }
          assert.equal((await lane.rig.guests.sandboxes("api")).length, 0);
        } finally {
          await other.process.stop(5_000);
        }
      }),
  ],
];

/** What machines ask of the API rather than kubectl. */
export function apiRows(context: ControlContext): HeldRows {
  return laneOf(context, "kube-api", { nodes: 2, warm: 4 }, ROWS);
}
