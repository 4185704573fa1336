import { describe, expect, it } from "vitest";
import { createFleet } from "./testing/fleet.ts";
import type { Fleet } from "./testing/fleet.ts";

/** What this node grants at most, in seconds. */
const GRANTED = 3600;

function deadlineIn(seconds: number): Date {
  return new Date(Date.now() + seconds * 1000);
}

/** A node that grants an hour to whoever asks for more, and to whoever asks for nothing. */
function strictFleet(): Fleet {
  const fleet = createFleet();
  const grant = (seconds: number | undefined): Date =>
    deadlineIn(seconds === undefined || seconds === 0 ? GRANTED : Math.min(seconds, GRANTED));
  fleet.node.always("claim", ({ claim }) => {
    const id = `sb_${String(fleet.node.sandboxes.length).padStart(16, "0")}`;
    const deadline = grant(claim?.ttlSeconds);
    const name = claim?.claimRef ?? "";
    fleet.node.hold({
      archived: false,
      token: "t",
      entry: { name, claimRef: name, id, phase: "Running", deadline, claimedAt: new Date() },
    });
    return { kind: "delivered", id, token: "t", deadline };
  });
  fleet.node.always("renew", ({ id = "", lease }) => {
    const deadline = grant(lease?.ttlSeconds);
    const row = fleet.node.sandboxes.find(({ entry }) => entry.id === id);
    if (row !== undefined) {
      fleet.node.hold({ ...row, entry: { ...row.entry, deadline } });
    }
    return deadline;
  });
  return fleet;
}

/** How many seconds are left by the detail and by both lists, before any poll. */
async function secondsLeft(fleet: Fleet, id: string): Promise<readonly number[]> {
  const bodies = [
    (await fleet.send("GET", `/sandboxes/${id}`)).body,
    (await fleet.send("GET", "/sandboxes")).body[0],
    (await fleet.send("GET", "/v2/sandboxes")).body[0],
  ];
  return bodies.map(({ endAt }) => (Date.parse(endAt as string) - Date.now()) / 1000);
}

describe("the end that clients are told", () => {
  it.each([
    [1, 1],
    [300, 300],
    [GRANTED, GRANTED],
    [GRANTED + 1, GRANTED],
    [86_401, GRANTED],
    [2_147_483_647, GRANTED],
    [0, GRANTED],
  ])("is the one that was granted when %i s are asked for (%i s)", async (timeout, granted) => {
    for (const path of ["", "/timeout", "/connect"]) {
      const fleet = strictFleet();
      const id = await fleet.create({ timeout: path === "" ? timeout : 1 });
      if (path !== "") {
        const { status } = await fleet.send("POST", `/sandboxes/${id}${path}`, { timeout });
        expect(status).toBeLessThan(300);
      }
      // A connect never shortens a lease, and none of 0 s makes it longer.
      const expected = path === "/connect" && timeout === 0 ? 1 : granted;
      for (const left of await secondsLeft(fleet, id)) {
        expect(Math.abs(left - expected)).toBeLessThan(10);
      }
    }
  });
});
