import { readFile } from "node:fs/promises";
import { parseBindAddress } from "@org/sandbox-address";
import { ConsoleError } from "./errors.ts";
import { SHORTEST_CREDENTIAL } from "./session.ts";

/** One command-line option in the shape that yargs takes. */
export interface FlagOption {
  readonly type: "string";
  readonly describe: string;
  readonly group: string;
  readonly default: string;
}

const ADDRESS = "console-bind-address";
const CREDENTIAL = "console-credential-file";

function text(describe: string): FlagOption {
  return { type: "string", group: "Console:", describe, default: "" };
}

function valueOf(argv: Readonly<Record<string, unknown>>, name: string): string {
  const value = argv[name] ?? "";
  if (typeof value !== "string") throw new ConsoleError("invalid_flag", `--${name}: want one value`);
  return value.trim();
}

/** The console's flags, the same in every program that serves it. */
export class Flags {
  /** Where to listen; empty means that there is no console. */
  readonly bindAddress: string;
  readonly credentialFile: string;

  private constructor(argv: Readonly<Record<string, unknown>>) {
    this.bindAddress = valueOf(argv, ADDRESS);
    this.credentialFile = valueOf(argv, CREDENTIAL);
    if (this.bindAddress !== "" && parseBindAddress(this.bindAddress) === undefined) {
      throw new ConsoleError("invalid_flag", `--${ADDRESS}: ${JSON.stringify(this.bindAddress)} is not host:port`);
    }
  }

  /** The options to declare on the command line. */
  static options(): Record<string, FlagOption> {
    return {
      [ADDRESS]: text("Address of the read-only web page about nodes, pools and sandboxes; empty means none"),
      [CREDENTIAL]: text("File with what people log in to the console with: 16 characters or more"),
    };
  }

  /** Reads parsed arguments, keyed by flag name. Throws `invalid_flag` naming the flag. */
  static from(argv: Readonly<Record<string, unknown>>): Flags {
    return new Flags(argv);
  }

  /** The credential out of its file; `undefined` when there is no console. Rejects with `credential_file`. */
  async load(): Promise<string | undefined> {
    if (this.bindAddress === "") return undefined;
    if (this.credentialFile === "") {
      throw new ConsoleError("credential_file", `--${ADDRESS} needs a credential: set --${CREDENTIAL}`);
    }
    const file = JSON.stringify(this.credentialFile);
    let credential: string;
    try {
      credential = (await readFile(this.credentialFile, "utf8")).trim();
    } catch (error) {
      const reason = error instanceof Error ? error.message : "failed";
      throw new ConsoleError("credential_file", `read console credential file ${file}: ${reason}`, { cause: error });
    }
    if (credential.length < SHORTEST_CREDENTIAL) {
      throw new ConsoleError(
        "credential_file",
        `console credential file ${file}: want ${SHORTEST_CREDENTIAL} characters or more, such as: openssl rand -hex 20`,
      );
    }
    return credential;
  }
}
