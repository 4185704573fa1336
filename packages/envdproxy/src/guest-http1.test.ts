import { Duplex } from "node:stream";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { requestHttp1 } from "./guest-http1.ts";
import type { GuestResponse } from "./guest-leg.ts";
import { GuestRelay } from "./guest-relay.ts";

/** A relay whose other end the test plays: what it feeds arrives read by read. */
class FedRelay extends Duplex {
  override _read(): void {}

  override _write(_chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    done();
  }
}

/** The pieces of the body in which a guest's answer arrives, one read after the other. */
async function piecesOf(reads: readonly string[]): Promise<Buffer[]> {
  const relay = new FedRelay();
  const response = await new Promise<GuestResponse | Buffer>((resolve, reject) => {
    requestHttp1(
      new GuestRelay(relay),
      { method: "GET", path: "/", authority: "a", headers: [], empty: true, chunked: false, upgrade: false },
      {
        onInform: () => undefined,
        onWhole: (_head, body) => resolve(body),
        onResponse: resolve,
        onSwitch: () => reject(new Error("switched")),
        onFailure: reject,
        onBroken: () => reject(new Error("broken")),
      },
    );
    for (const bytes of reads) {
      relay.push(bytes, "latin1");
    }
  });
  if (Buffer.isBuffer(response)) {
    return [response];
  }
  const pieces: Buffer[] = [];
  for await (const piece of response.body) {
    pieces.push(piece as Buffer);
  }
  return pieces;
}

function chunk(data: string): string {
  return `${data.length.toString(16)}\r\n${data}\r\n`;
}

const HEAD = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

it("joins the tiny chunks of one read, which would cost more than they hold", async () => {
  const pieces = await piecesOf([HEAD, chunk("a").repeat(5000), chunk("b").repeat(5000), "0\r\n\r\n"]);
  expect(Buffer.concat(pieces).toString()).toBe("a".repeat(5000) + "b".repeat(5000));
  expect(pieces.length).toBeLessThanOrEqual(2);
});

it("sends what had to wait as one chunk, whole and in order, the end behind it", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 0, max: 3000 }), { maxLength: 60 }),
      fc.boolean(),
      async (sizes, slow) => {
        const written: Buffer[] = [];
        const relay = new (class extends FedRelay {
          override _write(bytes: Buffer, _encoding: BufferEncoding, done: () => void): void {
            written.push(bytes);
            if (slow) {
              setImmediate(done);
            } else {
              done();
            }
          }
        })();
        const ignore = (): void => undefined;
        const leg = requestHttp1(
          new GuestRelay(relay),
          { method: "POST", path: "/", authority: "a", headers: [], empty: false, chunked: true, upgrade: false },
          {
            onInform: ignore,
            onWhole: ignore,
            onResponse: ignore,
            onSwitch: ignore,
            onFailure: ignore,
            onBroken: ignore,
          },
        );
        const datas = sizes.map((size, index) => String.fromCharCode(97 + (index % 26)).repeat(size));
        for (const data of datas) {
          leg.body.write(data);
        }
        leg.endBody(["X-Sum", "1"]);
        const whole = (): string => Buffer.concat(written).toString("latin1");
        while (!whole().endsWith("X-Sum: 1\r\n\r\n")) {
          await new Promise((resolve) => setImmediate(resolve));
        }
        let text = whole().slice(whole().indexOf("\r\n\r\n") + 4);
        let body = "";
        let chunks = 0;
        for (;;) {
          const size = Number.parseInt(text, 16);
          const start = text.indexOf("\r\n") + 2;
          if (size === 0) {
            break;
          }
          body += text.slice(start, start + size);
          expect(text.slice(start + size, start + size + 2)).toBe("\r\n");
          text = text.slice(start + size + 2);
          chunks += 1;
        }
        expect(body).toBe(datas.join(""));
        expect(text).toBe("0\r\nX-Sum: 1\r\n\r\n");
        expect(chunks).toBeLessThanOrEqual(2);
        relay.destroy();
      },
    ),
    { numRuns: 40 },
  );
});

it("keeps the order of chunks of any sizes however they arrive", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.oneof(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1000, max: 1050 })), { maxLength: 40 }),
      fc.integer({ min: 1, max: 3000 }),
      async (sizes, step) => {
        const datas = sizes.map((size, index) => String.fromCharCode(97 + (index % 26)).repeat(size));
        const bytes = `${HEAD}${datas.map(chunk).join("")}0\r\n\r\n`;
        const reads = Array.from({ length: Math.ceil(bytes.length / step) }, (_, at) =>
          bytes.slice(at * step, (at + 1) * step),
        );
        expect(Buffer.concat(await piecesOf(reads)).toString()).toBe(datas.join(""));
      },
    ),
    { numRuns: 60 },
  );
});
