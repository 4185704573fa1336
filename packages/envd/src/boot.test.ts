import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { startGuest, type TestGuest } from "./testing/guest.ts";
import { sh } from "./testing/run.ts";

const PATH = "/_sandbox/boot";

let folder: string;
/** Among the files that a copy starts with. */
let bootFile: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "boot-"));
  bootFile = join(folder, "lib", "boot.json");
});

afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

function put(guest: TestGuest, body: unknown, headers: Record<string, string> = {}): ReturnType<TestGuest["call"]> {
  return guest.call("PUT", PATH, { body: typeof body === "string" ? body : JSON.stringify(body), headers });
}

/** A daemon over the files of another one that was given this document, once it has booted. */
async function copyOf(boot: object, options: Parameters<typeof startGuest>[0] = {}): Promise<TestGuest> {
  await using source = await startGuest({ bootFile });
  expect((await put(source, boot)).status).toBe(204);
  const copy = await startGuest({ bootFile, defaultUser: "user", ...options });
  await copy.boot();
  return copy;
}

const show = async (guest: TestGuest, text: string): Promise<string> =>
  (await sh(guest.process(), text)).stdout.toString();

describe("a boot document", () => {
  it("gives a copy its user, folder and variables, below those of /init", async () => {
    const environment = { A: "boot", B: "boot", E2B_SANDBOX: "no" };
    await using copy = await copyOf(
      { user: "root", workdir: "/usr", environment },
      { environment: { A: "node", C: "node" } },
    );
    expect(await show(copy, "echo $USER $A $B $C $E2B_SANDBOX; pwd")).toBe("root boot boot node true\n/usr\n");
    expect((await copy.call("GET", "/envs")).json()).toMatchObject({ A: "boot", B: "boot", C: "node" });
    await copy.call("POST", "/init", { body: JSON.stringify({ envVars: { B: "init" }, defaultUser: "user" }) });
    expect(await show(copy, "echo $USER $A $B")).toBe("user boot init\n");
    await copy.call("POST", "/init", { body: "{}" });
    expect(await show(copy, "echo $A $B")).toBe("boot boot\n");
  });

  it("starts the start command in the background, as its user, and waits until it is ready", async () => {
    const ready = join(folder, "ready");
    await using copy = await copyOf({
      user: "root",
      workdir: folder,
      environment: { NAME: "ready" },
      startCommand: "sleep 0.3; echo $USER > $NAME; sleep 1000",
      readyCommand: "test -s ready",
    });
    expect(await readFile(ready, "utf8")).toBe("root\n");
    const { processes } = await copy.process().list({});
    expect(processes.map(({ config }) => config?.args.at(-1))).toEqual(["sleep 0.3; echo $USER > $NAME; sleep 1000"]);
  });

  it("starts the start command as another user when it says so", async () => {
    await using copy = await copyOf({
      user: "user",
      workdir: "/",
      environment: { WHO: join(folder, "who") },
      startUser: "root",
      startCommand: "echo $USER > $WHO; sleep 1000",
      readyCommand: "test -s $WHO",
    });
    expect(await readFile(join(folder, "who"), "utf8")).toBe("root\n");
    expect(await show(copy, "echo $USER")).toBe("user\n");
  });

  it("without a start command keeps the one that the files brought along", async () => {
    await using guest = await startGuest({ bootFile });
    const below = { user: "user", workdir: "/", environment: {} };
    await put(guest, { ...below, startUser: "root", startCommand: "serve", readyCommand: "ready" });
    await put(guest, { user: "root", workdir: "/usr", environment: { A: "1" } });
    const kept = { startUser: "root", startCommand: "serve", readyCommand: "ready" };
    const after = { user: "root", workdir: "/usr", environment: { A: "1" } };
    expect(JSON.parse(await readFile(bootFile, "utf8"))).toEqual({ ...after, ...kept });
    await put(guest, { ...below, startCommand: "other" });
    expect(JSON.parse(await readFile(bootFile, "utf8"))).toEqual({ ...below, startCommand: "other" });
  });

  it("does not wait for a start command that has failed, nor without a ready command", async () => {
    const base = { user: "root", workdir: "/", environment: {} };
    await using failed = await copyOf({ ...base, startCommand: "exit 3", readyCommand: "false" });
    await using plain = await copyOf({ ...base, startCommand: "sleep 1000" });
    expect(failed.logs).toMatchObject([{ message: "the start command of the template failed" }]);
    expect((await plain.process().list({})).processes).toHaveLength(1);
  });

  it("waits a few seconds and no longer, and ends the probe that hangs", async () => {
    const base = { user: "root", workdir: "/", environment: {} };
    await using copy = await copyOf({ ...base, startCommand: "sleep 1000", readyCommand: "sleep 2000" });
    expect(copy.logs).toMatchObject([{ message: "the start command of the template was not ready in time" }]);
    await expect
      .poll(async () => (await copy.process().list({})).processes.map(({ config }) => config?.args.at(-1)))
      .toEqual(["sleep 1000"]);
  });

  it("is for root's eyes alone, and is replaced as a whole", async () => {
    await using guest = await startGuest({ bootFile });
    const boot = { user: "user", workdir: "/", environment: { SECRET: "1" } };
    await put(guest, boot);
    await put(guest, { ...boot, environment: {} });
    expect(JSON.parse(await readFile(bootFile, "utf8"))).toEqual({ ...boot, environment: {} });
    expect((await stat(bootFile)).mode & 0o777).toBe(0o600);
    expect((await stat(join(folder, "lib"))).mode & 0o777).toBe(0o700);
    expect(await readdir(join(folder, "lib"))).toEqual(["boot.json"]);
  });

  it.each<[string, unknown]>([
    ["no JSON", "{"],
    ["a list", []],
    ["no user", { workdir: "/" }],
    ["a folder that is not absolute", { user: "user", workdir: "x" }],
    ["a number for the command", { user: "user", workdir: "/", startCommand: 7 }],
    ["a variable that no environment can hold", { user: "user", workdir: "/", environment: { "A=B": "x" } }],
    ["values that are no texts", { user: "user", workdir: "/", environment: { A: 1 } }],
  ])("with %s is refused, and the one before stays", async (_what, body) => {
    await using guest = await startGuest({ bootFile });
    await put(guest, { user: "user", workdir: "/kept", environment: {} });
    expect((await put(guest, body)).status).toBe(400);
    expect(await readFile(bootFile, "utf8")).toContain("/kept");
  });

  it("is bounded in size", async () => {
    await using guest = await startGuest({ bootFile });
    const reply = await put(guest, { user: "user", workdir: "/", environment: { A: "x".repeat(3_000_000) } });
    expect(reply.status).toBe(413);
  });

  it("needs the access token where there is one", async () => {
    await using guest = await startGuest({ bootFile, accessToken: "t" });
    const boot = { user: "user", workdir: "/", environment: {} };
    expect((await put(guest, boot)).status).toBe(401);
    expect((await put(guest, boot, { "x-access-token": "t" })).status).toBe(204);
  });

  it.each([
    "{",
    JSON.stringify({ user: "nobody-there", workdir: "/" }),
    JSON.stringify({ user: "root", workdir: "/nope", startCommand: "true" }),
  ])("that cannot be carried out (%s) is logged, and the guest works", async (text) => {
    await using source = await startGuest({ bootFile });
    await put(source, { user: "user", workdir: "/", environment: {} });
    await writeFile(bootFile, text);
    await using copy = await startGuest({ bootFile });
    await copy.boot();
    expect(copy.logs).toMatchObject([{ level: "warn" }]);
    expect((await sh(copy.process(), "echo works", { cwd: "/" })).stdout.toString()).toBe("works\n");
  });

  it("that is not there is no matter, and without a place for one there is no route", async () => {
    await using guest = await startGuest({ bootFile });
    await guest.boot();
    await using other = await startGuest();
    await other.boot();
    expect([...guest.logs, ...other.logs]).toEqual([]);
    expect((await put(other, { user: "user", workdir: "/" })).status).toBe(404);
    expect((await guest.call("GET", PATH)).status).toBe(405);
  });
});
