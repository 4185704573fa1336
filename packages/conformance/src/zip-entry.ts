import { open } from "node:fs/promises";
import { promisify } from "node:util";
import { inflateRaw } from "node:zlib";

const inflate = promisify(inflateRaw);

const END_OF_DIRECTORY = 0x06054b50;
const END_SIZE = 22;
const DIRECTORY_ENTRY = 0x02014b50;
const ENTRY_SIZE = 46;
const LOCAL_HEADER_SIZE = 30;
const STORED = 0;
const DEFLATED = 8;

/**
 * Reads one file out of a ZIP archive.
 * @throws when the archive is none, is larger than 4 GiB, lacks the file, or has it in a form other than stored or deflated
 */
export async function readZipEntry(archive: string, name: string): Promise<Buffer> {
  await using file = await open(archive);
  const { size } = await file.stat();
  const read = async (at: number, length: number): Promise<Buffer> => {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, at);
    if (bytesRead !== length) {
      throw new Error(`${archive} ends early`);
    }
    return buffer;
  };
  // A comment may stand behind the last record.
  const tailLength = Math.min(size, END_SIZE + 0xffff);
  const tail = await read(size - tailLength, tailLength);
  const end = lastIndexOf(tail, END_OF_DIRECTORY);
  if (end < 0) {
    throw new Error(`${archive} is no ZIP archive`);
  }
  const directory = await read(tail.readUInt32LE(end + 16), tail.readUInt32LE(end + 12));
  for (let at = 0; at + ENTRY_SIZE <= directory.length && directory.readUInt32LE(at) === DIRECTORY_ENTRY;) {
    const nameLength = directory.readUInt16LE(at + 28);
    const found = directory.toString("utf8", at + ENTRY_SIZE, at + ENTRY_SIZE + nameLength);
    if (found === name) {
      const local = directory.readUInt32LE(at + 42);
      const header = await read(local, LOCAL_HEADER_SIZE);
      const begin = local + LOCAL_HEADER_SIZE + header.readUInt16LE(26) + header.readUInt16LE(28);
      const packed = await read(begin, directory.readUInt32LE(at + 20));
      // Awaited here: while the archive is being closed nobody would listen to a refusal.
      return await unpacked(packed, directory.readUInt16LE(at + 10), name);
    }
    at += ENTRY_SIZE + nameLength + directory.readUInt16LE(at + 30) + directory.readUInt16LE(at + 32);
  }
  throw new Error(`${archive} has no ${name}`);
}

function lastIndexOf(bytes: Buffer, signature: number): number {
  const wanted = Buffer.alloc(4);
  wanted.writeUInt32LE(signature);
  return bytes.lastIndexOf(wanted);
}

async function unpacked(bytes: Buffer, method: number, name: string): Promise<Buffer> {
  if (method === STORED) {
    return bytes;
  }
  if (method !== DEFLATED) {
    throw new Error(`${name} is packed by method ${method}, which is not known here`);
  }
  return inflate(bytes);
}
