/**
 * When the next tick is due, after one that was due at `due` has ended at `now`: a whole number of intervals later, so
 * that a tick that took long moves none of the later ones. One that is overdue comes at once; those before it are
 * skipped. Mesh specification §3.
 */
export function nextDue(due: number, now: number, intervalMs: number): number {
  const behind = Math.floor((now - due) / intervalMs);
  return due + Math.max(behind, 1) * intervalMs;
}
