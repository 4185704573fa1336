import { createSign, generateKeyPairSync } from "node:crypto";

function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  if (body.length < 128) {
    return Buffer.concat([Buffer.from([tag, body.length]), body]);
  }
  const size = Buffer.alloc(2);
  size.writeUInt16BE(body.length);
  return Buffer.concat([Buffer.from([tag, 0x82]), size, body]);
}

const SHA256_WITH_ECDSA = Buffer.from("300a06082a8648ce3d040302", "hex");
const COMMON_NAME = Buffer.from("0603550403", "hex");

/** A certificate for `name` that signs itself, valid until 2049, with its key: both in PEM. */
export function selfSigned(name: string): { readonly cert: string; readonly key: string } {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const subject = der(0x30, der(0x31, der(0x30, COMMON_NAME, der(0x0c, Buffer.from(name)))));
  const validity = der(0x30, der(0x17, Buffer.from("200101000000Z")), der(0x17, Buffer.from("491231235959Z")));
  const body = der(
    0x30,
    der(0x02, Buffer.from([1])),
    SHA256_WITH_ECDSA,
    subject,
    validity,
    subject,
    publicKey.export({ type: "spki", format: "der" }),
  );
  const signature = createSign("sha256").update(body).sign(privateKey);
  const certificate = der(0x30, body, SHA256_WITH_ECDSA, der(0x03, Buffer.from([0]), signature));
  const lines = certificate.toString("base64").replace(/(.{64})/g, "$1\n");
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines.trimEnd()}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
  };
}
