import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { KubeClient } from "./kube-client.ts";
import { Reflector, type KubeChanges, type ReflectorOptions } from "./reflector.ts";
import { ManualTiming } from "./testing/manual-timing.ts";
import { eventLine, refuse, ScriptedApiServer, type Script } from "./testing/scripted-api-server.ts";

const RESOURCE = { group: "g.example", version: "v1", plural: "things" };

let server: ScriptedApiServer;
const life = new Set<() => Promise<void>>();

beforeEach(async () => {
  server = await ScriptedApiServer.start();
});

afterEach(async () => {
  await Promise.all([...life].map((end) => end()));
  life.clear();
  await server[Symbol.asyncDispose]();
});

interface Followed {
  readonly reflector: Reflector;
  readonly timing: ManualTiming;
  readonly changes: KubeChanges[];
  /** What is known by the changes so far: `name@version`. */
  readonly shown: () => string[];
  readonly end: () => Promise<void>;
  readonly log: string[];
}

async function follow(more: Partial<ReflectorOptions> = {}): Promise<Followed> {
  const client = await KubeClient.connect({ source: "test", server: server.url, namespace: "default", user: {} });
  const timing = new ManualTiming();
  const changes: KubeChanges[] = [];
  const known = new Map<string, string>();
  const log: string[] = [];
  const say =
    (level: string) =>
    (_fields: object, message: string): void =>
      void log.push(`${level} ${message}`);
  const reflector = new Reflector({
    client,
    resource: RESOURCE,
    timing,
    logger: { debug: () => undefined, info: say("info"), warn: say("warn"), error: say("error") },
    onChanges(batch) {
      changes.push(batch);
      for (const { metadata } of batch.changed) {
        known.set(metadata.name, metadata.resourceVersion ?? "");
      }
      for (const key of batch.removed) {
        known.delete(key);
      }
    },
    ...more,
  });
  const stop = new AbortController();
  const running = reflector.run(stop.signal);
  const end = async (): Promise<void> => {
    stop.abort();
    await running;
    await client.close();
  };
  life.add(end);
  const shown = (): string[] => [...known].map(([name, version]) => `${name}@${version}`).sort();
  return { reflector, timing, changes, shown, end, log };
}

function soon(check: () => void): Promise<void> {
  return vi.waitFor(check, { interval: 2, timeout: 10_000 });
}

function thing(name: string, version: number | string, more: object = {}): object {
  return { ...more, metadata: { name, resourceVersion: String(version) } };
}

/** A list of its own, out of the truth of the server. */
function page(version: string, names: readonly string[], next?: string): Script {
  return (response) => {
    const metadata = { resourceVersion: version, continue: next };
    response.end(JSON.stringify({ metadata, items: names.map((name) => thing(name, 1)) }));
  };
}

function answer(body: string): Script {
  return (response) => void response.end(body);
}

