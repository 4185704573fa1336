import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createBuildLog } from "./build-log.ts";
import { buildLogsQuery, statusQuery } from "./build-query.ts";
import { sizeFor } from "./build-size.ts";
import { createOutputLines } from "./output-lines.ts";
import { parseCredentials } from "./s3-credentials.ts";
import { templateName } from "./template-name.ts";

describe("sizeFor", () => {
  it.each([
    [undefined, undefined, undefined],
    [null, null, undefined],
    [1, undefined, "small"],
    [1, 2048, "small"],
    [undefined, 512, "small"],
    [2, 1024, "medium"],
    [1, 2049, "medium"],
    [4, 8192, "medium"],
    [5, 512, "large"],
    [1, 8193, "large"],
    [undefined, 16_384, "large"],
  ] as const)("%s CPUs and %s MiB are %s", (cpuCount, memoryMB, size) => {
    expect(sizeFor({ cpuCount, memoryMB })).toBe(size);
  });
});

describe("a build's log", () => {
  const log = (maxLines = 100): ReturnType<typeof createBuildLog> => {
    let now = 1000;
    return createBuildLog(maxLines, () => (now += 10));
  };

  it("gives pages by offset, until one is empty", () => {
    const lines = log();
    for (const name of ["a", "b", "c"]) {
      lines.add("info", "1", name);
    }
    const page = (offset: number, limit = 2): string[] =>
      lines.page({ offset, limit, level: "debug" }).map(({ message }) => message);
    expect([page(0), page(2), page(3), page(99), page(0, 0)]).toStrictEqual([["a", "b"], ["c"], [], [], []]);
  });

  it("counts the offset in lines of the level that is asked for", () => {
    const lines = log();
    for (const level of ["debug", "info", "warn", "error", "info", "warn"] as const) {
      lines.add(level, "1", level);
    }
    const page = lines.page({ offset: 1, limit: 10, level: "warn" });
    expect(page.map(({ message }) => message)).toStrictEqual(["error", "warn"]);
  });

  it("drops lines over its bound, and still knows the last one", () => {
    const lines = log(2);
    for (const name of ["a", "b", "c"]) {
      lines.add("info", "1", name);
    }
    expect(lines.page({ offset: 0, limit: 9, level: "debug" }).map(({ message }) => message)).toStrictEqual(["a", "b"]);
    expect(lines.last?.message).toBe("c");
  });

  it("cuts long lines, and never goes back in time", () => {
    let now = 5000;
    const lines = createBuildLog(10, () => now);
    lines.add("info", "1", "x".repeat(100_000));
    now = 4000;
    lines.add("info", "1", "later");
    const [long, later] = lines.page({ offset: 0, limit: 9, level: "debug" });
    expect(long?.message).toMatch(/^x{4096} … \[cut\]$/);
    expect(later?.timestampMs).toBe(5000);
  });

  it("gives pages by time in both directions", () => {
    const lines = log();
    for (const name of ["a", "b", "c"]) {
      lines.add("info", "1", name);
    }
    const page = (direction: "forward" | "backward", cursorMs?: number): string[] =>
      lines.pageByTime({ direction, cursorMs, limit: 2, level: "debug" }).map(({ message }) => message);
    expect(page("forward")).toStrictEqual(["a", "b"]);
    expect(page("forward", 1021)).toStrictEqual(["c"]);
    expect(page("forward", 1020)).toStrictEqual(["b", "c"]);
    expect(page("backward", 1020)).toStrictEqual(["b", "a"]);
    expect(page("backward")).toStrictEqual(["c", "b"]);
    expect(page("backward", 1019)).toStrictEqual(["a"]);
  });
});

describe("a line of a build's log", () => {
  it.each([4095, 4096, 4097])("of %i characters is cut only when it is longer than 4096", (length) => {
    const lines = createBuildLog(1, () => 0);
    lines.add("info", "1", "x".repeat(length));
    expect(lines.last?.message.endsWith(" … [cut]")).toBe(length > 4096);
  });
});

