import { X509Certificate } from "node:crypto";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { connect, createServer, rootCertificates } from "node:tls";
import type { Server, TLSSocket } from "node:tls";
import { expect, test } from "vitest";
import { scratchFolder } from "../../testing/program.ts";
import { createAuthority, createServerCertificate } from "@org/certificates";
import { certificateDomain, openDevCertificate } from "./dev-certificate.ts";

const DAY_MS = 86_400_000;
const NOW = new Date("2026-06-01T12:00:00Z");
const later = (days: number): Date => new Date(NOW.getTime() + days * DAY_MS);

const open = (dir: string, domain = "sandbox.localhost", now?: Date) =>
  openDevCertificate({ dir, domain, env: {}, ...(now === undefined ? {} : { now }) });

/** Connects under a name, trusting one authority alone; answers the error, or the protocol. */
async function handshake(server: Server, servername: string, ca: string): Promise<string> {
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return new Promise((resolve) => {
    const socket: TLSSocket = connect({ host: "127.0.0.1", port, servername, ca }, () => {
      resolve(socket.getProtocol() ?? "none");
      socket.destroy();
    });
    socket.once("error", (error: NodeJS.ErrnoException) => resolve(`${error.code}: ${error.message}`));
  });
}

async function serving(pem: { readonly cert: string; readonly key: string }): Promise<Server & AsyncDisposable> {
  const server = createServer(pem, (socket) => socket.on("error", () => undefined));
  server.on("tlsClientError", () => undefined);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return Object.assign(server, {
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
  });
}

test.each([
  ["sandbox.localhost:3628", "sandbox.localhost"],
  ["Sandbox.Example.COM.", "sandbox.example.com"],
  ["a-b.c1.test", "a-b.c1.test"],
  ["localhost", undefined],
  ["localhost:3628", undefined],
  ["", undefined],
  ["a..test", undefined],
  ["-a.test", undefined],
  ["a_b.test", undefined],
  ["*.test.local", undefined],
  ["127.0.0.1", undefined],
  ["../../x.test", undefined],
  [`${"a".repeat(63)}.test`, undefined],
])("the domain %j is certified as %j", (domain, name) => {
  expect(certificateDomain(domain)).toBe(name);
});

test("clients that trust the authority accept every sandbox's name and loopback, and no other name", async () => {
  await using folder = await scratchFolder();
  const { caFile, pairFile } = await open(folder.path);
  const pem = await readFile(pairFile, "utf8");
  const ca = await readFile(caFile, "utf8");
  await using server = await serving({ cert: pem, key: pem });
  expect(await handshake(server, "49983-sb-0123.sandbox.localhost", ca)).toBe("TLSv1.3");
  expect(await handshake(server, "sandbox.localhost", ca)).toBe("TLSv1.3");
  expect(await handshake(server, "localhost", ca)).toBe("TLSv1.3");
  expect(await handshake(server, "a.b.sandbox.localhost", ca)).toMatch(/^ERR_TLS_CERT_ALTNAME_INVALID/);
  expect(await handshake(server, "example.com", ca)).toMatch(/^ERR_TLS_CERT_ALTNAME_INVALID/);
  expect(new X509Certificate(pem).checkIP("127.0.0.1")).toBe("127.0.0.1");
  expect(new X509Certificate(pem).checkIP("::1")).toBe("::1");
});

test("a stolen authority cannot vouch for other names, nor for another authority", async () => {
  const validity = { from: new Date(Date.now() - DAY_MS), to: new Date(Date.now() + DAY_MS) };
  const own = { dns: ["localhost"], addresses: ["127.0.0.1"] };
  const authority = { ...createAuthority("a", own, validity), commonName: "a" };
  const server = (names: readonly string[], signer = authority) =>
    createServerCertificate(signer, { dns: names, addresses: [] }, validity);
  await using good = await serving(server(["x.localhost"]));
  expect(await handshake(good, "x.localhost", authority.cert)).toBe("TLSv1.3");
  await using other = await serving(server(["example.com"]));
  expect(await handshake(other, "example.com", authority.cert)).toMatch(/permitted subtree violation/);
  const leaf = { ...server(["x.localhost"]), commonName: "x.localhost" };
  const below = server(["y.localhost"], leaf);
  await using chain = await serving({ cert: below.cert + leaf.cert, key: below.key });
  expect(await handshake(chain, "y.localhost", authority.cert)).toMatch(/CA|path|purpose|usage|issuer/);
});

