import { X509Certificate } from "node:crypto";
import { describe, expect, it } from "vitest";
import { CLIENT_AUTH, der, oid, sequence, SERVER_AUTH, TestAuthority } from "../testing/test-authority.ts";
import { readCertificate } from "./certificate.ts";
import { readTrustBundle } from "./trust-bundle.ts";
import { verifyClientChain, type VerifiedChain } from "./verify-chain.ts";

const HOUR_MS = 3_600_000;
const at = (ms: number): Date => new Date(Date.now() + ms);

const root = TestAuthority.root("root");
const middle = root.below("middle");
const lower = middle.below("lower");
const user = { commonName: "alice", organizations: ["a, b", "c"] };

function verify(presented: readonly string[], trusted: readonly string[], now = Date.now()): VerifiedChain | undefined {
  return verifyClientChain(
    presented.map((pem) => readCertificate(new X509Certificate(pem))),
    readTrustBundle("test", trusted.join("")),
    now,
  );
}

describe("a client's certificate holds when", () => {
  const leaf = middle.issue(user).cert;
  const signer = TestAuthority.root("signer", { maySign: true });
  it.each<[reason: string, presented: readonly string[], trusted: readonly string[]]>([
    ["a trusted authority signed it", [root.issue(user).cert], [root.cert]],
    ["one of several trusted authorities did", [root.issue(user).cert], [TestAuthority.root("x").cert, root.cert]],
    ["an authority in between is shown", [leaf, middle.cert], [root.cert]],
    ["the root is shown as well", [leaf, middle.cert, root.cert], [root.cert]],
    [
      "those in between come in another order",
      [lower.issue(user).cert, root.cert, middle.cert, lower.cert],
      [root.cert],
    ],
    ["strangers come with it", [leaf, TestAuthority.root("middle").cert, middle.cert], [root.cert]],
    ["the one in between is the trusted one", [leaf], [middle.cert]],
    ["it is trusted itself", [leaf], [leaf]],
    ["it names no purpose", [root.issue({ ...user, purposes: [] }).cert], [root.cert]],
    ["it is for any purpose", [root.issue({ ...user, purposes: ["2.5.29.37.0"] }).cert], [root.cert]],
    [
      "it is for servers and clients",
      [root.issue({ ...user, purposes: [SERVER_AUTH, CLIENT_AUTH] }).cert],
      [root.cert],
    ],
    ["its authority says that it may sign", [signer.issue(user).cert], [signer.cert]],
  ])("%s", (_reason, presented, trusted) => {
    const chain = verify(presented, trusted);
    expect(chain?.leaf).toMatchObject({ commonName: "alice", organizations: ["a, b", "c"] });
  });
});

