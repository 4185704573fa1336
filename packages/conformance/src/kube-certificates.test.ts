import { X509Certificate } from "node:crypto";
import { expect, test } from "vitest";

import { KubeAuthority } from "./kube-certificates.ts";

test("certificates are signed by their authority, with names, purpose and dates", () => {
  const authority = new KubeAuthority("one");
  const ca = new X509Certificate(authority.cert);
  const client = new X509Certificate(authority.issue({ commonName: "bob", organizations: ["a", "b,c"] }).cert);
  const server = new X509Certificate(
    authority.issue({ commonName: "s", serverNames: ["s.test"], days: [-9, -1] }).cert,
  );
  expect(ca.ca).toBe(true);
  expect([client.verify(ca.publicKey), client.checkIssued(ca)]).toEqual([true, true]);
  expect(client.verify(new X509Certificate(new KubeAuthority("one").cert).publicKey)).toBe(false);
  expect(client.toLegacyObject().subject).toMatchObject({ O: ["a", "b,c"], CN: "bob" });
  expect([client.keyUsage, server.keyUsage]).toEqual([["1.3.6.1.5.5.7.3.2"], ["1.3.6.1.5.5.7.3.1"]]);
  expect([server.checkHost("s.test"), server.checkIP("127.0.0.1")]).toEqual(["s.test", "127.0.0.1"]);
  expect(Date.parse(server.validTo)).toBeLessThan(Date.now());
  expect(Date.parse(client.validFrom)).toBeLessThan(Date.now());
});