test("files are made once, keys are for this user alone", async () => {
  await using folder = await scratchFolder();
  const first = await open(folder.path);
  const before = await readFile(first.pairFile, "utf8");
  const ca = await readFile(first.caFile, "utf8");
  const again = await open(folder.path);
  expect([first.fresh, again.fresh]).toEqual([true, false]);
  expect(await readFile(again.pairFile, "utf8")).toBe(before);
  expect(await readFile(again.caFile, "utf8")).toBe(ca);
  const dir = join(folder.path, "tls", "localhost");
  const modes = await Promise.all(
    (await readdir(dir)).map(async (name) => [name, ((await stat(join(dir, name))).mode & 0o777).toString(8)]),
  );
  expect(Object.fromEntries(modes)).toEqual({
    "ca.pem": "644",
    "ca-bundle.pem": "644",
    "ca-key.pem": "600",
    "server-sandbox.localhost.pem": "600",
  });
  expect(ca).not.toContain("PRIVATE KEY");
  expect(await readFile(first.bundleFile, "utf8")).not.toContain("PRIVATE KEY");
});

test.each([
  ["the next day", 1, false, false],
  ["with 31 days left", 59, false, false],
  ["with 30 days left", 60, true, false],
  ["long after its end", 400, true, false],
  ["before the authority would end during its life", 1_736, true, true],
])("the certificate is looked at %s", async (_name, days, renewed, newAuthority) => {
  await using folder = await scratchFolder();
  const first = await open(folder.path, "sandbox.localhost", NOW);
  const [pair, ca] = await Promise.all([readFile(first.pairFile, "utf8"), readFile(first.caFile, "utf8")]);
  const next = await open(folder.path, "sandbox.localhost", later(days));
  expect((await readFile(next.pairFile, "utf8")) !== pair).toBe(renewed);
  expect((await readFile(next.caFile, "utf8")) !== ca).toBe(newAuthority);
  expect(next.fresh).toBe(newAuthority);
  const cert = new X509Certificate(await readFile(next.pairFile, "utf8"));
  expect(cert.validToDate.getTime()).toBeGreaterThan(later(days + 29).getTime());
  expect(cert.verify(new X509Certificate(await readFile(next.caFile, "utf8")).publicKey)).toBe(true);
});

test("each domain outside localhost has an authority of its own, names below localhost share one", async () => {
  await using folder = await scratchFolder();
  const one = await open(folder.path, "sandbox.example.test");
  const two = await open(folder.path, "other.test");
  const three = await open(folder.path, "a.localhost");
  const four = await open(folder.path, "b.localhost");
  expect(new Set([one, two, three, four].map(({ caFile }) => caFile)).size).toBe(3);
  expect(three.caFile).toBe(four.caFile);
  expect(new X509Certificate(await readFile(one.pairFile)).subjectAltName).not.toContain("localhost");
});

test("broken files are replaced", async () => {
  await using folder = await scratchFolder();
  const first = await open(folder.path);
  await writeFile(first.pairFile, "nonsense");
  await writeFile(join(folder.path, "tls", "localhost", "ca-key.pem"), "nonsense");
  const next = await open(folder.path);
  const ca = await readFile(next.caFile, "utf8");
  expect(new X509Certificate(await readFile(next.pairFile)).verify(new X509Certificate(ca).publicKey)).toBe(true);
});

test("runs that start at once agree on one authority", async () => {
  await using folder = await scratchFolder();
  const all = await Promise.all(Array.from({ length: 8 }, () => open(folder.path)));
  const ca = new X509Certificate(await readFile(all[0]?.caFile ?? "", "utf8"));
  for (const { pairFile } of all) {
    expect(new X509Certificate(await readFile(pairFile)).verify(ca.publicKey)).toBe(true);
  }
});

test("the bundle holds what this user trusts today beside the authority, and never grows", async () => {
  await using folder = await scratchFolder();
  const [one = "", two = ""] = rootCertificates;
  const [own, extra] = [join(folder.path, "own.pem"), join(folder.path, "extra.pem")];
  await writeFile(own, one);
  await writeFile(extra, two);
  const env = { SSL_CERT_FILE: own, NODE_EXTRA_CA_CERTS: extra };
  const first = await openDevCertificate({ dir: folder.path, domain: "a.localhost", env });
  const bundle = await readFile(first.bundleFile, "utf8");
  for (const part of [one, two, await readFile(first.caFile, "utf8")]) expect(bundle).toContain(part.trim());
  const ours = { SSL_CERT_FILE: first.bundleFile, NODE_EXTRA_CA_CERTS: first.caFile };
  const size = async (options: Readonly<Record<string, string>>): Promise<number> => {
    const { bundleFile } = await openDevCertificate({ dir: folder.path, domain: "a.localhost", env: options });
    return (await readFile(bundleFile)).length;
  };
  expect(await size(ours)).toBe(await size(ours));
});
