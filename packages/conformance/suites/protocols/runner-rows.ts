import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { type HarnessRow, SkipRow } from "../../src/harness-rows.ts";
import type { ProcessSet } from "../../src/processes.ts";
import { cleanEnv, type Programs } from "../../src/programs.ts";
import { writeRunnerResult } from "../../src/runner-results.ts";
import { needTool, RUNNER_TOOLS } from "../../src/runner-tools.ts";
import { browserRows } from "./browser-rows.ts";
import { CONNECT_FAILURES, H2_FAILURES, type KnownFailure } from "./known-failures.ts";
import { type RunnerRig, startRunnerRig } from "./runner-rig.ts";
import { websocketRows } from "./websocket-rows.ts";

/** What the rows work with. */
export interface RunnerContext {
  readonly set: ProcessSet;
  readonly programs: Programs;
  /** Whether outcomes go into `runner-results.json`. */
  readonly writeResults: boolean;
}

/** What every server of the service says of itself to Connect's runner. */
const SHARED_FEATURES = `
  protocols: [PROTOCOL_CONNECT]
  codecs: [CODEC_PROTO, CODEC_JSON]
  compressions: [COMPRESSION_IDENTITY]
  stream_types: [STREAM_TYPE_UNARY, STREAM_TYPE_CLIENT_STREAM, STREAM_TYPE_SERVER_STREAM]
  supports_trailers: false
  supports_half_duplex_bidi_over_http1: false
  supports_connect_get: false
  supports_tls_client_certs: false
  supports_message_receive_limit: true
`;
const DIRECT = `features:\n  versions: [HTTP_VERSION_1]\n  supports_h2c: false\n  supports_tls: false${SHARED_FEATURES}`;
const PROXIED = `features:\n  versions: [HTTP_VERSION_1, HTTP_VERSION_2]\n  supports_h2c: true\n  supports_tls: true${SHARED_FEATURES}`;

/** What the service leaves out by design, for the page. */
const CONNECT_LEFT_OUT =
  "left out: gRPC and gRPC-Web, compression, GET requests and streams in both directions, which the daemon does not offer";

const SERVER = fileURLToPath(new URL("../../../envd/src/testing/connect-service.ts", import.meta.url));
const BUF = fileURLToPath(new URL("../../../envd-client/node_modules/.bin/buf", import.meta.url));

interface Outcome {
  readonly passed: number;
  readonly skipped: number;
  readonly failed: readonly string[];
}

/** Fewer cases than this mean that h2spec gave up. */
const H2_CASES = 140;

interface H2Case {
  readonly section: string;
  readonly title: string;
  readonly status: "passed" | "failed" | "skipped";
}

/** The cases of a report in JUnit's form. */
function h2Cases(xml: string): readonly H2Case[] {
  const found = xml.matchAll(/<testcase package="([^"]*)" classname="([^"]*)"[^>]*>([\s\S]*?)<\/testcase>/g);
  return [...found].map(([, section = "", title = "", body = ""]) => ({
    section,
    title,
    status: /<(failure|error)/.test(body) ? "failed" : body.includes("<skipped") ? "skipped" : "passed",
  }));
}

