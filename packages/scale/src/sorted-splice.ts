/**
 * A sorted array with some members taken out (all that compare as equal) and others put in, in time that grows with the changes
 * and a plain copy, not with comparisons of everything. Neither array is changed; `inserted` may come in any order.
 */
export function spliceSorted<T>(
  sorted: readonly T[],
  removed: Iterable<T>,
  inserted: readonly T[],
  compare: (a: T, b: T) => number,
): readonly T[] {
  const cuts = cutsOf(sorted, removed, compare);
  if (cuts.length === 0 && inserted.length === 0) {
    return sorted;
  }
  if (inserted.length > sorted.length / 16) {
    const left = cuts.length === 0 ? sorted : without(sorted, cuts);
    return left.concat(inserted).sort(compare);
  }
  const out: T[] = [];
  let cut = 0;
  let from = 0;
  const copyUntil = (end: number): void => {
    for (; from < end; from += 1) {
      if (from === cuts[cut]) {
        cut += 1;
      } else {
        out.push(sorted[from] as T);
      }
    }
  };
  for (const item of inserted.toSorted(compare)) {
    copyUntil(lowerBound(sorted, (other) => compare(other, item) < 0));
    out.push(item);
  }
  copyUntil(sorted.length);
  return out;
}

/**
 * Cuts and insertions at places of a sorted array, to be made in it and in arrays that stand beside it. Places are those
 * before any change.
 */
export class SortedEdit {
  readonly #length: number;
  readonly #cuts: number[] = [];
  readonly #inserts: number[] = [];

  constructor(length: number) {
    this.#length = length;
  }

  /** Takes out the item at a place. Each at most once, in any order. */
  cut(at: number): void {
    this.#cuts.push(at);
  }

  /** Puts an item before a place, behind those that were put there before. Places must ascend. */
  insert(before: number): void {
    this.#inserts.push(before);
  }

  /** The edited array; `inserted` in the order of the insertions. The array is not changed. */
  apply<T>(array: readonly T[], inserted: readonly T[]): readonly T[] {
    const cuts = this.#cuts.sort((a, b) => a - b);
    const inserts = this.#inserts;
    // A copy has its size from the beginning, which an array that grows has not.
    const out: T[] = array.slice(0, this.#length - cuts.length + inserts.length);
    let end = 0;
    let cut = 0;
    let insert = 0;
    let at = 0;
    while (at < this.#length || insert < inserts.length) {
      const nextInsert = inserts[insert] ?? this.#length;
      const stop = Math.min(cuts[cut] ?? this.#length, nextInsert);
      for (; at < stop; at += 1, end += 1) {
        out[end] = array[at] as T;
      }
      if (insert < inserts.length && nextInsert === at) {
        out[end] = inserted[insert] as T;
        end += 1;
        insert += 1;
      } else if (cuts[cut] === at) {
        cut += 1;
        at += 1;
      }
    }
    return out;
  }
}

/** Index of the first item for which `before` is false; all items before it must pass. */
export function lowerBound<T>(sorted: readonly T[], before: (item: T) => boolean): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (before(sorted[middle] as T)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/** Where the removed items stand, ascending. */
function cutsOf<T>(sorted: readonly T[], removed: Iterable<T>, compare: (a: T, b: T) => number): readonly number[] {
  const cuts = new Set<number>();
  for (const item of removed) {
    let at = lowerBound(sorted, (other) => compare(other, item) < 0);
    for (; at < sorted.length && compare(sorted[at] as T, item) === 0; at += 1) {
      cuts.add(at);
    }
  }
  return [...cuts].sort((a, b) => a - b);
}

function without<T>(sorted: readonly T[], cuts: readonly number[]): readonly T[] {
  let cut = 0;
  return sorted.filter((_item, at) => {
    if (at !== cuts[cut]) {
      return true;
    }
    cut += 1;
    return false;
  });
}
