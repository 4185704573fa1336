/**
 * Asks `items` in order, at most `limit` at a time, for a hit. The first one wins and aborts the others; a rejection is
 * a miss. Resolves with `undefined` when nothing hit. Rejects with the signal's reason as soon as it aborts, whatever
 * the finders do.
 */
export function firstHit<I, T>(
  items: readonly I[],
  limit: number,
  find: (item: I, signal: AbortSignal) => Promise<T | undefined>,
  signal?: AbortSignal,
): Promise<T | undefined> {
  const group = new AbortController();
  return new Promise<T | undefined>((resolve, reject) => {
    let next = 0;
    let active = 0;

    const end = (settle: () => void): void => {
      if (group.signal.aborted) {
        return;
      }
      signal?.removeEventListener("abort", onAbort);
      settle();
      group.abort();
    };
    const onAbort = (): void => end(() => reject(signal?.reason as Error));
    const missed = (): void => {
      active -= 1;
      fill();
    };
    const fill = (): void => {
      while (!group.signal.aborted && active < limit && next < items.length) {
        const item = items[next] as I;
        next += 1;
        active += 1;
        // Late rejections of aborted finders end here as well.
        find(item, group.signal).then((hit) => (hit === undefined ? missed() : end(() => resolve(hit))), missed);
      }
      if (active === 0 && next >= items.length) {
        end(() => resolve(undefined));
      }
    };

    if (signal?.aborted === true) {
      onAbort();
      return;
    }
    signal?.addEventListener("abort", onAbort, { once: true });
    fill();
  });
}

/**
 * Runs one call under a deadline and a parent signal. Resolves with `undefined` at the deadline or when the parent
 * aborts, even when the call ignores its signal.
 */
export function within<T>(
  timeoutMs: number,
  parent: AbortSignal | undefined,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T | undefined> {
  if (parent?.aborted === true) {
    return Promise.resolve(undefined);
  }
  const own = new AbortController();
  return new Promise<T | undefined>((resolve, reject) => {
    const stop = (): void => {
      done();
      own.abort();
      resolve(undefined);
    };
    const timer = setTimeout(stop, timeoutMs);
    const done = (): void => {
      clearTimeout(timer);
      parent?.removeEventListener("abort", stop);
    };
    parent?.addEventListener("abort", stop, { once: true });
    call(own.signal).then(resolve, reject).finally(done);
  });
}
