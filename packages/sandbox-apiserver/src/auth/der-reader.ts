/** One value of DER (X.690): its tag and what is inside. */
export interface DerValue {
  readonly tag: number;
  readonly content: Buffer;
}

export const BOOLEAN = 0x01;
export const INTEGER = 0x02;
export const BIT_STRING = 0x03;
export const OCTET_STRING = 0x04;
export const OBJECT_IDENTIFIER = 0x06;
export const SEQUENCE = 0x30;

/** The values that lie one after the other in `bytes`. @throws RangeError for what is no DER. */
export function readValues(bytes: Buffer): readonly DerValue[] {
  const values: DerValue[] = [];
  let at = 0;
  while (at < bytes.length) {
    const tag = bytes.readUInt8(at);
    if ((tag & 0x1f) === 0x1f) {
      throw new RangeError("a tag of several bytes");
    }
    let size = bytes.readUInt8(at + 1);
    at += 2;
    if (size >= 0x80) {
      const count = size & 0x7f;
      if (count === 0 || count > 4) {
        throw new RangeError("a length without an end");
      }
      size = bytes.readUIntBE(at, count);
      at += count;
    }
    if (at + size > bytes.length) {
      throw new RangeError("a value beyond its frame");
    }
    values.push({ tag, content: bytes.subarray(at, at + size) });
    at += size;
  }
  return values;
}

/** The values inside of the one value that `bytes` is. @throws RangeError when that is not a `tag`. */
export function readInside(bytes: Buffer, tag: number = SEQUENCE): readonly DerValue[] {
  const [value, ...rest] = readValues(bytes);
  if (value?.tag !== tag || rest.length > 0) {
    throw new RangeError("another form than expected");
  }
  return readValues(value.content);
}

/** The dotted form of an object identifier's content. */
export function readOid(content: Buffer): string {
  const arcs: number[] = [];
  let arc = 0;
  for (const byte of content) {
    arc = arc * 128 + (byte & 0x7f);
    if (byte < 0x80) {
      arcs.push(arc);
      arc = 0;
    }
  }
  const [first = 0, ...rest] = arcs;
  const root = Math.min(2, Math.floor(first / 40));
  return [root, first - root * 40, ...rest].join(".");
}
