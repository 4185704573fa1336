import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { scratchFolder } from "../testing/program.ts";
import { dotenv, sdkEnvironment, writeEnvFile } from "./environment.ts";

const endpoints = {
  apiUrl: "http://127.0.0.1:3627",
  sandboxUrl: "http://127.0.0.1:3628",
  domain: "localhost:3628",
  apiKey: "e2b_00ff",
};

describe("the variables of the SDKs", () => {
  test("point at this machine and keep it out of web proxies", () => {
    expect(sdkEnvironment(endpoints, {})).toEqual({
      E2B_API_URL: "http://127.0.0.1:3627",
      E2B_SANDBOX_URL: "http://127.0.0.1:3628",
      E2B_API_KEY: "e2b_00ff",
      E2B_DOMAIN: "localhost:3628",
      NO_PROXY: "localhost,127.0.0.1,::1,.localhost",
      no_proxy: "localhost,127.0.0.1,::1,.localhost",
    });
  });

  test("keep the proxy exceptions that are there", () => {
    const variables = sdkEnvironment(endpoints, { NO_PROXY: ".corp,localhost", no_proxy: ".lower" });
    expect(variables["NO_PROXY"]).toBe(".corp,localhost,127.0.0.1,::1,.localhost");
    expect(variables["no_proxy"]).toBe(".lower,localhost,127.0.0.1,::1,.localhost");
  });

  test("have clients trust an authority that was made here, beside what they trust", () => {
    const trust = { caFile: "/s/ca.pem", bundleFile: "/s/bundle.pem" };
    const variables = (env: Readonly<Record<string, string>>) => sdkEnvironment({ ...endpoints, trust }, env);
    expect(variables({})).toMatchObject({ NODE_EXTRA_CA_CERTS: "/s/ca.pem", SSL_CERT_FILE: "/s/bundle.pem" });
    expect(variables({ NODE_EXTRA_CA_CERTS: "/s/ca.pem" })["NODE_EXTRA_CA_CERTS"]).toBe("/s/ca.pem");
    expect(variables({ NODE_EXTRA_CA_CERTS: "/corp.pem" })["NODE_EXTRA_CA_CERTS"]).toBe("/s/bundle.pem");
  });

  test("name no data plane when there is none, and always a key, which the SDKs insist on", () => {
    const variables = sdkEnvironment({ ...endpoints, sandboxUrl: undefined, apiKey: undefined }, {});
    expect(variables).not.toHaveProperty("E2B_SANDBOX_URL");
    expect(variables["E2B_API_KEY"]).toMatch(/^e2b_[0-9a-f]{40}$/);
  });
});

describe("the environment file", () => {
  test("replaces what was there, for this user alone, and leaves nothing beside it", async () => {
    await using folder = await scratchFolder();
    const path = join(folder.path, ".env");
    await writeFile(path, "OLD=1\n", { mode: 0o644 });
    const variables = sdkEnvironment(endpoints, {});
    await writeEnvFile(path, variables);
    expect(await readFile(path, "utf8")).toBe(dotenv(variables));
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(await readdir(folder.path)).toEqual([".env"]);
  });

  test("that cannot be written is an error that names it", async () => {
    await using folder = await scratchFolder();
    const path = join(folder.path, "no", "such", "folder");
    await expect(writeEnvFile(path, {})).rejects.toThrow(`write the environment file ${JSON.stringify(path)}`);
  });
});
