import { ScaleError } from "@org/scale";

interface Waiter {
  readonly alone: boolean;
  readonly enter: () => void;
}

interface Gate {
  /** How many are inside; -1 for one that is alone. */
  inside: number;
  readonly queue: Waiter[];
}

/**
 * Lets those in at the same time that may change one sandbox together, and those alone that may not, in the order in
 * which they come. What was decided inside holds until the answer is made.
 */
export class SandboxGate {
  readonly #gates = new Map<string, Gate>();

  /** How many sandboxes somebody is busy with. */
  get size(): number {
    return this.#gates.size;
  }

  /** Runs with others that are together, never with one that is alone. Rejects with `aborted` when left while waiting. */
  together<T>(id: string, signal: AbortSignal, run: () => Promise<T>): Promise<T> {
    return this.#run(id, false, signal, run);
  }

  /** Runs while nobody else does. Rejects with `aborted` when left while waiting. */
  alone<T>(id: string, signal: AbortSignal, run: () => Promise<T>): Promise<T> {
    return this.#run(id, true, signal, run);
  }

  async #run<T>(id: string, alone: boolean, signal: AbortSignal, run: () => Promise<T>): Promise<T> {
    let gate = this.#gates.get(id);
    if (gate === undefined) {
      gate = { inside: 0, queue: [] };
      this.#gates.set(id, gate);
    }
    if (gate.queue.length > 0 || !fits(gate, alone)) {
      await waitFor(gate, alone, signal);
    } else {
      gate.inside = alone ? -1 : gate.inside + 1;
    }
    try {
      return await run();
    } finally {
      gate.inside = alone ? 0 : gate.inside - 1;
      letIn(gate);
      if (gate.inside === 0 && gate.queue.length === 0) {
        this.#gates.delete(id);
      }
    }
  }
}

function fits(gate: Gate, alone: boolean): boolean {
  return alone ? gate.inside === 0 : gate.inside >= 0;
}

function letIn(gate: Gate): void {
  for (let next = gate.queue[0]; next !== undefined && fits(gate, next.alone); next = gate.queue[0]) {
    gate.queue.shift();
    gate.inside = next.alone ? -1 : gate.inside + 1;
    next.enter();
  }
}

function waitFor(gate: Gate, alone: boolean, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const leave = (): void => {
      gate.queue.splice(gate.queue.indexOf(waiter), 1);
      reject(new ScaleError("aborted", "the client closed the connection while it waited for another request"));
      letIn(gate);
    };
    const waiter: Waiter = {
      alone,
      enter: () => {
        signal.removeEventListener("abort", leave);
        resolve();
      },
    };
    if (signal.aborted) {
      reject(new ScaleError("aborted", "the client closed the connection"));
      return;
    }
    gate.queue.push(waiter);
    signal.addEventListener("abort", leave, { once: true });
  });
}