describe("lines of output", () => {
  const split = (chunks: readonly Uint8Array[]): string[] => {
    const lines: string[] = [];
    const output = createOutputLines((line) => lines.push(line));
    for (const chunk of chunks) {
      output.write(chunk);
    }
    output.end();
    return lines;
  };

  it("are the same however the bytes are cut", () => {
    const text = fc.array(fc.string({ unit: "grapheme" }).map((line) => line.replaceAll(/[\r\n]/g, "")));
    fc.assert(
      fc.property(text, fc.array(fc.nat(50)), (lines, sizes) => {
        const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(""));
        const chunks: Uint8Array[] = [];
        let at = 0;
        for (const size of sizes) {
          chunks.push(bytes.subarray(at, at + size));
          at += size;
        }
        chunks.push(bytes.subarray(at));
        expect(split(chunks)).toStrictEqual(lines);
      }),
    );
  });

  it("lose their line ends and keep a last one without", () => {
    expect(split([Buffer.from("a\r\nb\n\nc")])).toStrictEqual(["a", "b", "", "c"]);
  });

  it("without an end are cut into pieces, so that memory stays flat", () => {
    const lines = split([Buffer.alloc(20_000, "x")]);
    expect(lines.map(({ length }) => length)).toStrictEqual([8192, 8192, 3616]);
  });
});

describe("queries", () => {
  it("have defaults", () => {
    expect(statusQuery.read(new URLSearchParams())).toStrictEqual({ offset: 0, limit: 100, level: "debug" });
    expect(buildLogsQuery.read(new URLSearchParams("limit=7&direction=backward&cursor=9&level=warn"))).toStrictEqual({
      limit: 7,
      level: "warn",
      direction: "backward",
      cursorMs: 9,
    });
  });

  it("cannot ask for more than a page", () => {
    expect(statusQuery.read(new URLSearchParams("limit=5000&logsOffset=3")).limit).toBe(100);
  });

  it.each([
    "logsOffset=-1",
    "logsOffset=1.5",
    "logsOffset=x",
    "logsOffset=",
    "limit=-1",
    "level=loud",
    "level=",
    `logsOffset=${"9".repeat(30)}`,
  ])("refuses %s", (query) => {
    expect(() => statusQuery.read(new URLSearchParams(query))).toThrow(
      expect.objectContaining({ code: "bad_request" }),
    );
  });
});

describe("templateName", () => {
  it.each([
    ["mine", { name: "mine" }],
    ["mine:v1", { name: "mine", tag: "v1" }],
    ["team/mine", { name: "team/mine" }],
    ["x".repeat(49), { name: "x".repeat(49) }],
  ])("reads %j", (text, parts) => {
    expect(templateName("sandboxes", text)).toStrictEqual(parts);
  });

  it.each(["", "  ", ":v1", "a b", "ä", "a:b:c", "a//b", "a/../b", "../b", "a/.", "a/", "x".repeat(50)])(
    "refuses %j",
    (text) => {
      expect(() => templateName("sandboxes", text)).toThrow(expect.objectContaining({ code: "bad_request" }));
    },
  );

  it("tells how long a name may be", () => {
    expect(() => templateName("sandboxes", "x".repeat(50))).toThrow("at most 49 characters");
  });
});

describe("parseCredentials", () => {
  it.each([
    [
      "aws_access_key_id=AK\naws_secret_access_key = s=/+\n",
      { accessKeyId: "AK", secretAccessKey: "s=/+", sessionToken: undefined },
    ],
    [
      "# mine\r\n[other]\naws_access_key_id=NO\n[ default ]\n; x\naws_access_key_id=AK\naws_secret_access_key=s\naws_session_token=t\n[more]\naws_session_token=NO",
      { accessKeyId: "AK", secretAccessKey: "s", sessionToken: "t" },
    ],
  ])("reads a file", (text, credentials) => {
    expect(parseCredentials(text, "f")).toStrictEqual(credentials);
  });

  it.each([
    "",
    "[other]\naws_access_key_id=AK\naws_secret_access_key=hunter2",
    "aws_access_key_id=AK\naws_secret_access_key=",
    "hunter2",
  ])("refuses a file without both keys, and shows nothing of it", (text) => {
    const read = (): unknown => parseCredentials(text, "/etc/s3");
    expect(read).toThrow(/"\/etc\/s3"/);
    expect(read).not.toThrow(/hunter2|AK"/);
  });
});
