import { KubeError } from "@org/kubeinventory/client";
import type { Logger } from "@org/scale";
import { describe, expect, it } from "vitest";
import type { Authentication } from "../security.ts";
import { ManualTiming } from "../testing/manual-timing.ts";
import { ReviewDouble } from "../testing/review-double.ts";
import { createAuthenticator, type AuthenticatorOptions } from "./authenticator.ts";

const JANE = { username: "jane", uid: "7", groups: ["devs"], extra: { scopes: ["a", "b"] } };

/** Asks with a token, as a request without a certificate. */
function asking(
  client: ReviewDouble,
  options: AuthenticatorOptions = {},
): { ask: (authorization: string, signal?: AbortSignal) => Promise<Authentication>; timing: ManualTiming } {
  const timing = new ManualTiming();
  const authenticator = createAuthenticator({ client, timing, ...options });
  return {
    timing,
    ask: (authorization, signal) =>
      authenticator.authenticate(
        { rawHeaders: ["Authorization", authorization], headers: { authorization }, socket: {} } as never,
        { signal },
      ),
  };
}

const good = (): ReviewDouble => new ReviewDouble(() => ({ authenticated: true, user: JANE }));

describe("a bearer token", () => {
  it("is reviewed by the cluster, which says whose it is", async () => {
    const client = good();
    expect(await asking(client).ask("Bearer abc.def")).toEqual({
      kind: "user",
      user: {
        name: "jane",
        uid: "7",
        groups: ["devs", "system:authenticated"],
        extra: { scopes: ["a", "b"] },
      },
    });
    expect(client.requests).toMatchObject([
      {
        method: "POST",
        path: "/apis/authentication.k8s.io/v1/tokenreviews",
        body: { kind: "TokenReview", apiVersion: "authentication.k8s.io/v1", spec: { token: "abc.def" } },
      },
    ]);
    expect(client.specs).toEqual([{ token: "abc.def" }]);
  });

  it.each<[reason: string, status: object]>([
    ["the cluster does not know it", {}],
    ["the cluster says why it does not hold", { authenticated: false, error: "[invalid bearer token]" }],
    ["it is authenticated in words only", { authenticated: "true", user: JANE }],
  ])("is rejected when %s", async (_reason, status) => {
    expect(await asking(new ReviewDouble(() => status)).ask("Bearer x")).toEqual({ kind: "rejected" });
  });

  it.each(["Bearer", "Bearer ", "bearer\t", "Bearer a b", "Basic abc", "abc", "Bearer \u00e9"])(
    "is none in %j, which is rejected and never reviewed",
    async (authorization) => {
      const client = good();
      expect(await asking(client).ask(authorization)).toEqual({ kind: "rejected" });
      expect(client.requests).toEqual([]);
    },
  );

  it.each(["bearer abc", "BEARER abc", " Bearer  abc "])("is read out of %j", async (authorization) => {
    const client = good();
    await asking(client).ask(authorization);
    expect(client.specs).toEqual([{ token: "abc" }]);
  });

  it("must be for one of our audiences where there are some", async () => {
    const client = new ReviewDouble(() => ({ authenticated: true, user: JANE, audiences: ["other"] }));
    const { ask } = asking(client, { audiences: ["sandboxes"] });
    expect(await ask("Bearer a")).toEqual({ kind: "rejected" });
    client.answer = () => ({ authenticated: true, user: JANE, audiences: ["x", "sandboxes"] });
    expect(await ask("Bearer b")).toMatchObject({ kind: "user" });
    expect(client.specs).toEqual([
      { token: "a", audiences: ["sandboxes"] },
      { token: "b", audiences: ["sandboxes"] },
    ]);
  });

  it.each<[what: string, reply: unknown]>([
    ["no review", undefined],
    ["a user without a name", { authenticated: true, user: {} }],
  ])("is nobody's, and that is our failure, when the answer is %s", async (_what, reply) => {
    await expect(asking(new ReviewDouble(() => reply)).ask("Bearer x")).rejects.toMatchObject({ code: 500 });
  });
});

