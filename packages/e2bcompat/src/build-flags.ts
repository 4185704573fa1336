import { resolve } from "node:path";
import {
  DEFAULT_BUILD_SECONDS,
  DEFAULT_LOG_LINES,
  DEFAULT_PARALLEL,
  DEFAULT_UPLOAD_BYTES,
} from "./builds/build-options.ts";
import type { BuildOptions, UploadOptions } from "./builds/build-options.ts";
import { prepareDirectory } from "./builds/directory-store.ts";
import { parseCredentials } from "./builds/s3-credentials.ts";
import { createS3Store } from "./builds/s3-store.ts";
import { parseSeconds } from "./duration.ts";
import { E2bError } from "./errors.ts";
import { countFlag, readFlagFile, switchFlag, switchOption, textFlag, textOption } from "./flag-values.ts";
import type { FlagArguments, FlagOption } from "./flag-values.ts";

const S3 = "e2b-build-store-s3";

interface S3Flags {
  readonly bucket: string;
  readonly prefix: string | undefined;
  readonly endpoint: string | undefined;
  readonly region: string | undefined;
  readonly forcePathStyle: boolean;
  readonly credentialsFile: string | undefined;
}

/** The `--e2b-build*` flags. */
export class BuildFlags {
  readonly on: boolean;
  readonly parallel: number;
  readonly timeoutSeconds: number;
  readonly logLines: number;
  readonly directory: string | undefined;
  readonly uploadMaxBytes: number;
  readonly s3: S3Flags | undefined;

  private constructor(argv: FlagArguments) {
    this.on = switchFlag(argv, "e2b-builds");
    this.parallel = countFlag(argv, "e2b-build-parallel", DEFAULT_PARALLEL);
    const timeout = textFlag(argv, "e2b-build-timeout") || `${DEFAULT_BUILD_SECONDS}s`;
    const seconds = parseSeconds(timeout) ?? 0;
    if (seconds < 1) {
      throw new E2bError(
        "invalid_flag",
        `--e2b-build-timeout: ${JSON.stringify(timeout)} is not a duration of whole seconds above 0, such as 30m`,
      );
    }
    this.timeoutSeconds = seconds;
    this.logLines = countFlag(argv, "e2b-build-log-lines", DEFAULT_LOG_LINES);
    this.directory = textFlag(argv, "e2b-build-dir") || undefined;
    this.uploadMaxBytes = countFlag(argv, "e2b-build-upload-max", DEFAULT_UPLOAD_BYTES);
    const bucket = textFlag(argv, `${S3}-bucket`) || undefined;
    this.s3 =
      bucket === undefined
        ? undefined
        : {
            bucket,
            prefix: textFlag(argv, `${S3}-prefix`) || undefined,
            endpoint: textFlag(argv, `${S3}-endpoint`) || undefined,
            region: textFlag(argv, `${S3}-region`) || undefined,
            forcePathStyle: switchFlag(argv, `${S3}-force-path-style`),
            credentialsFile: textFlag(argv, `${S3}-credentials-file`) || undefined,
          };
    if (this.on && this.directory !== undefined && this.s3 !== undefined) {
      throw new E2bError("invalid_flag", `--e2b-build-dir and --${S3}-bucket are two upload stores: set one of them`);
    }
  }

  static options(): Record<string, FlagOption> {
    return {
      "e2b-builds": switchOption("Serve template builds; needs --e2b-envd-secret-file"),
      "e2b-build-parallel": textOption("How many template builds run at once", { default: String(DEFAULT_PARALLEL) }),
      "e2b-build-timeout": textOption("How long a template build may take", { default: "30m" }),
      "e2b-build-log-lines": textOption("How many lines of a template build's log are kept", {
        default: String(DEFAULT_LOG_LINES),
      }),
      "e2b-build-dir": textOption("Folder for the files that template builds copy"),
      "e2b-build-upload-max": textOption("Largest upload into --e2b-build-dir, in bytes", {
        default: String(DEFAULT_UPLOAD_BYTES),
      }),
      [`${S3}-bucket`]: textOption("S3 bucket for the files that template builds copy, instead of a folder"),
      [`${S3}-prefix`]: textOption("What the names of objects in the bucket begin with"),
      [`${S3}-endpoint`]: textOption("Origin of an S3-compatible store other than Amazon's"),
      [`${S3}-region`]: textOption("Region of the bucket; us-east-1 unless it is Amazon's"),
      [`${S3}-force-path-style`]: switchOption("Name the bucket in the path of addresses rather than in their host"),
      [`${S3}-credentials-file`]: textOption("File with the store's access key, in the format of ~/.aws/credentials"),
    };
  }

  /** Throws `invalid_flag` naming the flag. */
  static from(argv: FlagArguments): BuildFlags {
    return new BuildFlags(argv);
  }

  /**
   * Makes the folder or reads the credentials. `undefined` when builds are off. Throws `invalid_options`,
   * `file_unreadable` or `invalid_file`.
   */
  async load(): Promise<BuildOptions | undefined> {
    if (!this.on) {
      return undefined;
    }
    const { parallel, timeoutSeconds, logLines } = this;
    return { parallel, timeoutSeconds, logLines, uploads: await this.#uploads() };
  }

  async #uploads(): Promise<UploadOptions | undefined> {
    if (this.directory !== undefined) {
      const directory = resolve(this.directory);
      await prepareDirectory(directory);
      return { directory, maxBytes: this.uploadMaxBytes };
    }
    if (this.s3 === undefined) {
      return undefined;
    }
    const { credentialsFile, endpoint, region = endpoint === undefined ? "" : "us-east-1", ...s3 } = this.s3;
    if (credentialsFile === undefined || region === "") {
      throw new E2bError(
        "invalid_options",
        `--${S3}-bucket needs --${S3}-credentials-file, and with Amazon's store --${S3}-region`,
      );
    }
    const credentials = parseCredentials(await readFlagFile("S3 credentials", credentialsFile), credentialsFile);
    const uploads = { ...s3, endpoint, region, credentials };
    createS3Store(uploads);
    return uploads;
  }
}
