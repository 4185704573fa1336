import { randomBytes, X509Certificate } from "node:crypto";
import { link, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { rootCertificates } from "node:tls";
import { createAuthority, createServerCertificate } from "@org/certificates";
import type { CertificateNames, IssuedCertificate } from "@org/certificates";

/** Where the parts of a development certificate lie. */
export interface DevCertificate {
  /** Certificate of the authority, for clients to trust. No secret. */
  readonly caFile: string;
  /** The same beside the certificates that this machine trusts, for programs that take one file instead of another. */
  readonly bundleFile: string;
  /** Server certificate and its key in one file. A secret. */
  readonly pairFile: string;
  /** Whether the authority is a new one, which no client trusts yet. */
  readonly fresh: boolean;
}

/** Choices of {@link openDevCertificate}. */
export interface DevCertificateOptions {
  /** Folder that only this user may read. */
  readonly dir: string;
  /** What follows `<port>-<id>.`; see {@link certificateDomain}. */
  readonly domain: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** @default now */
  readonly now?: Date;
}

const DAY_MS = 86_400_000;
/** Clocks of guests and other machines may be behind. */
const SKEW_MS = DAY_MS;
const AUTHORITY_DAYS = 1_825;
const SERVER_DAYS = 90;
/** A server's certificate is replaced when it has less than this left, and an authority's that ends before the server's. */
const RENEWAL_DAYS = 30;
const LOOPBACK = ["127.0.0.1", "::1"];
const LABEL = /^(?!-)[a-z0-9-]{1,63}(?<!-)$/;

/** Where distributions keep what the machine trusts. */
const SYSTEM_BUNDLES = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/ca-bundle.pem",
  "/etc/ssl/cert.pem",
];

/**
 * The name that certificates are made for out of the value of `--e2b-domain`, without port and in lower case.
 * `undefined` when no client would accept one: Node and Chromium refuse `*.localhost` and `*.test`, a star right below a
 * top-level name.
 */
export function certificateDomain(domain: string): string | undefined {
  const name = domain.replace(/:\d+$/, "").replace(/\.$/, "").toLowerCase();
  const labels = name.split(".");
  // A common name holds 64 characters.
  const valid = labels.length >= 2 && name.length <= 64 && labels.every((label) => LABEL.test(label));
  return valid && !/^\d+$/.test(labels.at(-1) ?? "") ? name : undefined;
}

/**
 * Makes what is missing of an authority and a certificate for `*.<domain>`, or takes what an earlier run left. The
 * authority can vouch for one domain only, or for `localhost` and everything below it, so each domain has one of its own.
 * Safe when several runs start at once.
 */
export async function openDevCertificate(options: DevCertificateOptions): Promise<DevCertificate> {
  const { domain } = options;
  const now = options.now ?? new Date();
  const scope = domain.endsWith(".localhost") ? "localhost" : domain;
  const dir = join(options.dir, "tls", scope);
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const authority = await openAuthority(join(dir, "ca-key.pem"), scope, now);
  const caFile = join(dir, "ca.pem");
  const bundleFile = join(dir, "ca-bundle.pem");
  const pairFile = join(dir, `server-${domain}.pem`);
  await replaceFile(caFile, authority.cert, 0o644);
  await replaceFile(bundleFile, `${await trustedHere(options.env, [caFile, bundleFile])}\n${authority.cert}`, 0o644);
  const names: CertificateNames = {
    dns: [...new Set([domain, `*.${domain}`, "localhost"])].filter((name) => within(name, scope)),
    addresses: LOOPBACK,
  };
  if (!serves(await readOptional(pairFile), authority.cert, names, now)) {
    const validity = { from: new Date(now.getTime() - SKEW_MS), to: daysAfter(now, SERVER_DAYS) };
    const made = createServerCertificate(authority, names, validity);
    await replaceFile(pairFile, made.cert + made.key, 0o600);
  }
  return { caFile, bundleFile, pairFile, fresh: authority.fresh };
}

interface Authority extends IssuedCertificate {
  readonly commonName: string;
  readonly fresh: boolean;
}

