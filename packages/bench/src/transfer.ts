import { connect } from "node:net";
import { ROUTING } from "./proxy-rig.ts";
import { requestText } from "./http-messages.ts";

/** What an upload is made of. */
const PIECE: Buffer = Buffer.alloc(256 * 1024, "0123456789abcdef");
const READ_BYTES = 1024 * 1024;
/** Answers of the scripted guest have short heads. */
const HEAD_BYTES = 4096;

/** Moves `bytes` from or to a guest over one connection. How long it took, in microseconds. */
export function transfer(address: string, direction: "download" | "upload", bytes: number): Promise<number> {
  const cut = address.lastIndexOf(":");
  const request =
    direction === "download"
      ? requestText("GET", `/bytes/${bytes}`, { headers: ROUTING })
      : requestText("PUT", "/sink", { headers: { ...ROUTING, "content-length": String(bytes) } });
  return new Promise((resolve, reject) => {
    const began = performance.now();
    let head = "";
    let body = 0;
    const onRead = (size: number, chunk: Uint8Array): boolean => {
      if (head.endsWith("\r\n\r\n")) {
        body += size;
      } else {
        const text = head + Buffer.from(chunk.buffer, chunk.byteOffset, Math.min(size, HEAD_BYTES)).toString("latin1");
        const end = text.indexOf("\r\n\r\n") + 4;
        body += size - (end - head.length);
        head = text.slice(0, end);
      }
      const wanted = direction === "download" ? bytes : "stored".length;
      if (!head.startsWith("HTTP/1.1 200") || body > wanted) {
        reject(new Error(`the answer is not what was asked for: ${head.slice(0, 100)}`));
        socket.destroy();
      } else if (body === wanted) {
        resolve((performance.now() - began) * 1000);
        socket.destroy();
      }
      return true;
    };
    const socket = connect({
      host: address.slice(0, cut),
      port: Number(address.slice(cut + 1)),
      noDelay: true,
      onread: { buffer: Buffer.alloc(READ_BYTES), callback: onRead },
    });
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("the connection was closed")));
    socket.write(request);
    if (direction === "upload") {
      let left = bytes;
      const more = (): void => {
        while (left > 0 && !socket.destroyed) {
          const piece = left >= PIECE.length ? PIECE : PIECE.subarray(0, left);
          left -= piece.length;
          if (!socket.write(piece)) {
            socket.once("drain", more);
            return;
          }
        }
      };
      more();
    }
  });
}