describe("a client's certificate does not hold when", () => {
  const unknown: [string, boolean, Buffer] = ["1.2.3.4.5", true, der(0x05, Buffer.alloc(0))];
  const constraints: [string, boolean, Buffer] = [
    "2.5.29.30",
    true,
    sequence(der(0xa0, sequence(der(0x82, Buffer.from("example.com"))))),
  ];
  const rows: [reason: string, make: () => { presented: readonly string[]; trusted: readonly string[] }][] = [
    [
      "nobody is trusted with its issuer",
      () => ({ presented: [TestAuthority.root("x").issue(user).cert], trusted: [root.cert] }),
    ],
    [
      "its issuer only has the name of a trusted one",
      () => ({ presented: [TestAuthority.root("root").issue(user).cert], trusted: [root.cert] }),
    ],
    ["the one in between is not shown", () => ({ presented: [middle.issue(user).cert], trusted: [root.cert] })],
    [
      "a user signed it",
      () => {
        const clerk = root.below("clerk", { isAuthority: false, purposes: [CLIENT_AUTH] });
        return { presented: [clerk.issue(user).cert, clerk.cert], trusted: [root.cert] };
      },
    ],
    [
      "the key of its authority may not sign",
      () => {
        const weak = root.below("weak", { maySign: false });
        return { presented: [weak.issue(user).cert, weak.cert], trusted: [root.cert] };
      },
    ],
    [
      "more authorities stand in between than one of them allows",
      () => {
        const short = root.below("short", { pathLength: 0 });
        const next = short.below("next");
        return { presented: [next.issue(user).cert, next.cert, short.cert], trusted: [root.cert] };
      },
    ],
    [
      "the trusted one allows none in between",
      () => {
        const short = TestAuthority.root("short", { pathLength: 0 });
        const next = short.below("next");
        return { presented: [next.issue(user).cert, next.cert], trusted: [short.cert] };
      },
    ],
    ["it is expired", () => ({ presented: [root.issue({ ...user, notAfter: at(-1000) }).cert], trusted: [root.cert] })],
    [
      "it is of the future",
      () => ({ presented: [root.issue({ ...user, notBefore: at(HOUR_MS / 2) }).cert], trusted: [root.cert] }),
    ],
    [
      "the one in between is expired",
      () => {
        const old = root.below("old", { notAfter: at(-1000) });
        return { presented: [old.issue(user).cert, old.cert], trusted: [root.cert] };
      },
    ],
    [
      "the trusted one is expired",
      () => {
        const old = TestAuthority.root("old", { notAfter: at(-1000) });
        return { presented: [old.issue(user).cert], trusted: [old.cert] };
      },
    ],
    ["it is for servers", () => ({ presented: [root.server(user).cert], trusted: [root.cert] })],
    [
      "its authority is for servers",
      () => {
        const web = root.below("web", { purposes: [SERVER_AUTH] });
        return { presented: [web.issue(user).cert, web.cert], trusted: [root.cert] };
      },
    ],
    [
      "it is for servers and trusted itself",
      () => {
        const { cert } = root.server(user);
        return { presented: [cert], trusted: [cert] };
      },
    ],
    [
      "it asks for what is not understood",
      () => ({ presented: [root.issue({ ...user, extensions: [unknown] }).cert], trusted: [root.cert] }),
    ],
    [
      "its authority asks for what is not understood",
      () => {
        const odd = root.below("odd", { extensions: [unknown] });
        return { presented: [odd.issue(user).cert, odd.cert], trusted: [root.cert] };
      },
    ],
    [
      "it has names and its authority is bound to some",
      () => {
        const bound = root.below("bound", { extensions: [constraints] });
        return { presented: [bound.issue({ ...user, alternativeNames: true }).cert, bound.cert], trusted: [root.cert] };
      },
    ],
    [
      "it is signed with SHA-1",
      () => ({ presented: [root.issue({ ...user, weak: true }).cert], trusted: [root.cert] }),
    ],
    ["nothing is shown", () => ({ presented: [], trusted: [root.cert] })],
    [
      "it stands behind another one",
      () => ({ presented: [TestAuthority.root("x").issue(user).cert, root.issue(user).cert], trusted: [root.cert] }),
    ],
  ];
  it.each(rows)("%s", (_reason, make) => {
    const { presented, trusted } = make();
    expect(verify(presented, trusted)).toBeUndefined();
  });

  it("its signature is another's", () => {
    const good = Buffer.from(root.issue(user).cert.replaceAll(/-----[^-]+-----|\n/g, ""), "base64");
    good.writeUInt8(good.readUInt8(good.length - 1) ^ 1, good.length - 1);
    const forged = `-----BEGIN CERTIFICATE-----\n${good.toString("base64")}\n-----END CERTIFICATE-----\n`;
    expect(verify([forged], [root.cert])).toBeUndefined();
  });
});

describe("names that bind an authority", () => {
  it("say nothing of a client without names", () => {
    const value = sequence(der(0xa0, sequence(der(0x82, Buffer.from("example.com")))));
    const bound = root.below("bound", { extensions: [["2.5.29.30", true, value]] });
    expect(verify([bound.issue(user).cert, bound.cert], [root.cert])).toBeDefined();
  });
});

describe("the search for a chain", () => {
  it("ends soon whatever a client shows", () => {
    // Authorities of one name, each of which might have issued each other.
    const many = Array.from({ length: 15 }, () => TestAuthority.root("root").below("root").cert);
    expect(verify([TestAuthority.root("root").issue(user).cert, ...many], [root.cert])).toBeUndefined();
  });

  it("finds the way past an authority that is expired to its successor of the same name", () => {
    const next = root.below("middle");
    const old = root.below("middle", { notAfter: at(-1000) });
    expect(verify([next.issue(user).cert, old.cert, next.cert], [root.cert])).toBeDefined();
  });

  it("tells within which time all of a chain holds", () => {
    const from = at(-60_000);
    const to = at(60_000);
    const short = root.below("short", { notBefore: from });
    const chain = verify([short.issue({ ...user, notAfter: to }).cert, short.cert], [root.cert]);
    expect(chain?.notBefore).toBe(Math.floor(from.getTime() / 1000) * 1000);
    expect(chain?.notAfter).toBe(Math.floor(to.getTime() / 1000) * 1000);
  });
});

describe("a certificate of an odd form", () => {
  it("with an extension twice is not read", () => {
    const twice = root.issue({ ...user, extensions: [["2.5.29.37", false, sequence(oid(SERVER_AUTH))]] }).cert;
    expect(() => readCertificate(new X509Certificate(twice))).toThrow(RangeError);
  });
});

describe("authorities in PEM", () => {
  it.each([
    ["nothing", ""],
    ["a key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"],
    ["a broken certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"],
    ["a broken one beside a good one", `${root.cert}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n`],
  ])("are not read out of %s", (_what, pem) => {
    expect(() => readTrustBundle("file", pem)).toThrow(expect.objectContaining({ code: "certificates" }));
  });

  it("may have text around them", () => {
    const { authorities } = readTrustBundle("file", `# one\n${root.cert}\n# two\n${middle.cert}`);
    expect(authorities.map(({ commonName }) => commonName)).toEqual(["root", "middle"]);
  });
});