/** Runners of others: Connect's own, and h2spec. */
export function runnerRows(context: RunnerContext): {
  readonly rows: readonly HarnessRow[];
  readonly close: () => Promise<void>;
} {
  const { set, programs } = context;
  let rig: Promise<RunnerRig> | undefined;
  const started = (): Promise<RunnerRig> => (rig ??= startRunnerRig(set, programs));

  /** Runs a program and gives all that it printed. */
  const output = async (
    command: string,
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ): Promise<string> => {
    const child = await set.start({ name: args.at(-1) ?? command, command, args, env: cleanEnv(env) });
    await child.ended;
    return child.stdout() + child.stderr();
  };

  /** Runs a program for which the names of the rig resolve: it has a hosts file of its own. */
  const named = async (
    command: string,
    args: readonly string[],
    env?: Readonly<Record<string, string>>,
  ): Promise<string> => {
    const { hostsFile } = await started();
    const text = await output(
      "bwrap",
      ["--dev-bind", "/", "/", "--ro-bind", hostsFile, "/etc/hosts", command, ...args],
      env,
    ).catch((cause: unknown) => {
      throw new SkipRow("there is no bwrap: install bubblewrap, as scripts/ci-setup does", { cause });
    });
    if (/^bwrap: /m.test(text)) {
      throw new SkipRow(`bubblewrap may not make a namespace here: ${text.slice(0, 200)}`);
    }
    return text;
  };

  const judge = async (
    told: {
      readonly runner: string;
      readonly version: string;
      readonly subject: string;
      readonly notes: readonly string[];
    },
    { passed, skipped, failed }: Outcome,
    known: readonly KnownFailure[],
  ): Promise<void> => {
    if (passed === 0) {
      throw new Error("the runner passed nothing");
    }
    const strange = failed.filter((name) => !known.some(({ cases }) => cases.test(name)));
    if (strange.length > 0) {
      throw new Error(
        `${passed} passed, ${failed.length} failed, of which are not expected to:\n${strange.join("\n")}`,
      );
    }
    const notes = known.flatMap(({ cases, reason }) => {
      const names = failed.filter((name) => cases.test(name));
      return names.length === 0 ? [] : [`fails: ${names.join("; ")} – ${reason}`];
    });
    if (context.writeResults) {
      await writeRunnerResult({ ...told, passed, failed: failed.length, skipped, notes: [...notes, ...told.notes] });
    }
  };

  const connect = async (subject: string, config: string, through?: (rig: RunnerRig) => object): Promise<void> => {
    const runner = needTool(RUNNER_TOOLS.connect);
    const protos = needTool(RUNNER_TOOLS.protos);
    const dir = await mkdtemp(join(tmpdir(), "connect-runner-"));
    try {
      const schemas = join(dir, "schemas.binpb");
      await output(BUF, ["build", protos, "--as-file-descriptor-set", "-o", schemas]);
      await writeFile(join(dir, "config.yaml"), config);
      // One server at a time: the runner gives each a few seconds to start, whatever else the machine does.
      const args = ["--mode", "server", "--max-servers", "1", "--conf", join(dir, "config.yaml"), "--"];
      const server = [process.execPath, "--conditions=@org/source", SERVER, schemas];
      const version = (await output(runner, ["--version"])).trim().split(" ").at(-1) ?? "";
      const text =
        through === undefined
          ? await output(runner, [...args, ...server])
          : await named(runner, [...args, ...server], {
              CONFORMANCE_THROUGH: JSON.stringify(through(await started())),
            });
      const [, passed = "0", failed = "0"] = /(\d+) passed, (\d+) failed/.exec(text) ?? [];
      const names = [...text.matchAll(/^FAILED: (.*?):?$/gm)].map(([, name = ""]) => name);
      if (names.length !== Number(failed) || passed === "0") {
        throw new Error(`the runner did not come to an end:\n${text.slice(-1_000)}`);
      }
      const told = { runner: "connectconformance", version, subject, notes: [CONNECT_LEFT_OUT] };
      await judge(told, { passed: Number(passed), skipped: 0, failed: names }, CONNECT_FAILURES);
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  };

  const h2spec = async (subject: string, tls: boolean): Promise<void> => {
    const runner = needTool(RUNNER_TOOLS.h2spec);
    const { host, webPort, plainPort, tlsPort } = await started();
    const dir = await mkdtemp(join(tmpdir(), "h2spec-"));
    try {
      const where = ["-h", `${webPort}-${host}`, "-p", String(tls ? tlsPort : plainPort), ...(tls ? ["-t", "-k"] : [])];
      const casesOf = async (seconds: number, ...sections: readonly string[]): Promise<readonly H2Case[]> => {
        const report = join(dir, `report-${seconds}.xml`);
        await named(runner, [...sections, ...where, "-o", String(seconds), "-j", report]);
        return h2Cases(await readFile(report, "utf8").catch(() => ""));
      };
      // One case opens as many streams as are allowed, each with a relay, before it asks for one more.
      const slow = await casesOf(60, "http2/5.1.2");
      const others = (await casesOf(15)).filter(({ section }) => section !== "http2/5.1.2");
      const cases = [...others, ...slow.filter(({ section }) => section === "http2/5.1.2")];
      if (cases.length < H2_CASES) {
        throw new Error(`h2spec did not come to an end: it judged ${cases.length} cases`);
      }
      const count = (status: H2Case["status"]): number => cases.filter((one) => one.status === status).length;
      const names = cases
        .filter(({ status }) => status === "failed")
        .map(({ section, title }) => `${section} ${title}`);
      const version = (await output(runner, ["--version"])).match(/\d+\.\d+\.\d+/)?.[0] ?? "";
      const told = { runner: "h2spec", version, subject, notes: [] };
      await judge(told, { passed: count("passed"), skipped: count("skipped"), failed: names }, H2_FAILURES);
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  };

  return {
    rows: [
      {
        id: "PR1",
        title: "Connect's own runner finds no fault in the daemon's calls",
        run: () => connect("the guest daemon's RPC layer, directly", DIRECT),
      },
      {
        id: "PR2",
        title: "nor through the data plane, over HTTP/1.1 and HTTP/2, in cleartext and over TLS",
        run: () =>
          connect("the same through the data plane, HTTP/1.1 and HTTP/2, cleartext and TLS", PROXIED, (at) => ({
            host: at.host,
            plain: at.plainPort,
            tls: at.tlsPort,
            certFile: at.certFile,
            free: at.free,
          })),
      },
      { id: "PR3", title: "h2spec, over TLS", run: () => h2spec("the data plane, HTTP/2 over TLS", true) },
      {
        id: "PR4",
        title: "h2spec, in cleartext with prior knowledge",
        run: () => h2spec("the data plane, HTTP/2 in cleartext", false),
      },
      ...websocketRows(started),
      ...browserRows({ set, programs }),
    ],
    close: async () => {
      await (await rig)?.[Symbol.asyncDispose]();
    },
  };
}
