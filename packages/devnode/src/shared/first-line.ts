import type { Socket } from "node:net";

const NEWLINE = 0x0a;

/**
 * Reads one line that precedes raw bytes on a socket. What came behind it is put back, so that the next reader gets
 * every byte. Rejects when the socket ends or fails first, when the line is longer than `limit` bytes, and after
 * `timeoutMs`; the caller destroys the socket then.
 */
export function readFirstLine(socket: Socket, limit: number, timeoutMs: number): Promise<string> {
  return new Promise((resolve, reject) => {
    let collected: Buffer = Buffer.alloc(0);
    const finish = (outcome: () => void): void => {
      clearTimeout(timer);
      socket.off("readable", onReadable);
      socket.off("end", onEnd);
      socket.off("close", onEnd);
      socket.off("error", onError);
      outcome();
    };
    const fail = (message: string, cause?: unknown): void => finish(() => reject(new Error(message, { cause })));
    const onEnd = (): void => fail("the connection ended before its first line");
    const onError = (error: Error): void => fail("the connection failed before its first line", error);
    const onReadable = (): void => {
      for (;;) {
        const chunk = socket.read() as Buffer | null;
        if (chunk === null) {
          return;
        }
        collected = collected.length === 0 ? chunk : Buffer.concat([collected, chunk]);
        const at = collected.indexOf(NEWLINE);
        if (at > limit || (at === -1 && collected.length > limit)) {
          fail("the first line is too long");
          return;
        }
        if (at !== -1) {
          const rest = collected.subarray(at + 1);
          const line = collected.toString("utf8", 0, at);
          finish(() => {
            if (rest.length > 0) {
              socket.unshift(rest);
            }
            resolve(line);
          });
          return;
        }
      }
    };
    const timer = setTimeout(() => fail("the first line did not come in time"), timeoutMs);
    socket.on("readable", onReadable);
    socket.on("end", onEnd);
    socket.on("close", onEnd);
    socket.on("error", onError);
  });
}
