import { describe, expect, it } from "vitest";
import { ClusterDouble } from "../testing/cluster-double.ts";
import { ManualTiming } from "../testing/manual-timing.ts";
import { createAuthenticator } from "./authenticator.ts";
import { createAuthorizer } from "./authorizer.ts";

const JANE = { name: "jane", groups: [] };
const VERSION = { kind: "path", verb: "get", path: "/version" } as const;
/** A request is left without its token. */
const bearer = () => ({ rawHeaders: ["Authorization", "Bearer abc"], headers: {}, socket: {} }) as never;

/** Waits for what needs the network, and lets waits between tries be over at once. */
async function outcome(timing: ManualTiming, pending: Promise<unknown>): Promise<unknown> {
  const state = { over: false };
  const end = (): void => {
    state.over = true;
  };
  pending.then(end, end);
  while (!state.over) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    // The longest wait is that for the review as a whole.
    const [soonest, ...later] = timing.waits;
    if (soonest !== undefined && later.length > 0) {
      timing.pass(soonest);
    }
  }
  return pending.catch((error: unknown) => error);
}

describe("over the network, a review", () => {
  it("that is answered holds", async () => {
    await using cluster = await ClusterDouble.start();
    cluster.reviewer = (spec) =>
      "token" in spec ? { authenticated: true, user: { username: "jane" } } : { allowed: spec["user"] === "jane" };
    const user = await createAuthenticator({ client: cluster.client }).authenticate(bearer());
    expect(user).toMatchObject({ kind: "user", user: { name: "jane" } });
    expect(await createAuthorizer({ client: cluster.client }).authorize(JANE, VERSION)).toBe("allow");
  });

  it("that meets nobody fails at once, and the next one after the return holds", async () => {
    await using cluster = await ClusterDouble.start();
    cluster.reviewer = () => ({ allowed: true });
    const timing = new ManualTiming();
    const authorizer = createAuthorizer({ client: cluster.client, timing });
    await cluster.die();
    expect(await outcome(timing, authorizer.authorize(JANE, VERSION))).toMatchObject({
      code: 503,
      retryAfterSeconds: 1,
    });
    expect(timing.now()).toBe(0);
    await cluster.listen();
    expect(await authorizer.authorize(JANE, VERSION)).toBe("allow");
  });

  it("that is reset is sent again", async () => {
    await using cluster = await ClusterDouble.start();
    cluster.reviewer = (_spec, response) => {
      if (cluster.reviews < 4) {
        response.socket?.resetAndDestroy();
        return undefined;
      }
      return { allowed: true };
    };
    const timing = new ManualTiming();
    const done = createAuthorizer({ client: cluster.client, timing }).authorize(JANE, VERSION);
    expect(await outcome(timing, done)).toBe("allow");
    expect(cluster.reviews).toBe(4);
  });

  it.each<[status: number, headers: Record<string, string>, tries: number]>([
    [429, {}, 5],
    [429, { "retry-after": "1" }, 5],
    [500, {}, 5],
    [502, {}, 1],
    [503, { "retry-after": "1" }, 5],
  ])("that is answered with %i and %j is a 503 after %i tries", async (status, headers, tries) => {
    await using cluster = await ClusterDouble.start();
    cluster.reviewer = (_spec, response) => {
      response.writeHead(status, headers).end("overloaded");
      return undefined;
    };
    const timing = new ManualTiming();
    const done = createAuthorizer({ client: cluster.client, timing }).authorize(JANE, VERSION);
    expect(await outcome(timing, done)).toMatchObject({ code: 503, retryAfterSeconds: 1 });
    expect(cluster.reviews).toBe(tries);
  });

  it("that never comes is given up after 10 s, and its connection with it", async () => {
    await using cluster = await ClusterDouble.start();
    const gone = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    cluster.reviewer = (_spec, response) => {
      response.once("close", gone.resolve);
      asked.resolve();
      return undefined;
    };
    const timing = new ManualTiming();
    const done = createAuthenticator({ client: cluster.client, timing }).authenticate(bearer());
    const failed = expect(done).rejects.toMatchObject({ code: 503 });
    await asked.promise;
    timing.pass(10_000);
    await failed;
    await gone.promise;
  });
});
