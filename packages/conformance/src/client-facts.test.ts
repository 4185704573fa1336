import { expect, it } from "vitest";

import { CLIENTS, clientFacts, installedModuleVersion } from "./client-facts.ts";

it("npm has installed the versions that the table says", async () => {
  const installed = CLIENTS.filter((client) => client.module !== undefined);
  expect(installed.length).toBeGreaterThan(3);
  for (const { module = "", version } of installed) {
    expect(await installedModuleVersion(module), module).toBe(version);
  }
});

it("a client is found by its id, and no other name is", () => {
  expect(clientFacts("py-2.51-async").version).toBe("2.51.0");
  expect(() => clientFacts("ruby")).toThrow("unknown client ruby: want js-2.51");
});
