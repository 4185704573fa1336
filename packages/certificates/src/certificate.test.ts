import { X509Certificate } from "node:crypto";
import { connect, createServer } from "node:tls";
import * as fc from "fast-check";
import ipaddr from "ipaddr.js";
import { describe, expect, it } from "vitest";
import { createAuthority, createSelfSigned, createServerCertificate } from "./certificate.ts";

const DAY_MS = 86_400_000;
const TODAY = { from: new Date(Date.now() - DAY_MS), to: new Date(Date.now() + DAY_MS) };

/** Serves one connection with `pem` and says what a client that trusts `ca` alone makes of it under a name. */
async function shake(pem: { cert: string; key: string }, ca: string, servername: string): Promise<string> {
  const server = createServer(pem, (socket) => socket.on("error", () => undefined));
  server.on("tlsClientError", () => undefined);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const said = await new Promise<string>((resolve) => {
    const client = connect({ host: "127.0.0.1", port, servername, ca }, () => resolve("trusted"));
    client.once("error", (error: NodeJS.ErrnoException) => resolve(`${error.code}: ${error.message}`));
    client.once("secureConnect", () => client.destroy());
  });
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return said;
}

describe("a certificate that vouches for itself", () => {
  const names = { dns: ["localhost", "*.sandbox.test"], addresses: ["127.0.0.1", "10.1.2.3", "fd00::7"] };
  const pem = createSelfSigned("localhost", names, TODAY);

  it.each([
    ["localhost", "trusted"],
    ["a.sandbox.test", "trusted"],
    ["sandbox.test", "ERR_TLS_CERT_ALTNAME_INVALID"],
    ["a.b.sandbox.test", "ERR_TLS_CERT_ALTNAME_INVALID"],
  ])("is asked under %s: %s", async (name, said) => {
    expect((await shake(pem, pem.cert, name)).split(":")[0]).toBe(said);
  });

  it("is nobody's to those who do not trust it", async () => {
    const other = createSelfSigned("localhost", names, TODAY);
    expect(await shake(pem, other.cert, "localhost")).not.toBe("trusted");
  });

  it("is no authority, and holds within its time only", async () => {
    expect(new X509Certificate(pem.cert).ca).toBe(false);
    const old = { from: new Date(Date.now() - 3 * DAY_MS), to: new Date(Date.now() - DAY_MS) };
    const expired = createSelfSigned("localhost", names, old);
    expect(await shake(expired, expired.cert, "localhost")).toMatch(/^CERT_HAS_EXPIRED/);
  });

  it("names any address in the form that clients look for", () => {
    const address = fc.oneof(
      fc.ipV4(),
      fc.ipV6().filter((text) => ipaddr.isValid(text)),
    );
    fc.assert(
      fc.property(address, (text) => {
        const { cert } = createSelfSigned("x", { dns: [], addresses: [text] }, TODAY);
        expect(new X509Certificate(cert).checkIP(text)).toBe(text);
      }),
      { numRuns: 50 },
    );
  });

  it("is not made for what is no address", () => {
    expect(() => createSelfSigned("x", { dns: [], addresses: ["localhost"] }, TODAY)).toThrow(
      new TypeError("localhost is no IP address"),
    );
  });
});

describe("an authority", () => {
  it("vouches for its own addresses: all of loopback, and no neighbour of another one", async () => {
    const own = { dns: ["localhost"], addresses: ["127.0.0.1", "10.0.0.1"] };
    const authority = { ...createAuthority("a", own, TODAY), commonName: "a" };
    const issued = (address: string) =>
      createServerCertificate(authority, { dns: ["localhost"], addresses: [address] }, TODAY);
    expect(await shake(issued("127.8.9.10"), authority.cert, "localhost")).toBe("trusted");
    expect(await shake(issued("10.0.0.1"), authority.cert, "localhost")).toBe("trusted");
    expect(await shake(issued("10.0.0.2"), authority.cert, "localhost")).toMatch(/permitted subtree violation/);
  });
});
