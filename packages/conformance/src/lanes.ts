/** A part of a run that has its own service, nodes and ports, so that it can run beside others. */
export interface Lane {
  readonly name: string;
  readonly run: () => Promise<void>;
}

/**
 * How many lanes run at once. Most rows wait (for a poll, for the end of a lease, for a process), so that four of them
 * keep two processors busy; more would make rows that judge times fail.
 */
const AT_ONCE = 4;

/** Lanes that wait most of their time: begun late, they would be waited for alone. */
const FIRST: readonly string[] = ["mesh"];

/**
 * Runs lanes side by side, `atOnce` at a time, in their order but for those that take long by waiting. Throws the first error of a lane that broke off, once all
 * others have ended.
 */
export async function runLanes(lanes: readonly Lane[], atOnce: number = AT_ONCE): Promise<void> {
  const early = (lane: Lane): boolean => FIRST.includes(lane.name);
  const waiting = [...lanes.filter(early), ...lanes.filter((lane) => !early(lane))].values();
  const broken: Error[] = [];
  await Promise.all(
    Array.from({ length: Math.min(atOnce, lanes.length) }, async () => {
      for (const lane of waiting) {
        try {
          await lane.run();
        } catch (cause) {
          const why = cause instanceof Error ? cause.message : String(cause);
          broken.push(new Error(`${lane.name}: ${why}`, { cause }));
        }
      }
    }),
  );
  const [first] = broken;
  if (first !== undefined) {
    throw first;
  }
}