describe("the verdict on a token", () => {
  it.each<[what: string, status: object, kind: string]>([
    ["a good one", { authenticated: true, user: JANE }, "user"],
    ["a bad one", { authenticated: false }, "rejected"],
  ])("is kept for 10 s: %s", async (_what, status, kind) => {
    const client = new ReviewDouble(() => status);
    const { ask, timing } = asking(client);
    await ask("Bearer a");
    timing.pass(9999);
    expect(await ask("Bearer a")).toMatchObject({ kind });
    expect(client.requests).toHaveLength(1);
    timing.pass(1);
    await ask("Bearer a");
    expect(client.requests).toHaveLength(2);
  });

  it("is not kept at all when that is wanted", async () => {
    const client = good();
    const { ask } = asking(client, { tokenTtlMs: 0 });
    await ask("Bearer a");
    await ask("Bearer a");
    expect(client.requests).toHaveLength(2);
  });

  it("is another one's for another token", async () => {
    const client = new ReviewDouble(({ token }) => ({
      authenticated: true,
      user: { username: `user-${token as string}` },
    }));
    const { ask } = asking(client);
    expect(await ask("Bearer a")).toMatchObject({ user: { name: "user-a" } });
    expect(await ask("Bearer b")).toMatchObject({ user: { name: "user-b" } });
    expect(await ask("Bearer a")).toMatchObject({ user: { name: "user-a" } });
    expect(client.requests).toHaveLength(2);
  });

  it("is asked for once by all who wait for it", async () => {
    const gate = Promise.withResolvers<void>();
    const client = new ReviewDouble(async () => {
      await gate.promise;
      return { authenticated: true, user: JANE };
    });
    const { ask } = asking(client);
    const all = Array.from({ length: 20 }, () => ask("Bearer a"));
    gate.resolve();
    expect(await Promise.all(all)).toHaveLength(20);
    expect(client.requests).toHaveLength(1);
  });

  it("is waited for by nobody who left, and still kept for the next", async () => {
    const gate = Promise.withResolvers<void>();
    const client = new ReviewDouble(async () => {
      await gate.promise;
      return { authenticated: true, user: JANE };
    });
    const { ask } = asking(client);
    const life = new AbortController();
    const left = ask("Bearer a", life.signal);
    life.abort(new Error("gone"));
    await expect(left).rejects.toThrow("gone");
    const next = ask("Bearer a");
    gate.resolve();
    expect(await next).toMatchObject({ kind: "user" });
    expect(client.requests).toHaveLength(1);
  });

  it("goes when there are too many, those that nobody asked for first", async () => {
    const client = good();
    const { ask } = asking(client);
    for (let each = 0; each < 4096; each += 1) {
      await ask(`Bearer t${each}`);
    }
    await ask("Bearer t0");
    expect(client.requests).toHaveLength(4096);
    await ask("Bearer more");
    await ask("Bearer t0");
    expect(client.requests).toHaveLength(4097);
    await ask("Bearer t1");
    expect(client.requests).toHaveLength(4098);
  });
});