describe("the first list", () => {
  it("is taken from the cache, and the watch begins at its version and asks for bookmarks", async () => {
    server.put("a");
    const { reflector, shown } = await follow({ fieldSelector: "metadata.name=a" });
    expect(reflector.status).toEqual({
      hasSynced: false,
      watching: false,
      lastEventAt: undefined,
      lastError: undefined,
    });
    const watch = await server.nextWatch();
    await reflector.synced;
    expect(shown()).toEqual(["a@2"]);
    const [list] = server.requests;
    expect(list).toMatchObject({ method: "GET", path: "/apis/g.example/v1/things" });
    expect(list?.query).toEqual({ resourceVersion: "0", limit: "500", fieldSelector: "metadata.name=a" });
    const { timeoutSeconds, ...query } = watch.query;
    expect(query).toEqual({
      watch: "true",
      resourceVersion: "2",
      allowWatchBookmarks: "true",
      fieldSelector: "metadata.name=a",
    });
    expect(Number(timeoutSeconds)).toBeGreaterThanOrEqual(300);
    expect(Number(timeoutSeconds)).toBeLessThanOrEqual(600);
    await soon(() => expect(reflector.status).toMatchObject({ hasSynced: true, watching: true }));
  });

  it("is asked for the newest state when that is wanted", async () => {
    server.put("a");
    const { shown } = await follow({ newest: true });
    await soon(() => expect(shown()).toEqual(["a@2"]));
    expect(server.lists).toEqual([{ limit: "500" }]);
  });

  it("is told even when it is empty", async () => {
    const { reflector, changes } = await follow();
    await reflector.synced;
    expect(changes).toEqual([{ changed: [], removed: [] }]);
  });

  it("is put together from its pages", async () => {
    server.listScripts.push(page("7", ["a", "b"], "p2"), page("7", ["c"], "p3"), page("7", []));
    const { shown, changes } = await follow();
    expect((await server.nextWatch()).query["resourceVersion"]).toBe("7");
    expect(shown()).toEqual(["a@1", "b@1", "c@1"]);
    expect(changes).toHaveLength(1);
    expect(server.lists).toEqual([
      { resourceVersion: "0", limit: "500" },
      { limit: "500", continue: "p2" },
      { limit: "500", continue: "p3" },
    ]);
  });

  it("starts over without a version when its pages expire, and at last without pages", async () => {
    server.put("a");
    server.listScripts.push(
      page("7", ["x"], "p2"),
      refuse(410, "Expired"),
      page("8", ["x"], "p2"),
      refuse(410, "Gone"),
    );
    const { shown } = await follow();
    await server.nextWatch();
    expect(shown()).toEqual(["a@2"]);
    expect(server.lists).toEqual([
      { resourceVersion: "0", limit: "500" },
      { limit: "500", continue: "p2" },
      { limit: "500" },
      { limit: "500", continue: "p2" },
      {},
    ]);
  });

  it.each([
    ["is cut off", answer('{"metadata":{"resourceVersion":"1"},"items":[')],
    ["is no list", answer("[]")],
    ["has no version", answer('{"metadata":{},"items":[]}')],
    ["is an error page", (response) => void response.writeHead(502).end("<html>bad gateway</html>")],
    ["is a redirect", (response) => void response.writeHead(307, { location: "http://127.0.0.1:1/" }).end()],
    ["is reset", (response) => void response.socket?.resetAndDestroy()],
  ] satisfies [string, Script][])("is asked for again when it %s", async (_name, script) => {
    server.put("a");
    server.listScripts.push(script);
    const { shown, timing, reflector } = await follow();
    await server.nextWatch();
    await soon(() => expect(reflector.status.lastError).toBeUndefined());
    expect(shown()).toEqual(["a@2"]);
    expect(timing.waits).toEqual([400]);
  });
});

