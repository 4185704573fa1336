import { readdir } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { HASH, site, uploadFolder } from "../testing/build-site.ts";
import { KEY_2 } from "../testing/fleet.ts";
import type { Fleet, Reply } from "../testing/fleet.ts";

describe("uploads", () => {
  const path = `/templates/mine/files/${HASH}`;

  async function link(fleet: Fleet): Promise<string> {
    const { body } = await fleet.send("GET", path);
    const { pathname, search } = new URL(body.url as string);
    return pathname + search;
  }

  /** As a client does: without a key. */
  const put = (fleet: Fleet, target: string, body = "archive"): Promise<Reply> =>
    fleet.send("PUT", target, body, { key: "" });

  it("go to the address that was given out, and are present then", async () => {
    const { fleet } = site();
    const first = await fleet.send("GET", path);
    expect([first.status, first.body]).toStrictEqual([
      201,
      { present: false, url: expect.stringMatching(new RegExp(`^http://localhost${path}\\?ns=ns1&expires=\\d+&sig=`)) },
    ]);
    const stored = await put(fleet, await link(fleet));
    expect([stored.status, stored.text, stored.headers.get("content-length")]).toStrictEqual([200, "", "0"]);
    const second = await fleet.send("GET", path);
    expect([second.status, second.body]).toStrictEqual([201, { present: true }]);
    expect((await fleet.send("GET", path, undefined, { key: KEY_2 })).body.present).toBe(false);
  });

  it("use https where the client did", async () => {
    const { fleet } = site();
    const headers = { "x-forwarded-proto": "https, http" };
    expect((await fleet.send("GET", path, undefined, { headers })).body.url).toMatch(/^https:\/\/localhost\//);
  });

  it("over the bound are a 413 and leave nothing", async () => {
    const { fleet } = site();
    const target = await link(fleet);
    expect((await put(fleet, target, "0123456789abcdefg")).body).toMatchObject({ code: 413 });
    expect(await readdir(uploadFolder(), { recursive: true })).not.toContainEqual(expect.stringMatching(/tar/));
    expect((await put(fleet, target, "0123456789abcdef")).status).toBe(200);
    expect((await fleet.send("GET", path)).body).toStrictEqual({ present: true });
  });

  it.each<[string, (target: string) => string, number]>([
    ["another hash", (target) => target.replace(HASH, "cd".repeat(32)), 401],
    ["another name", (target) => target.replace("/mine/", "/mine2/"), 401],
    ["another namespace", (target) => target.replace("ns=ns1", "ns=ns2"), 401],
    ["a later time", (target) => target.replace(/expires=\d+/, "expires=99999999999"), 401],
    ["no signature", (target) => target.replace(/&sig=\w+/, ""), 401],
    ["no query", (target) => target.replace(/\?.*/, ""), 401],
    ["a bad hash", (target) => target.replace(HASH, "abc"), 400],
    ["a way out of the folder", (target) => target.replace("/mine/", "/a%2F..%2Fb/"), 400],
    ["a namespace that is a path", (target) => target.replace("ns=ns1", "ns=.."), 400],
  ])("with %s are refused", async (_what, change, code) => {
    const { fleet } = site();
    const reply = await put(fleet, change(await link(fleet)));
    expect([reply.status, reply.body.code]).toStrictEqual([code, code]);
    expect(await readdir(uploadFolder())).toStrictEqual([]);
  });

  it("are refused once the address has expired", async () => {
    let now = Date.now();
    const { fleet } = site({ now: () => now });
    const target = await link(fleet);
    now += 3_602_000;
    expect((await put(fleet, target)).status).toBe(401);
  });

  it.each(["abc", "AB".repeat(32), `${HASH}0`])("have no address for the hash %s", async (hash) => {
    const { fleet } = site();
    expect((await fleet.send("GET", `/templates/mine/files/${hash}`)).status).toBe(400);
    expect((await fleet.send("GET", `/templates/a%2F..%2Fb/files/${HASH}`)).status).toBe(400);
    expect((await fleet.send("GET", path, undefined, { key: "" })).status).toBe(401);
  });
});