describe("a review that fails", () => {
  it.each<[what: string, error: () => KubeError, tries: number, code: number]>([
    ["no connection", () => new KubeError("unreachable", "x"), 1, 503],
    ["a reset", () => new KubeError("connection_lost", "x"), 5, 503],
    ["a 429", () => new KubeError("status", "x", { status: 429 }), 5, 503],
    ["a 500", () => new KubeError("status", "x", { status: 500 }), 5, 503],
    ["a time-out of the server", () => new KubeError("status", "x", { status: 504, reason: "Timeout" }), 5, 503],
    ["a 503 without a wish", () => new KubeError("status", "x", { status: 503 }), 1, 503],
    ["a 503 with a wish", () => new KubeError("status", "x", { status: 503, retryAfterMs: 1000 }), 5, 503],
    ["a wish beyond our patience", () => new KubeError("status", "x", { status: 503, retryAfterMs: 20_000 }), 1, 503],
    ["a 401 for us", () => new KubeError("status", "x", { status: 401 }), 1, 500],
    ["a 403 for us", () => new KubeError("status", "x", { status: 403 }), 1, 500],
    ["a 404", () => new KubeError("status", "x", { status: 404 }), 1, 500],
    ["nonsense", () => new KubeError("bad_reply", "x"), 1, 500],
    ["no credentials of our own", () => new KubeError("credentials", "x"), 1, 500],
  ])("by %s is tried as often as it may help, told as ours, and never kept", async (_what, error, tries, code) => {
    const client = new ReviewDouble(() => {
      throw error();
    });
    const { ask, timing } = asking(client);
    const failed = ask("Bearer a");
    await timing.run(failed);
    const outcome: unknown = await failed.catch((thrown: unknown) => thrown);
    expect(outcome).toMatchObject({ name: "ApiStatusError", code });
    expect(client.requests).toHaveLength(tries);
    client.answer = () => ({ authenticated: true, user: JANE });
    expect(await ask("Bearer a")).toMatchObject({ kind: "user" });
  });

  it("waits longer before each further try, and as long as the server wishes", async () => {
    const waits: (number | undefined)[] = [];
    const errors = [
      new KubeError("connection_lost", "x"),
      new KubeError("connection_lost", "x"),
      new KubeError("status", "x", { status: 429, retryAfterMs: 3000 }),
    ];
    const client = new ReviewDouble(() => {
      const error = errors.shift();
      if (error !== undefined) {
        throw error;
      }
      return { authenticated: true, user: JANE };
    });
    const { ask, timing } = asking(client);
    const done = ask("Bearer a");
    while (client.requests.length < 4) {
      await new Promise((resolve) => setImmediate(resolve));
      const [wait] = timing.waits;
      if (client.requests.length < 4) {
        waits.push(wait);
        timing.pass(wait ?? 0);
      }
    }
    expect(await done).toMatchObject({ kind: "user" });
    expect(waits).toEqual([550, 825, 3000]);
  });

  it("says when to come again: as the server said, a second at least, a minute at most", async () => {
    const said: unknown[] = [];
    for (const retryAfterMs of [undefined, 11_500, 3_600_000]) {
      const client = new ReviewDouble(() => {
        throw new KubeError("status", "x", { status: 503, retryAfterMs });
      });
      said.push(
        await asking(client)
          .ask("Bearer a")
          .catch((error: unknown) => error),
      );
    }
    expect(said).toMatchObject([{ retryAfterSeconds: 1 }, { retryAfterSeconds: 12 }, { retryAfterSeconds: 60 }]);
  });

  it("is given up after 10 s in which nothing came", async () => {
    const client = new ReviewDouble(
      (_spec, { signal }) =>
        new Promise((_resolve, reject) => {
          signal?.addEventListener("abort", () => reject(new KubeError("aborted", "x")));
        }),
    );
    const { ask, timing } = asking(client);
    let outcome: unknown = "waits";
    const done = ask("Bearer a").catch((error: unknown) => {
      outcome = error;
    });
    timing.pass(9999);
    await new Promise((resolve) => setImmediate(resolve));
    expect(outcome).toBe("waits");
    timing.pass(1);
    await done;
    expect(outcome).toMatchObject({ code: 503 });
  });

  it("shares 64 places, and those that wait too long get an answer", async () => {
    const client = new ReviewDouble(
      (_spec, { signal }) =>
        new Promise((_resolve, reject) => {
          signal?.addEventListener("abort", () => reject(new KubeError("aborted", "x")));
        }),
    );
    const { ask, timing } = asking(client);
    const outcomes = Array.from({ length: 1200 }, (_, each) =>
      ask(`Bearer t${each}`).catch((error: { readonly code: number }) => error.code),
    );
    await new Promise((resolve) => setImmediate(resolve));
    expect(client.requests).toHaveLength(64);
    timing.pass(10_000);
    expect(new Set(await Promise.all(outcomes))).toEqual(new Set([503]));
    // All places are free again.
    client.answer = () => ({ authenticated: true, user: JANE });
    expect(await Promise.all(Array.from({ length: 100 }, (_, each) => ask(`Bearer u${each}`)))).toHaveLength(100);
  });

  it("is told once in the log, without a word of the token, and so is its end", async () => {
    const lines: string[] = [];
    const log =
      (level: string) =>
      (fields: object, message: string): void =>
        void lines.push(`${level} ${message} ${JSON.stringify(fields)}`);
    const logger: Logger = { debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") };
    const client = new ReviewDouble(() => {
      throw new KubeError("unreachable", "connect ECONNREFUSED");
    });
    const { ask } = asking(client, { logger });
    for (const token of ["secret-1", "secret-2"]) {
      await ask(`Bearer ${token}`).catch(() => undefined);
    }
    client.answer = () => ({ authenticated: true, user: JANE });
    await ask("Bearer secret-3");
    expect(lines).toEqual([
      expect.stringMatching(/^warn no review by the API server .*unreachable/),
      expect.stringMatching(/^info reviews by the API server are back/),
    ]);
    expect(lines.join()).not.toContain("secret");
  });
});
