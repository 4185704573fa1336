import { json } from "../answer.ts";
import type { Answer } from "../answer.ts";
import type { Call } from "../call.ts";
import { E2bError } from "../errors.ts";
import { commaList, queryOf, wholeNumber } from "../query.ts";
import type { Query } from "../query.ts";
import type { GuestSample } from "../guest-metrics.ts";
import { rfc3339 } from "../present.ts";
import { findSandbox, lookUp } from "../service.ts";
import type { Service } from "../service.ts";
import { createSlots } from "../slots.ts";
import type { MetricsReply } from "../wire/replies.ts";

const MAX_IDS = 100;
const PARALLEL = 16;

function metricsReply({ seconds, ...numbers }: GuestSample): MetricsReply {
  return { timestamp: rfc3339(seconds * 1000), timestampUnix: seconds, ...numbers };
}

/** Seconds since 1970, both inclusive. */
export interface Window {
  readonly start: number;
  readonly end: number;
}

const bound = { max: 999_999_999_999_999, fallback: undefined, mayBeEmpty: true };

/** The query of one sandbox's metrics. */
export const windowQuery: Query<Window> = queryOf(
  {
    start: wholeNumber({ ...bound, about: "No samples before this moment, in seconds since 1970." }),
    end: wholeNumber({ ...bound, about: "No samples after this moment, in seconds since 1970." }),
  },
  ({ start = 0, end = Number.POSITIVE_INFINITY }) => ({ start, end }),
);

function differentIds(ids: readonly string[]): readonly string[] {
  if (ids.length === 0 || ids.length > MAX_IDS || ids.includes("") || new Set(ids).size < ids.length) {
    throw new E2bError("bad_request", `sandbox_ids: want 1 to ${MAX_IDS} different ids, separated by commas`);
  }
  return ids;
}

/** The query of the metrics of several sandboxes. */
export const idsQuery: Query<readonly string[]> = queryOf(
  {
    sandbox_ids: commaList(
      `1 to ${MAX_IDS} different ids.`,
      { items: { type: "string", minLength: 1 }, minItems: 1, maxItems: MAX_IDS, uniqueItems: true },
      differentIds,
      { required: true },
    ),
  },
  ({ sandbox_ids: ids }) => ids,
);

/** `GET /sandboxes/{sandboxID}/metrics`: the sample of now, if now lies in the window. A paused sandbox has none. */
export async function metrics(service: Service, call: Call, asked: string, { start, end }: Window): Promise<Answer> {
  const sandbox = await findSandbox(service, call, asked);
  const sample = await service.guestMetrics.read(call, sandbox);
  const shown = sample !== undefined && sample.seconds >= start && sample.seconds <= end;
  return json(200, shown ? [metricsReply(sample)] : []);
}

/** `GET /sandboxes/metrics`: a sample of each sandbox that has one. */
export async function metricsOfMany(service: Service, call: Call, ids: readonly string[]): Promise<Answer> {
  const slots = createSlots(PARALLEL);
  const readOne = async (asked: string): Promise<readonly [string, MetricsReply] | undefined> => {
    const leave = await slots.take(call.signal);
    try {
      const sample = await service.guestMetrics.read(call, await lookUp(service, call, asked));
      return sample === undefined ? undefined : [asked, metricsReply(sample)];
    } catch (error) {
      if (call.signal.aborted) {
        throw error;
      }
      const { logger } = service.settings;
      logger.debug({ requestId: call.requestId, sandboxId: asked, err: error }, "a sandbox gave no metrics");
      return undefined;
    } finally {
      leave();
    }
  };
  const samples = (await Promise.all(ids.map(readOne))).filter((sample) => sample !== undefined);
  // Ids come from the client: `__proto__` is one like any other.
  return json(200, { sandboxes: Object.fromEntries(samples) });
}
