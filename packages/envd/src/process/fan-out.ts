import type { ProcessNotice } from "./event-frames.ts";

/** Notices that may wait for one subscriber before the command is held up. */
const CAPACITY = 64;
/** The command goes on when every subscriber has come down to this. */
const LOW_WATER = 32;
/** Output that is kept while nobody subscribes: bytes, and the pieces they came in. */
const MAX_UNHEARD_BYTES = 256 * 1024;
const MAX_UNHEARD_NOTICES = 2048;

/** What a fan-out holds up while a subscriber is behind. */
export interface Source {
  pause(): void;
  resume(): void;
}

/** One reader of a command's output, from the moment it subscribed. */
export interface Subscription extends Disposable {
  /** The next notice; undefined after the last one, or once the signal fires. */
  next(signal: AbortSignal): ProcessNotice | undefined | Promise<ProcessNotice | undefined>;
}

/** Hands each notice to all subscribers. Without any, the newest output is kept for the next one. */
export interface FanOut {
  publish(notice: ProcessNotice): void;
  /** Begins with what nobody has heard. */
  subscribe(): Subscription;
  /** The newest output that no subscriber took. */
  unheard(): readonly ProcessNotice[];
}

interface Subscriber {
  readonly queue: ProcessNotice[];
  notify(): void;
}

/**
 * A slow subscriber holds up the source, so at most {@link CAPACITY} notices (and what one read brings) wait for each.
 * A subscriber that leaves, at any moment and in any order, no longer counts; what waited for the last one is kept.
 */
export function createFanOut(source: Source): FanOut {
  const subscribers = new Set<Subscriber>();
  let unheard: ProcessNotice[] = [];
  let unheardBytes = 0;
  let paused = false;

  /** The oldest goes first: a command that nobody follows neither stops nor fills the memory. */
  function keep(notice: ProcessNotice): void {
    if (notice.isEnd) return;
    unheard.push(notice);
    unheardBytes += notice.size;
    while (unheardBytes > MAX_UNHEARD_BYTES || unheard.length > MAX_UNHEARD_NOTICES) {
      unheardBytes -= unheard.shift()?.size ?? 0;
    }
  }

  function settle(): void {
    if (!paused) return;
    for (const { queue } of subscribers) if (queue.length > LOW_WATER) return;
    paused = false;
    source.resume();
  }

  function subscribe(): Subscription {
    const queue = unheard;
    unheard = [];
    unheardBytes = 0;
    let ended = false;
    let wake: (() => void) | undefined;
    const subscriber: Subscriber = {
      queue,
      notify: () => {
        wake?.();
        wake = undefined;
      },
    };
    subscribers.add(subscriber);

    function take(): ProcessNotice | undefined {
      const notice = queue.shift();
      if (notice?.isEnd === true) ended = true;
      if (queue.length === LOW_WATER) settle();
      return notice;
    }

    async function wait(signal: AbortSignal): Promise<ProcessNotice | undefined> {
      while (queue.length === 0 && !signal.aborted) {
        await new Promise<void>((resolve) => {
          const done = (): void => {
            signal.removeEventListener("abort", done);
            resolve();
          };
          wake = done;
          signal.addEventListener("abort", done);
        });
      }
      return signal.aborted ? undefined : take();
    }

    return {
      next(signal) {
        if (ended || signal.aborted) return undefined;
        return queue.length > 0 ? take() : wait(signal);
      },
      [Symbol.dispose]() {
        if (!subscribers.delete(subscriber)) return;
        if (subscribers.size === 0) queue.forEach(keep);
        queue.length = 0;
        settle();
      },
    };
  }

  return {
    publish(notice) {
      if (subscribers.size === 0) keep(notice);
      let full = false;
      for (const subscriber of subscribers) {
        subscriber.queue.push(notice);
        if (subscriber.queue.length >= CAPACITY) full = true;
        subscriber.notify();
      }
      if (full && !paused) {
        paused = true;
        source.pause();
      }
    },
    subscribe,
    unheard: () => unheard,
  };
}
