/**
 * Loaded into a program under test before anything else (`NODE_OPTIONS=--import=…`): its wall clock is off by
 * `SHIFTED_CLOCK_MS`. Only `Date` moves, as on a machine whose clock was set wrongly; timers and `performance.now()`
 * keep counting. `faketime` is not used: it has to be installed, and it shifts and slows the monotonic clock that
 * timers run by as well, which no wrongly set clock does.
 */
const shiftMs = Number(process.env["SHIFTED_CLOCK_MS"] ?? "0");
const TrueDate = Date;

const ShiftedDate = new Proxy(TrueDate, {
  construct: (target, values: unknown[], newTarget) =>
    Reflect.construct(target, values.length === 0 ? [TrueDate.now() + shiftMs] : values, newTarget) as object,
  apply: () => new ShiftedDate().toString(),
  get: (target, name) => (name === "now" ? () => TrueDate.now() + shiftMs : (Reflect.get(target, name) as unknown)),
});

globalThis.Date = ShiftedDate;