describe("a watch", () => {
  it("reads events however they are cut, and tells those that come together in one go", async () => {
    const { shown, changes } = await follow();
    const watch = await server.nextWatch();
    const lines = Buffer.from(
      eventLine("ADDED", thing("a", 5)) +
        eventLine("ADDED", thing("b", 6, { note: "日本語 👩‍🚀" })) +
        eventLine("MODIFIED", thing("a", 7)),
    );
    const inside = lines.indexOf("日本語") + 1;
    await watch.send(lines.subarray(0, inside));
    await soon(() => expect(shown()).toEqual(["a@5"]));
    await watch.send(lines.subarray(inside, inside + 1));
    await watch.send(lines.subarray(inside + 1));
    await soon(() => expect(shown()).toEqual(["a@7", "b@6"]));
    const told = changes.flatMap(({ changed }) => changed);
    expect(told.find(({ metadata }) => metadata.name === "b")?.["note"]).toBe("日本語 👩‍🚀");
    const before = changes.length;
    await watch.send(
      eventLine("ADDED", thing("c", 8)) + eventLine("DELETED", thing("c", 9)) + eventLine("DELETED", thing("b", 10)),
    );
    await soon(() => expect(shown()).toEqual(["a@7"]));
    expect(changes.slice(before)).toEqual([{ changed: [], removed: ["c", "b"] }]);
  });

  it("says nothing of objects whose version is known", async () => {
    server.put("a");
    const { changes, shown } = await follow();
    const watch = await server.nextWatch();
    await watch.event("MODIFIED", thing("a", 2));
    await watch.event("DELETED", thing("unknown", 3));
    await watch.event("ADDED", thing("b", 4));
    await soon(() => expect(shown()).toEqual(["a@2", "b@4"]));
    expect(
      changes.slice(1).flatMap(({ changed, removed }) => [...changed.map((one) => one.metadata.name), ...removed]),
    ).toEqual(["b"]);
  });

  it("goes on where it ended, without a list, and from where a bookmark moved it", async () => {
    const { timing, changes, reflector } = await follow();
    const first = await server.nextWatch();
    await first.event("ADDED", thing("a", 5));
    await first.bookmark("9");
    first.end();
    const second = await server.nextWatch();
    expect(second.query["resourceVersion"]).toBe("9");
    expect(server.lists).toHaveLength(1);
    expect(changes).toHaveLength(2);
    expect(timing.waits).toEqual([]);
    expect(reflector.status.lastEventAt).toBeInstanceOf(Date);
  });

  it("that ends at once and says nothing is no reason to ask without a pause", async () => {
    const { timing } = await follow();
    (await server.nextWatch()).end();
    (await server.nextWatch()).end();
    await server.nextWatch();
    expect(timing.waits).toEqual([400, 800]);
    expect(server.lists).toHaveLength(1);
  });

  it("that lived for a while is opened again without a pause", async () => {
    const { timing, reflector } = await follow();
    const watch = await server.nextWatch();
    await soon(() => expect(reflector.status.watching).toBe(true));
    timing.pass(1000);
    watch.end();
    await server.nextWatch();
    expect(timing.waits).toEqual([]);
  });

  it("takes a last line without its end when it is whole, and never half of one", async () => {
    const { shown } = await follow();
    const first = await server.nextWatch();
    await first.send(eventLine("ADDED", thing("a", 5)) + eventLine("ADDED", thing("b", 6)).trim());
    first.end();
    const second = await server.nextWatch();
    expect(second.query["resourceVersion"]).toBe("6");
    expect(shown()).toEqual(["a@5", "b@6"]);
    await second.send(eventLine("ADDED", thing("c", 7)) + eventLine("ADDED", thing("d", 8)).slice(0, 30));
    second.end();
    expect((await server.nextWatch()).query["resourceVersion"]).toBe("7");
    expect(shown()).toEqual(["a@5", "b@6", "c@7"]);
    expect(server.lists).toHaveLength(1);
  });

  it.each([
    ["status 410", (): Script => refuse(410, "Expired")],
    ["an ERROR event", (): Script => answer(eventLine("ERROR", { kind: "Status", code: 410, reason: "Expired" }))],
    [
      "a version it has not reached",
      (): Script =>
        answer(
          eventLine("ERROR", {
            kind: "Status",
            code: 504,
            reason: "Timeout",
            details: { causes: [{ reason: "ResourceVersionTooLarge" }] },
          }),
        ),
    ],
  ])("whose version expired, by %s, is followed by a list at once, and what is gone is told", async (_name, script) => {
    server.put("a");
    server.put("b");
    const { changes, shown, timing, log } = await follow();
    const watch = await server.nextWatch();
    server.objects.delete("a");
    server.put("c");
    server.watchScripts.push(script());
    watch.reset();
    const next = await server.nextWatch();
    expect(next.query["resourceVersion"]).toBe("4");
    expect(shown()).toEqual(["b@3", "c@4"]);
    expect(changes.at(-1)?.changed.map(({ metadata }) => metadata.name)).toEqual(["c"]);
    expect(changes.at(-1)?.removed).toEqual(["a"]);
    expect(server.lists).toEqual([{ resourceVersion: "0", limit: "500" }, { limit: "500" }]);
    // One for the reset, none for what expired.
    expect(timing.waits.filter((ms) => ms > 0)).toEqual([400]);
    expect(log).toEqual(["warn watch of the API server failed"]);
    await next.bookmark("9");
    await soon(() => expect(log.at(-1)).toBe("info watch of the API server is back"));
  });

  it("whose versions expire one after the other does not become a storm", async () => {
    const { timing } = await follow();
    for (let round = 0; round < 3; round += 1) {
      server.watchScripts.push(refuse(410, "Expired"));
    }
    (await server.nextWatch()).reset();
    await server.nextWatch();
    expect(timing.waits.filter((ms) => ms > 0)).toEqual([400, 800, 1600]);
  });

  it.each([
    ["429 with a wish in seconds", refuse(429, "TooManyRequests", { "retry-after": "7" }), 7000],
    [
      "429 with a wish in the Status",
      (response) => void response.writeHead(429).end('{"details":{"retryAfterSeconds":3}}'),
      3000,
    ],
    ["500", refuse(500, "InternalError"), 800],
    ["503 in plain text", (response) => void response.writeHead(503).end("apiserver not ready"), 800],
    ["403", refuse(403, "Forbidden"), 800],
    ["401", refuse(401, "Unauthorized"), 800],
    [
      "an ERROR event 500",
      answer(eventLine("ERROR", { code: 500, reason: "InternalError", message: "etcdserver" })),
      800,
    ],
    ["a reset before the answer", (response) => void response.socket?.resetAndDestroy(), 800],
  ] satisfies [string, Script, number][])(
    "that meets %s keeps what it knows, waits and goes on",
    async (_name, script, wait) => {
      server.put("a");
      const { timing, shown, reflector } = await follow();
      const first = await server.nextWatch();
      server.watchScripts.push(script);
      first.reset();
      const next = await server.nextWatch();
      expect(next.query["resourceVersion"]).toBe("2");
      expect(server.lists).toHaveLength(1);
      expect(timing.waits).toEqual([400, wait]);
      expect(shown()).toEqual(["a@2"]);
      await soon(() => expect(reflector.status).toMatchObject({ watching: true, lastError: undefined }));
    },
  );

  it("shows why it is not there, and logs each kind of failure once", async () => {
    const { reflector, log, end } = await follow();
    const watch = await server.nextWatch();
    server.gate = (response, seen) => {
      refuse(500, "InternalError")(response, seen);
      return true;
    };
    watch.reset();
    await soon(() => expect(server.requests.length).toBeGreaterThan(5));
    expect(reflector.status).toMatchObject({ hasSynced: true, watching: false });
    expect(reflector.status.lastError).toMatchObject({ code: "status", status: 500, reason: "InternalError" });
    await end();
    expect(log).toEqual(["warn watch of the API server failed", "warn watch of the API server failed"]);
  });

  it("lists anew when the server fails at it again and again", async () => {
    const { timing } = await follow();
    for (let round = 0; round < 5; round += 1) {
      server.watchScripts.push(refuse(500, "InternalError"));
    }
    (await server.nextWatch()).reset();
    await server.nextWatch();
    expect(server.lists).toEqual([{ resourceVersion: "0", limit: "500" }, { limit: "500" }]);
    expect(timing.waits).toEqual([400, 800, 1600, 3200, 6400, 12_800]);
  });

  it.each([
    ["no JSON", "{oops}\n"],
    ["no event", '{"type":"TOLD","object":{}}\n'],
    ["an object without a name", '{"type":"ADDED","object":{"metadata":{"resourceVersion":"9"}}}\n'],
  ])(
    "with a line that is %s lists anew, since something was missed, and keeps what came before",
    async (_name, line) => {
      const { shown, changes } = await follow();
      const watch = await server.nextWatch();
      server.put("b");
      await watch.send(eventLine("ADDED", thing("a", 5)) + line);
      await server.nextWatch();
      expect(changes.some(({ changed }) => changed.some(({ metadata }) => metadata.name === "a"))).toBe(true);
      expect(shown()).toEqual(["b@2"]);
      expect(server.lists).toHaveLength(2);
    },
  );

  it("that is silent for three minutes is given up and begun again, and any sign of life keeps it", async () => {
    const { timing, reflector, shown } = await follow();
    const watch = await server.nextWatch();
    await soon(() => expect(reflector.status.watching).toBe(true));
    timing.pass(170_000);
    await watch.event("ADDED", thing("a", 9));
    await soon(() => expect(shown()).toEqual(["a@9"]));
    timing.pass(100_000);
    timing.pass(79_999);
    expect(reflector.status.watching).toBe(true);
    timing.pass(1);
    await watch.closed;
    expect((await server.nextWatch()).query["resourceVersion"]).toBe("9");
    expect(server.lists).toHaveLength(1);
  });

  it("outlives a server that dies and comes back with other objects", async () => {
    server.put("a");
    const { reflector, shown, timing } = await follow();
    await server.nextWatch();
    await server.die();
    await soon(() => expect(timing.waits.length).toBeGreaterThan(6));
    expect(reflector.status).toMatchObject({ hasSynced: true, watching: false, lastError: { code: "unreachable" } });
    expect(shown()).toEqual(["a@2"]);
    expect(Math.max(...timing.waits)).toBeLessThanOrEqual(30_000);
    server.objects.clear();
    server.put("b");
    server.watchScripts.push(refuse(410, "Expired"));
    await server.listen();
    await server.nextWatch();
    expect(shown()).toEqual(["b@3"]);
    await soon(() => expect(reflector.status).toMatchObject({ watching: true, lastError: undefined }));
  });

  it("ends with the signal and leaves no connection open", async () => {
    const { end, reflector } = await follow();
    const watch = await server.nextWatch();
    await end();
    await watch.closed;
    await soon(() => expect(server.connections).toBe(0));
    expect(reflector.status).toMatchObject({ watching: false, lastError: undefined });
  });
});

describe("a resource", () => {
  it.each([
    [
      { group: "", version: "v1", plural: "configmaps", namespace: "kube-system" },
      "/api/v1/namespaces/kube-system/configmaps",
    ],
    [{ group: "a.b", version: "v1beta1", plural: "xs" }, "/apis/a.b/v1beta1/xs"],
  ])("%j is asked for at %s", async (resource, path) => {
    await follow({ resource });
    await server.nextWatch();
    expect(server.requests.map((request) => request.path)).toEqual([path, path]);
  });
});
