import { expect, test } from "vitest";
import { Services } from "./services.ts";

/** Ends once `signal` has aborted. */
function until(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}

test("a signal drains, and what drains still has what was started", async () => {
  const signal = new AbortController();
  await using services = new Services(signal.signal);
  const life = await services.start((started) => Promise.resolve(started));
  const drained = until(services.draining).then(() => expect(life.aborted).toBe(false));
  services.add("surface", drained);
  signal.abort();
  await services.done();
  await services[Symbol.asyncDispose]();
  expect(life.aborted).toBe(true);
});

test("a signal during a start ends the start", async () => {
  const signal = new AbortController();
  await using services = new Services(signal.signal);
  const starting = services.start(async (life) => {
    await until(life);
    throw new Error("ended");
  });
  signal.abort();
  await expect(starting).rejects.toThrow("ended");
});

test.each([
  ["fails", () => Promise.reject(new Error("no port")), "no port"],
  ["ends by itself", () => Promise.resolve(), "the one ended by itself"],
])("a service that %s drains the others and is told of", async (_how, one, message) => {
  await using services = new Services(new AbortController().signal);
  let drained = false;
  services.add("one", one());
  services.add(
    "other",
    until(services.draining).then(() => void (drained = true)),
  );
  await expect(services.done()).rejects.toThrow(message);
  expect(drained).toBe(true);
});
