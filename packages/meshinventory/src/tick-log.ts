import type { Logger } from "@org/scale";
import { errorText } from "./errors.ts";
import type { Answer, Member } from "./membership.ts";

const func = "meshinventory.tick";

/** What one tick changed. */
export interface TickChanges {
  /** The members that were asked. */
  readonly before: ReadonlyMap<string, Member>;
  readonly answers: ReadonlyMap<string, Answer>;
  readonly joined: readonly string[];
  readonly left: readonly string[];
}

/** Tells the log of members that did not answer, and of members that came, went or changed their key. */
export function logTick(logger: Logger, { before, answers, joined, left }: TickChanges): void {
  for (const { address, fails, inventory } of before.values()) {
    const answer = answers.get(address);
    if (answer === undefined || !answer.ok) {
      const err = errorText(answer?.error);
      logger.warn({ func, addr: address, fails: fails + 1, err }, "mesh member did not answer");
    } else if (inventory !== undefined && inventory.node !== answer.inventory.node) {
      const { node } = answer.inventory;
      logger.info({ func, addr: address, from: inventory.node, node }, "mesh member changed its address");
    }
  }
  for (const addr of joined) {
    logger.info({ func, addr }, "mesh member joined");
  }
  for (const addr of left) {
    logger.info({ func, addr }, "mesh member left");
  }
}

/** Gossip that names what is no address comes again every tick, so it is told quietly. */
export function logNoAddress(logger: Logger | undefined, addr: string, error: unknown): void {
  logger?.debug({ func, addr, err: errorText(error) }, "mesh peer cannot be dialed");
}
