import { describe, expect, it } from "vitest";
import { grantedSeconds, secondsLeft as leftOf } from "./granted-lease.ts";
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

describe("grantedSeconds", () => {
  it.each([
    [-2_147_483_648, 300],
    [0, 300],
    [1, 1],
    [86_399, 86_399],
    [86_400, 86_400],
    [86_401, 86_400],
    [2_147_483_647, 86_400],
  ])("of %i is %i, as every node grants it", (asked, granted) => {
    expect(grantedSeconds(asked)).toBe(granted);
  });
});

describe("secondsLeft", () => {
  const at = (seconds: number): Date => new Date(Date.UTC(2026, 0, 1) + seconds * 1000);
  const asleep = { paused: false, archived: false, sandbox: {} } as never as Parameters<typeof leftOf>[0];

  it.each([
    ["by the node's clock where it is told", at(90), at(30), 60],
    ["by ours where it is not", at(90), undefined, 80],
    ["nothing behind the end", at(90), at(91), 0],
    ["unknown without an end", undefined, at(30), undefined],
    ["unknown for an end that is no date", new Date(Number.NaN), at(30), undefined],
  ])("is %s", (_what, deadline, answeredAt, left) => {
    expect(leftOf({ ...asleep, deadline, answeredAt }, at(10).getTime())).toBe(left);
  });
});
