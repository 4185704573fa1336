import { runProgram } from "@org/command-line";
import { describe, expect, test } from "vitest";
import type { ServiceConfig } from "./compose.ts";
import { programSpec, serviceConfig } from "./flags.ts";

interface Outcome {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly config: ServiceConfig | undefined;
}

async function parse(argv: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Outcome> {
  let stdout = "";
  let stderr = "";
  let config: ServiceConfig | undefined;
  const io = {
    argv,
    env,
    stdout: (text: string) => void (stdout += text),
    stderr: (text: string) => void (stderr += text),
  };
  const status = await runProgram(programSpec("1.2.3"), io, ({ values }) => {
    const checked = serviceConfig(values);
    return async () => {
      config = checked;
    };
  });
  return { status, stdout, stderr, config };
}

describe("seeds and polling", () => {
  test.each<[string, readonly string[], Readonly<Record<string, string>>, Partial<ServiceConfig>]>([
    ["nothing", [], {}, { seeds: [], pollIntervalMs: 10_000, token: "", tokenFile: "", caFile: "" }],
    ["a list with spaces and gaps", ["--sandboxd-seeds= a:1 , b:2,, "], {}, { seeds: ["a:1", "b:2"] }],
    ["a repeated flag", ["--sandboxd-seeds=b:2", "--sandboxd-seeds", "a:1,c:3"], {}, { seeds: ["b:2", "a:1", "c:3"] }],
    ["a variable", [], { SANDBOX_E2B_SANDBOXD_SEEDS: "a:1,b:2 c:3" }, { seeds: ["a:1", "b:2", "c:3"] }],
    ["a flag beside its variable", ["--sandboxd-seeds=x:1"], { SANDBOX_E2B_SANDBOXD_SEEDS: "a:1" }, { seeds: ["x:1"] }],
    ["minutes and seconds", ["--inventory-poll=1m30s"], {}, { pollIntervalMs: 90_000 }],
    ["zero, which is the default", ["--inventory-poll=0"], {}, { pollIntervalMs: 0 }],
    ["a token", ["--sandboxd-token=t"], {}, { token: "t" }],
  ])("%s is understood", async (_name, argv, env, expected) => {
    const { status, config, stderr } = await parse(argv, env);
    expect(stderr).toBe("");
    expect(status).toBe(0);
    expect(config).toMatchObject(expected);
  });
});

describe("the blocks of both surfaces", () => {
  test("take their values from flags and variables", async () => {
    const { config } = await parse(
      ["--e2b-domain=sandbox.example.com", "--e2b-allow-anonymous", "--envd-proxy-bind-address=:8443"],
      { SANDBOX_E2B_E2B_BIND_ADDRESS: "127.0.0.1:1", SANDBOX_E2B_ENVD_PROXY_PUBLIC_PORTS: "3000,8080" },
    );
    expect(config?.e2b).toMatchObject({
      domain: "sandbox.example.com",
      allowAnonymous: true,
      bindAddress: "127.0.0.1:1",
    });
    expect(config?.proxy).toMatchObject({ bindAddress: ":8443", publicPorts: [3000, 8080] });
  });

  test("have their documented defaults", async () => {
    const { config } = await parse([]);
    expect(config?.e2b).toMatchObject({ bindAddress: ":8080", namespace: "default", defaultTimeoutSeconds: 300 });
    expect(config?.proxy).toMatchObject({ bindAddress: "", publicPorts: "none", guestHttp2: false });
  });

  test.each(["--e2b-template-aliases=f", "--e2b-template-alias-file=f"])("%s names the alias file", async (flag) => {
    expect((await parse([flag])).config?.e2b.templateAliasFile).toBe("f");
  });
});

describe("usage errors", () => {
  test.each([
    ["an unknown flag", "--sandboxd-sedes=a:1", /unknown flag --sandboxd-sedes; did you mean --sandboxd-seeds\?/],
    ["an interval without a unit", "--inventory-poll=10", /invalid value "10" for --inventory-poll/],
    ["a negative interval", "--inventory-poll=-1s", /invalid value "-1s" for --inventory-poll/],
    ["a listen address without a port", "--e2b-bind-address=localhost", /--e2b-bind-address/],
    ["a proxy address with a bad port", "--envd-proxy-bind-address=:99999", /--envd-proxy-bind-address/],
    ["a lease that is no duration", "--e2b-default-timeout=soon", /--e2b-default-timeout/],
    ["the daemon's port as a public one", "--envd-proxy-public-ports=49983", /--envd-proxy-public-ports/],
    ["a word for a switch", "--e2b-allow-anonymous=yes", /--e2b-allow-anonymous: want true or false/],
    ["an unknown command", "serve", /unknown argument "serve" \(commands: dev, doctor, dev-node\)/],
  ])("%s is one line and a hint on stderr, status 2", async (_name, argument, message) => {
    const { status, stdout, stderr } = await parse([argument]);
    expect(status).toBe(2);
    expect(stdout).toBe("");
    const [line, hint, rest] = stderr.split("\n");
    expect(line).toMatch(/^sandbox-e2b: /);
    expect(line).toMatch(message);
    expect(hint).toContain("sandbox-e2b --help");
    expect(rest).toBe("");
  });
});

describe("texts", () => {
  test("the help of the service and of dev name every flag that is not hidden", async () => {
    const { commands } = programSpec("1.2.3");
    for (const [command, spec] of Object.entries(commands)) {
      const { status, stdout } = await parse([...(command === "$0" ? [] : [command]), "--help"]);
      expect(status).toBe(0);
      for (const [flag, option] of Object.entries(spec.options)) {
        if (option.hidden !== true) expect(stdout).toContain(`--${flag}`);
      }
    }
  });

  test("dev takes every flag of the service", () => {
    const { commands } = programSpec("1.2.3");
    expect(Object.keys(commands["dev"]!.options)).toEqual(expect.arrayContaining(Object.keys(commands["$0"]!.options)));
  });

  test("--print-config masks the token and names the sources", async () => {
    const { status, stdout, config } = await parse(["--print-config", "--sandboxd-token=s3cret"], {
      SANDBOX_E2B_E2B_DOMAIN: "sandbox.example.com",
    });
    expect(status).toBe(0);
    expect(config).toBeUndefined();
    expect(stdout).not.toContain("s3cret");
    expect(JSON.parse(stdout)).toMatchObject({
      command: "sandbox-e2b",
      flags: {
        "sandboxd-token": { value: "***", from: "flag" },
        "e2b-domain": { value: "sandbox.example.com", from: "environment" },
        "inventory-poll": { value: "10s", from: "default" },
      },
    });
  });

  test("--print-config refuses what the program would refuse", async () => {
    expect((await parse(["--print-config", "--inventory-poll=x"])).status).toBe(2);
  });

  test("--version prints the version", async () => {
    expect(await parse(["--version"])).toMatchObject({ status: 0, stdout: "1.2.3\n" });
  });
});
