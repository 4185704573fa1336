import { type LogDirection, type LogEntry, LOG_LEVELS, type LogQuery } from "@org/envd-client";

/** Sizes of a {@link LogRing}. */
export interface LogRingOptions {
  /** Memory for output, in bytes; it is taken as output comes. At least four times {@link MAX_FRAME_BYTES}. */
  readonly maxBytes: number;
  /** Only so many of the newest lines are shown, however short they are. */
  readonly maxLines: number;
  /** What is longer is cut, with a mark. */
  readonly maxLineBytes: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** One output stream of one command on its way into the ring. */
export interface LogWriter {
  /** Takes output in any pieces; they are copied. */
  write(bytes: Buffer): void;
  /** Completes a last line without a newline. */
  end(): void;
}

/** The newest output of a guest's commands, line by line, in a fixed amount of memory. */
export interface LogRing {
  open(pid: number, stream: LogStream): LogWriter;
  /** A page of the complete lines, as {@link LogQuery} describes it. */
  read(query: LogQuery): LogEntry[];
}

/** Streams whose output is logged. */
export type LogStream = "stdout" | "stderr";

/** Most bytes that are kept, and given up, at once. */
export const MAX_FRAME_BYTES: number = 32 * 1024;
/** Small pieces of one stream and millisecond share a frame up to this size. */
const SHARED_FRAME_BYTES = 16 * 1024;
const FIRST_BYTES = 128 * 1024;
const NEWLINE = 10;
const CARRIAGE_RETURN = 13;
const CUT_MARK = " … [cut]";
const LINE_END = Buffer.from([NEWLINE]);

// A frame is a header and what one stream gave at one moment.
const LENGTH_AT = 0;
const STREAM_AT = 4;
const TIME_AT = 8;
const PID_AT = 16;
const FLAGS_AT = 20;
const HEADER_BYTES = 24;
const IS_ERROR = 1;
/** The frame begins inside of a line. */
const CONTINUES = 2;

interface Line {
  /** Start and end of each piece in the ring. */
  readonly pieces: readonly number[];
  readonly seq: number;
  readonly timestampMs: number;
  readonly pid: number;
  readonly isError: boolean;
}

const INFO_RANK = LOG_LEVELS.indexOf("info");
const ERROR_RANK = LOG_LEVELS.indexOf("error");

/**
 * Output is stored as it comes and split into lines when somebody reads, so a flood costs one copy and nobody pays for
 * lines that are never read. A piece costs no memory of its own, and the oldest frames make room for new ones.
 */
export function createLogRing({ maxBytes, maxLines, maxLineBytes, now }: LogRingOptions): LogRing {
  let ring = Buffer.alloc(0);
  /** The oldest frame, and the end of the newest. Equal when there is none, or when all is full. */
  let head = 0;
  let tail = 0;
  let frames = 0;
  /** Where the older frames end when the newer ones lie before them. */
  let wrapAt = -1;
  let newest = -1;
  /** Bytes of output ever stored before the oldest frame. */
  let headSeq = 0;
  let lastMs = 0;
  /** Whether the newest lines were shown, so that later ones need a later time. */
  let shown = false;
  let streams = 0;

  function after(frame: number): number {
    const end = frame + HEADER_BYTES + ring.readUInt32LE(frame + LENGTH_AT);
    return end === wrapAt ? 0 : end;
  }

  function evict(): void {
    headSeq += ring.readUInt32LE(head + LENGTH_AT);
    const next = after(head);
    if (next === 0) wrapAt = -1;
    head = next;
    frames -= 1;
    if (frames > 0) return;
    head = 0;
    tail = 0;
    wrapAt = -1;
    newest = -1;
  }

  function grow(): void {
    const bigger = Buffer.alloc(Math.min(maxBytes, Math.max(FIRST_BYTES, ring.length * 2)));
    const wrapped = wrapAt !== -1;
    const older = ring.copy(bigger, 0, head, wrapped ? wrapAt : tail);
    if (wrapped) ring.copy(bigger, older, 0, tail);
    newest = -1;
    tail = wrapped ? older + tail : older;
    head = 0;
    wrapAt = -1;
    ring = bigger;
  }

  /** Bytes behind the newest frame that are free without moving or dropping anything. */
  function roomBehind(): number {
    return (frames > 0 && tail <= head ? head : ring.length) - tail;
  }

  /** Makes room for a frame of this size at `tail`. */
  function reserve(size: number): void {
    while (roomBehind() < size) {
      if (wrapAt === -1 && head >= size) {
        wrapAt = tail;
        tail = 0;
      } else if (ring.length < maxBytes) grow();
      else evict();
    }
  }

  function timestamp(): number {
    lastMs = Math.max(Math.floor(now()), shown ? lastMs + 1 : lastMs);
    shown = false;
    return lastMs;
  }

  function store(bytes: Buffer, stream: number, pid: number, flags: number): void {
    const ms = timestamp();
    if (newest !== -1) {
      const length = ring.readUInt32LE(newest + LENGTH_AT) + bytes.length;
      const same = ring.readUInt32LE(newest + STREAM_AT) === stream && ring.readDoubleLE(newest + TIME_AT) === ms;
      if (same && length <= SHARED_FRAME_BYTES && roomBehind() >= bytes.length) {
        ring.writeUInt32LE(length, newest + LENGTH_AT);
        tail += bytes.copy(ring, tail);
        return;
      }
    }
    reserve(HEADER_BYTES + bytes.length);
    newest = tail;
    ring.writeUInt32LE(bytes.length, tail + LENGTH_AT);
    ring.writeUInt32LE(stream, tail + STREAM_AT);
    ring.writeDoubleLE(ms, tail + TIME_AT);
    ring.writeUInt32LE(pid, tail + PID_AT);
    ring[tail + FLAGS_AT] = flags;
    tail += HEADER_BYTES;
    tail += bytes.copy(ring, tail);
    frames += 1;
  }

  function open(pid: number, name: LogStream): LogWriter {
    streams += 1;
    const stream = streams;
    const base = name === "stderr" ? IS_ERROR : 0;
    /** Stored bytes of the line that has not ended; at most one piece above the limit. */
    let lineBytes = 0;

    function put(bytes: Buffer): void {
      for (let at = 0; at < bytes.length; at += MAX_FRAME_BYTES) {
        const inLine = at > 0 ? bytes[at - 1] !== NEWLINE : lineBytes > 0;
        store(bytes.subarray(at, at + MAX_FRAME_BYTES), stream, pid, inLine ? base | CONTINUES : base);
      }
    }

    return {
      write(bytes) {
        let from = 0;
        if (lineBytes > maxLineBytes) {
          // The rest of a line that is too long already is not worth its memory.
          from = bytes.indexOf(NEWLINE);
          if (from === -1) return;
        }
        put(bytes.subarray(from));
        const last = bytes.lastIndexOf(NEWLINE);
        lineBytes = last === -1 ? lineBytes + bytes.length : bytes.length - last - 1;
      },
      end() {
        if (lineBytes > 0) put(LINE_END);
        lineBytes = 0;
      },
    };
  }

  function countLines(): number {
    let lines = 0;
    for (let frame = head, left = frames; left > 0; left -= 1, frame = after(frame)) {
      const start = frame + HEADER_BYTES;
      const end = start + ring.readUInt32LE(frame + LENGTH_AT);
      for (let at = start; at < end; at += 1) if (ring[at] === NEWLINE) lines += 1;
    }
    return lines;
  }

  /** The complete lines for which `wanted` holds, without those of which the beginning is gone. */
  function collect(wanted: (timestampMs: number, rank: number) => boolean): Line[] {
    const lines: Line[] = [];
    /** Pieces of each stream's unfinished line; null when its beginning is gone. */
    const unfinished = new Map<number, number[] | null>();
    let skip = countLines() - maxLines;
    let seq = headSeq;
    for (let frame = head, left = frames; left > 0; left -= 1, frame = after(frame)) {
      const start = frame + HEADER_BYTES;
      const end = start + ring.readUInt32LE(frame + LENGTH_AT);
      const stream = ring.readUInt32LE(frame + STREAM_AT);
      const timestampMs = ring.readDoubleLE(frame + TIME_AT);
      const pid = ring.readUInt32LE(frame + PID_AT);
      const flags = ring[frame + FLAGS_AT] ?? 0;
      const isError = (flags & IS_ERROR) !== 0;
      const take = wanted(timestampMs, isError ? ERROR_RANK : INFO_RANK);
      let before = unfinished.get(stream);
      if (before === undefined && (flags & CONTINUES) !== 0) before = null;
      let from = start;
      for (let at = start; at < end; at += 1) {
        if (ring[at] !== NEWLINE) continue;
        skip -= 1;
        if (take && skip < 0 && before !== null) {
          const pieces = before ?? [];
          pieces.push(from, at);
          lines.push({ pieces, seq: seq + at + 1 - start, timestampMs, pid, isError });
        }
        before = undefined;
        from = at + 1;
      }
      seq += end - start;
      if (before === undefined && from === end) unfinished.delete(stream);
      else if (before === null || before === undefined) unfinished.set(stream, before === null ? null : [from, end]);
      else before.push(from, end);
    }
    return lines;
  }

  function textOf({ pieces }: Line): string {
    let source = ring;
    let [start = 0, end = 0] = pieces;
    if (pieces.length > 2) {
      const parts: Buffer[] = [];
      for (let at = 0; at < pieces.length; at += 2) parts.push(ring.subarray(pieces[at], pieces[at + 1]));
      source = Buffer.concat(parts);
      start = 0;
      end = source.length;
    }
    if (end - start > maxLineBytes) {
      return `${source.toString("utf8", start, wholeCharacters(source, start + maxLineBytes))}${CUT_MARK}`;
    }
    if (end > start && source[end - 1] === CARRIAGE_RETURN) end -= 1;
    return source.toString("utf8", start, end);
  }

  return {
    open,
    read({ cursorMs, limit = maxLines, direction = "forward", level = "debug", search = "" }) {
      const nothingNew = direction === "forward" && cursorMs !== undefined && cursorMs > lastMs;
      shown = true;
      if (nothingNew || frames === 0) return [];
      const least = LOG_LEVELS.indexOf(level);
      const bound = cursorMs ?? (direction === "forward" ? 0 : Infinity);
      const lines = collect((ms, rank) => rank >= least && (direction === "forward" ? ms >= bound : ms <= bound));
      const found = search === "" ? lines : lines.filter((line) => textOf(line).includes(search));
      return pageOf(found, limit, direction).map((line) => ({
        seq: line.seq,
        timestampMs: line.timestampMs,
        level: line.isError ? "error" : "info",
        logger: line.isError ? "process.stderr" : "process.stdout",
        pid: line.pid,
        message: textOf(line),
      }));
    },
  };
}

/** The first or last lines in their order of reading, up to the next change of time after the limit. */
function pageOf(lines: readonly Line[], limit: number, direction: LogDirection): Line[] {
  const ordered = direction === "forward" ? lines : lines.toReversed();
  let end = Math.min(limit, ordered.length);
  while (end > 0 && ordered[end]?.timestampMs === ordered[end - 1]?.timestampMs) end += 1;
  return ordered.slice(0, end);
}

/** The last place up to `limit` that is not inside of a character. */
function wholeCharacters(bytes: Buffer, limit: number): number {
  let end = limit;
  while (end > limit - 4 && end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return end;
}