/** Key and certificate are one file, so that they always belong together. */
async function openAuthority(file: string, scope: string, now: Date): Promise<Authority> {
  const there = await readOptional(file);
  const cert = there === undefined ? undefined : parsed(there);
  if (there !== undefined && cert?.ca === true && cert.validToDate > daysAfter(now, SERVER_DAYS)) {
    return { ...halves(there), commonName: commonName(cert), fresh: false };
  }
  const name = `sandbox-e2b development CA for ${scope}`.slice(0, 55) + ` ${randomBytes(4).toString("hex")}`;
  const validity = { from: new Date(now.getTime() - SKEW_MS), to: daysAfter(now, AUTHORITY_DAYS) };
  const made = createAuthority(name, { dns: [scope], addresses: LOOPBACK }, validity);
  await (there === undefined ? createFile : replaceFile)(file, made.key + made.cert, 0o600);
  // Another run may have been quicker: the file decides.
  const settled = (await readOptional(file)) ?? "";
  const settledCert = parsed(settled);
  if (settledCert === undefined) throw new Error(`the development CA ${JSON.stringify(file)} cannot be read`);
  return { ...halves(settled), commonName: commonName(settledCert), fresh: true };
}

/** Whether a stored certificate is one of this authority, for all of these names, for long enough. */
function serves(pem: string | undefined, authority: string, names: CertificateNames, now: Date): boolean {
  const cert = pem === undefined ? undefined : parsed(pem);
  if (cert === undefined || !cert.verify(new X509Certificate(authority).publicKey)) return false;
  const wanted = [...names.dns.map((name) => `DNS:${name}`), "IP Address:127.0.0.1"];
  const has = new Set((cert.subjectAltName ?? "").split(", "));
  return cert.validToDate > daysAfter(now, RENEWAL_DAYS) && wanted.every((name) => has.has(name));
}

function within(name: string, scope: string): boolean {
  return name === scope || name.endsWith(`.${scope}`);
}

function parsed(pem: string): X509Certificate | undefined {
  try {
    return new X509Certificate(halves(pem).cert);
  } catch {
    return undefined;
  }
}

function halves(pem: string): IssuedCertificate {
  const block = (label: string): string =>
    new RegExp(`-----BEGIN ${label}-----[^-]*-----END ${label}-----\n`).exec(pem)?.[0] ?? "";
  return { cert: block("CERTIFICATE"), key: block("PRIVATE KEY") };
}

function commonName(cert: X509Certificate): string {
  return cert.subject.replace(/^CN=/, "");
}

function daysAfter(now: Date, days: number): Date {
  return new Date(now.getTime() + days * DAY_MS);
}

/**
 * What programs of this user trust today: the file of their own choice, the machine's, or else what Node brings; and
 * what they told Node to trust as well. A shell that uses the environment of an earlier run names files of ours.
 */
async function trustedHere(env: DevCertificateOptions["env"], ours: readonly string[]): Promise<string> {
  const chosen = (name: string): string[] => {
    const file = env[name] ?? "";
    return file === "" || ours.includes(file) ? [] : [file];
  };
  const firstOf = async (files: readonly string[]): Promise<string | undefined> => {
    for (const file of files) {
      const pem = await readOptional(file);
      if (pem !== undefined) return pem;
    }
    return undefined;
  };
  const base = (await firstOf([...chosen("SSL_CERT_FILE"), ...SYSTEM_BUNDLES])) ?? rootCertificates.join("\n");
  const extra = await firstOf(chosen("NODE_EXTRA_CA_CERTS"));
  return extra === undefined ? base : `${base}\n${extra}`;
}

async function readOptional(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

/** Leaves a file alone that somebody else has made meanwhile. */
async function createFile(file: string, content: string, mode: number): Promise<void> {
  const draft = `${file}.${randomBytes(6).toString("hex")}`;
  try {
    await writeFile(draft, content, { mode, flag: "wx" });
    await link(draft, file);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  } finally {
    await rm(draft, { force: true });
  }
}

/** Readers see the old content or the new one, never a part. A file that holds this already stays as it is. */
async function replaceFile(file: string, content: string, mode: number): Promise<void> {
  if ((await readOptional(file)) === content) return;
  const draft = `${file}.${randomBytes(6).toString("hex")}`;
  try {
    await writeFile(draft, content, { mode, flag: "wx" });
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}
