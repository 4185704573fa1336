// The few forms of DER (X.690) that a certificate is made of. Reading is left to node:crypto.

/** A value with its tag and length. */
function tagged(tag: number, content: Buffer): Buffer {
  const size = content.length;
  const length = size < 0x80 ? [size] : size < 0x100 ? [0x81, size] : [0x82, size >> 8, size & 0xff];
  return Buffer.concat([Buffer.from([tag, ...length]), content]);
}

/** SEQUENCE of values. */
export function sequence(...parts: readonly Buffer[]): Buffer {
  return tagged(0x30, Buffer.concat(parts));
}

/** SET of one value. */
export function set(part: Buffer): Buffer {
  return tagged(0x31, part);
}

/** Values inside a context-specific tag of their own. */
export function explicit(number: number, ...parts: readonly Buffer[]): Buffer {
  return tagged(0xa0 | number, Buffer.concat(parts));
}

/** A value whose own tag is replaced by a context-specific one. */
export function context(number: number, content: Buffer): Buffer {
  return tagged(0x80 | number, content);
}

/** BOOLEAN. */
export function boolean(value: boolean): Buffer {
  return tagged(0x01, Buffer.from([value ? 0xff : 0]));
}

/** INTEGER: a small one, or the bytes of a large one that is not negative. */
export function integer(value: number | Buffer): Buffer {
  return tagged(0x02, typeof value === "number" ? Buffer.from([value]) : value);
}

/** BIT STRING whose last byte has `unused` bits too many. */
export function bitString(bytes: Buffer, unused = 0): Buffer {
  return tagged(0x03, Buffer.concat([Buffer.from([unused]), bytes]));
}

/** OCTET STRING. */
export function octetString(bytes: Buffer): Buffer {
  return tagged(0x04, bytes);
}

/** UTF8String. */
export function utf8(text: string): Buffer {
  return tagged(0x0c, Buffer.from(text));
}

/** OBJECT IDENTIFIER out of its dotted form. */
export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
  const bytes = [first * 40 + second];
  for (const arc of rest) {
    const digits = [arc & 0x7f];
    for (let left = arc >>> 7; left > 0; left >>>= 7) digits.unshift((left & 0x7f) | 0x80);
    bytes.push(...digits);
  }
  return tagged(0x06, Buffer.from(bytes));
}

/** Time: UTCTime until 2049 and GeneralizedTime from then on, as RFC 5280 4.1.2.5 wants it. */
export function time(date: Date): Buffer {
  const digits = `${date.toISOString().slice(0, 19).replace(/[-T:]/g, "")}Z`;
  return date.getUTCFullYear() < 2050
    ? tagged(0x17, Buffer.from(digits.slice(2), "latin1"))
    : tagged(0x18, Buffer.from(digits, "latin1"));
}
