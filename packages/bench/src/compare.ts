import { median, sum } from "./statistics.ts";

/** One way of doing something, to be timed against others. */
export interface Contender {
  /**
   * Does it `times` times and returns something that depends on the work, so that none of it can be left out by an
   * optimiser.
   */
  readonly run: (times: number) => unknown;
  /** Runs before every batch, outside the measured time. */
  readonly before?: (() => unknown) | undefined;
  /** Times per batch; by default as many as make a batch long enough. */
  readonly times?: number | undefined;
}

/** How much is measured. */
export interface Effort {
  /** Measured batches of each contender. */
  readonly rounds: number;
  /** Fewer rounds, but at least this many, when they would take longer than the budget. */
  readonly minRounds: number;
  /** Batches of each contender that warm up and are not counted. */
  readonly warmUp: number;
  /** A batch takes at least this long, in microseconds. */
  readonly batchMicros: number;
  /** What all measured rounds of one comparison may take, in microseconds. */
  readonly budgetMicros: number;
}

/** Microseconds that have passed, by some measure. */
export type Clock = () => number;

/** Processor time of this process, all its threads: what others do on the machine does not count. */
export const cpuClock: Clock = () => {
  const { user, system } = process.cpuUsage();
  return user + system;
};

/** What the rounds came to: the costs of one time in microseconds, round by round. */
export class Comparison<Name extends string> {
  readonly #costs: ReadonlyMap<string, readonly number[]>;

  constructor(costs: ReadonlyMap<string, readonly number[]>) {
    this.#costs = costs;
  }

  /** Median cost of one time. */
  micros(name: Name): number {
    return median(this.#of(name));
  }

  /** Median over the rounds of one cost divided by the other of the same round: drift hits both. */
  ratio(name: Name, baseline: Name): number {
    const others = this.#of(baseline);
    return median(this.#of(name).map((cost, round) => cost / (others[round] ?? Number.NaN)));
  }

  #of(name: Name): readonly number[] {
    return this.#costs.get(name) ?? [];
  }
}

const MAX_TIMES = 1 << 24;

interface Lane {
  readonly contender: Contender;
  readonly times: number;
  readonly costs: number[];
}

async function batch({ before, run }: Contender, times: number, clock: Clock): Promise<number> {
  await before?.();
  const began = clock();
  await run(times);
  return clock() - began;
}

/** How many times make a batch of the wanted length. The first time of anything is longer than those that follow. */
async function calibrate(contender: Contender, wanted: number, clock: Clock): Promise<number> {
  for (let times = 1; times < MAX_TIMES; times *= 2) {
    if (
      (await batch(contender, times, clock)) >= wanted &&
      (await batch(contender, times, clock)) >= wanted &&
      (await batch(contender, times, clock)) >= wanted
    ) {
      return times;
    }
  }
  return MAX_TIMES;
}

/**
 * Times contenders in turns, A B, B A, A B, so that a machine that gets slower or busier does so for all of them.
 * @throws RangeError without a round to measure
 */
export async function compare<Name extends string>(
  contenders: Readonly<Record<Name, Contender>>,
  effort: Effort,
  clock: Clock = cpuClock,
): Promise<Comparison<Name>> {
  if (effort.minRounds < 1 || effort.rounds < effort.minRounds) {
    throw new RangeError("a comparison needs a round");
  }
  const lanes = new Map<string, Lane>();
  for (const [name, contender] of Object.entries<Contender>(contenders)) {
    const times = contender.times ?? (await calibrate(contender, effort.batchMicros, clock));
    lanes.set(name, { contender, times, costs: [] });
  }
  const inTurn = [...lanes.values()];
  let roundMicros = 0;
  const round = async (at: number): Promise<void> => {
    const taken: number[] = [];
    for (const { contender, times, costs } of at % 2 === 0 ? inTurn : inTurn.toReversed()) {
      const cost = await batch(contender, times, clock);
      costs.push(cost / times);
      taken.push(cost);
    }
    roundMicros = sum(taken);
  };
  for (let at = 0; at < effort.warmUp; at += 1) {
    await round(at);
  }
  for (const { costs } of inTurn) {
    costs.length = 0;
  }
  const affordable = roundMicros > 0 ? Math.floor(effort.budgetMicros / roundMicros) : effort.rounds;
  const rounds = Math.max(effort.minRounds, Math.min(effort.rounds, affordable));
  for (let at = 0; at < rounds; at += 1) {
    await round(at);
  }
  return new Comparison(new Map([...lanes].map(([name, { costs }]) => [name, costs])));
}
