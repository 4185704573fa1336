import { readFile } from "node:fs/promises";
import type { ClusterConfig, Material } from "./cluster-config.ts";
import { errorText, KubeError } from "./errors.ts";
import { runExecPlugin, type ExecCredential } from "./exec-plugin.ts";

/** What requests carry and connections are made with, at one time. Secrets. */
export interface Credentials {
  readonly authorization: string | undefined;
  readonly ca: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
}

/** Files may be replaced at any time (tokens of pods are every hour): so old may what was read of them get. */
const REREAD_AFTER_MS = 60_000;

/** What a plugin handed out is asked for again this long before its end. */
const EXPIRY_MARGIN_MS = 10_000;

/** Wall clock and monotonic clock, both in milliseconds. */
export interface CredentialClocks {
  readonly now: () => number;
  readonly wall: () => number;
}

/** The credentials of a cluster's user: from the configuration, from files that change, from a plugin. */
export class CredentialSource {
  readonly #config: ClusterConfig;
  readonly #clocks: CredentialClocks;
  #current: Credentials | undefined;
  #readAt = 0;
  #expiresAtMs = Infinity;
  #execCredential: ExecCredential | undefined;
  #reading: Promise<Credentials> | undefined;

  constructor(config: ClusterConfig, clocks: CredentialClocks) {
    this.#config = config;
    this.#clocks = clocks;
  }

  /**
   * What holds now. Files are read again when a minute has passed, a plugin is run again when its credential ends.
   * Files that cannot be read, while they are being replaced, leave what was read before.
   * @throws KubeError `credentials` when there is nothing to use.
   */
  async current(): Promise<Credentials> {
    const { now, wall } = this.#clocks;
    if (this.#current !== undefined && now() - this.#readAt < REREAD_AFTER_MS && wall() < this.#expiresAtMs) {
      return this.#current;
    }
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  /** The server refused these: they are fetched anew at the next call, if that did not happen since. */
  refuse(refused: Credentials): void {
    if (refused === this.#current) {
      this.#readAt = -Infinity;
      this.#execCredential = undefined;
    }
  }

  async #read(): Promise<Credentials> {
    const { ca, user } = this.#config;
    const before = this.#current;
    let next: Credentials;
    try {
      const authority = ca && (await textOf(ca));
      const given = user.exec === undefined ? undefined : await this.#fromPlugin(authority);
      const token = given?.token ?? (user.token && (await textOf(user.token)).trim());
      next = {
        authorization: this.#authorization(token),
        ca: authority,
        cert: given?.cert ?? (user.certificate && (await textOf(user.certificate.cert))),
        key: given?.key ?? (user.certificate && (await textOf(user.certificate.key))),
      };
    } catch (error) {
      if (before === undefined || user.exec !== undefined) {
        throw error;
      }
      next = before;
    }
    this.#readAt = this.#clocks.now();
    this.#current = before !== undefined && same(before, next) ? before : Object.freeze(next);
    return this.#current;
  }

  #authorization(token: string | undefined): string | undefined {
    const { source, user } = this.#config;
    if (token !== undefined) {
      if (token === "" || /[^\x21-\x7e]/.test(token)) {
        throw new KubeError("credentials", `${source}: the token is empty or fits into no request`);
      }
      return `Bearer ${token}`;
    }
    const { basic } = user;
    return basic && `Basic ${Buffer.from(`${basic.username}:${basic.password}`).toString("base64")}`;
  }

  async #fromPlugin(ca: string | undefined): Promise<ExecCredential> {
    const { user, ...cluster } = this.#config;
    if (user.exec === undefined) {
      return {};
    }
    if (this.#execCredential === undefined || this.#clocks.wall() >= this.#expiresAtMs) {
      const { server, tlsServerName, insecure, proxyUrl } = cluster;
      this.#execCredential = await runExecPlugin(user.exec, { server, ca, tlsServerName, insecure, proxyUrl });
      const { expiresAtMs } = this.#execCredential;
      this.#expiresAtMs = expiresAtMs === undefined ? Infinity : expiresAtMs - EXPIRY_MARGIN_MS;
    }
    return this.#execCredential;
  }
}

async function textOf(material: Material): Promise<string> {
  if ("text" in material) {
    return material.text;
  }
  try {
    return await readFile(material.file, "utf8");
  } catch (cause) {
    throw new KubeError("credentials", `cannot read ${material.file}: ${errorText(cause)}`, { cause });
  }
}

function same(a: Credentials, b: Credentials): boolean {
  return a.authorization === b.authorization && a.ca === b.ca && a.cert === b.cert && a.key === b.key;
}
