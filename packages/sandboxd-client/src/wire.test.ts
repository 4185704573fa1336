import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  checkpointClaimRequestSchema,
  claimRequestSchema,
  forkRequestSchema,
  indexReplySchema,
  infoReplySchema,
  labelsRequestSchema,
  parseWireTime,
  poolsRequestSchema,
  readIndex,
  readInfo,
  readSandboxRow,
  renewRequestSchema,
  sandboxRowSchema,
  WireShapeError,
} from "./wire.ts";

const key = { template: "t", net: "none", size: "small" };

describe("wire times", () => {
  it.each([
    ["2026-09-28T01:02:03Z", "2026-09-28T01:02:03.000Z"],
    ["2026-09-28T01:02:03.123456789+02:00", "2026-09-27T23:02:03.123Z"],
    ["0001-01-01T00:00:00Z", undefined],
    ["0001-01-01T08:05:43+08:05", undefined],
    ["0000-12-31T23:00:00-01:00", undefined],
    ["2026-09-28T01:02:03.999-23:59", "2026-09-29T01:01:03.999Z"],
    ["2026-13-41T01:02:03Z", undefined],
    ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.000Z"],
    ["9999-12-31T23:59:59-10:00", undefined],
    ["+275760-09-13T00:00:00Z", undefined],
    ["-271821-04-20T00:00:00Z", undefined],
    ["99999999-01-01T00:00:00Z", undefined],
    ["tomorrow at half past nine", undefined],
    ["", undefined],
    [undefined, undefined],
    [null, undefined],
    [1_790_000_000, undefined],
  ])("reads %j as %j", (text, expected) => {
    expect(parseWireTime(text)?.toISOString()).toBe(expected);
  });
});

describe("the index reader", () => {
  it("reads null, absent and empty lists alike", () => {
    for (const reply of [{ sandboxes: [] }, { sandboxes: null }, {}]) {
      expect(readIndex(reply)).toEqual([]);
      expect(indexReplySchema.parse(reply).sandboxes).toEqual([]);
    }
  });

  it.each([[null], [[]], ["x"], [7], [{ sandboxes: {} }], [{ sandboxes: "x" }]])("refuses %j as a whole", (reply) => {
    expect(() => readIndex(reply)).toThrow(WireShapeError);
  });

  it("leaves out rows without an id and keeps the others", () => {
    const rows = readIndex({ sandboxes: [null, 1, "x", [], {}, { id: "" }, { id: 7 }, { id: "sb_1" }] });
    expect(rows.map((row) => row.id)).toEqual(["sb_1"]);
  });

  it.each([[-1], [0], [1.5], [2 ** 53], [Infinity], ["4"], [null], [true]])("reads the size %j as absent", (value) => {
    const row = readSandboxRow({ id: "sb_1", cpu_count: value, mem_total_bytes: value, restarts: value });
    expect([row?.cpu_count, row?.mem_total_bytes, row?.restarts]).toEqual([undefined, undefined, undefined]);
  });

  it("reads a zero deadline and empty texts as absent", () => {
    const row = readSandboxRow({ id: "sb_1", deadline: "0001-01-01T00:00:00Z", claim_ref: "", metadata: {} });
    expect(row).toMatchObject({ id: "sb_1" });
    expect([row?.deadline, row?.claim_ref, row?.metadata]).toEqual([undefined, undefined, undefined]);
  });

  it("agrees with the schema on every row that has an id", () => {
    const anyMember = fc.oneof(fc.jsonValue(), fc.constantFrom(null, "", -1, 2 ** 53, "0001-01-01T00:00:00Z"));
    const members = fc.record(
      {
        key: fc.oneof(anyMember, fc.record({ template: fc.string(), net: anyMember, size: anyMember })),
        tenant: anyMember,
        deadline: fc.oneof(anyMember, fc.constant("2026-09-28T01:02:03Z")),
        claimed_at: anyMember,
        hibernated: anyMember,
        archived: anyMember,
        from_checkpoint: anyMember,
        claim_ref: anyMember,
        on_expire: anyMember,
        metadata: fc.oneof(anyMember, fc.dictionary(fc.string(), fc.string())),
        cpu_count: anyMember,
        mem_total_bytes: anyMember,
        restarts: anyMember,
        restarted_at: anyMember,
        failed: anyMember,
        token: anyMember,
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), members, (id, rest) => {
        const wire: unknown = JSON.parse(JSON.stringify({ id, ...rest }));
        expect(readSandboxRow(wire)).toEqual(sandboxRowSchema.parse(wire));
      }),
    );
  });

  it("never throws on a row, whatever it holds", () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), (rows) => {
        expect(readIndex({ sandboxes: rows }).length).toBeLessThanOrEqual(rows.length);
      }),
    );
  });
});

describe("the info reader", () => {
  it("reads null, absent and empty lists alike", () => {
    const empty = { pools: [], templates: [], peers: [], claimed: 0, hibernated: 0, archived: 0 };
    for (const reply of [{}, { pools: null, templates: null, peers: null }, empty]) {
      expect(readInfo(reply)).toEqual(empty);
      expect(infoReplySchema.parse(reply)).toEqual(empty);
    }
  });

  it.each([[-1], [1.5], [2 ** 53], [Infinity], ["4"], [null], [undefined]])("reads the count %j as 0", (value) => {
    expect(readInfo({ claimed: value, pools: [{ key, warm: value, target: value }] })).toMatchObject({
      claimed: 0,
      pools: [{ warm: 0, target: 0 }],
    });
  });

  it("leaves out pools and templates without a key, and peers that are no text", () => {
    const info = readInfo({
      pools: [null, {}, { key: null }, { key: { net: "none" } }, { key: { template: "t" }, warm: 2, golden: true }],
      templates: [7, { key: {} }, { key, content_digest: "sha256:1", created_at: "0001-01-01T00:00:00Z" }],
      peers: ["a:1", "", null, 3, "b:2"],
    });
    expect(info.pools).toEqual([{ key, warm: 2, refilling: 0, target: 0, golden: true }]);
    expect(info.templates).toMatchObject([{ key, content_digest: "sha256:1" }]);
    expect(info.templates[0]?.created_at).toBeUndefined();
    expect(info.peers).toEqual(["a:1", "b:2"]);
  });

  it("agrees with the schema on well-formed replies", () => {
    const name = fc.string({ minLength: 1 });
    const poolKey = fc.record({ template: fc.string(), net: name, size: name });
    const reply = fc.record(
      {
        pools: fc.array(fc.record({ key: poolKey, warm: fc.nat(), refilling: fc.nat(), target: fc.nat() })),
        templates: fc.array(fc.record({ key: poolKey, content_digest: name, cpu_count: fc.integer() })),
        claimed: fc.integer(),
        draining: fc.boolean(),
        advertise_addr: fc.string(),
        peers: fc.array(name),
        at_capacity: fc.boolean(),
        at_capacity_reason: fc.string(),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(reply, (wire) => {
        expect(readInfo(wire)).toEqual(infoReplySchema.parse(wire));
      }),
    );
  });

  it.each([[null], [[]], ["x"], [{ pools: {} }], [{ peers: "a:1" }]])("refuses %j as a whole", (reply) => {
    expect(() => readInfo(reply)).toThrow(WireShapeError);
  });
});

describe("request schemas", () => {
  it("read a minimal claim, ignore unknown members and read null as absent", () => {
    expect(claimRequestSchema.parse({ template: "t", nope: 1, net: null, env: null, ttl_seconds: -5 })).toEqual({
      template: "t",
      ttl_seconds: -5,
    });
    expect(claimRequestSchema.parse({})).toEqual({ template: "" });
  });

  it.each([
    [{ template: 1 }],
    [{ template: "t", ttl_seconds: 1.5 }],
    [{ template: "t", ttl_seconds: "5" }],
    [{ template: "t", metadata: { a: 1 } }],
    [{ template: "t", no_redirect: "yes" }],
    [{ template: "t", env: { A: { value: "x", nope: 1 } } }],
    [{ template: "t", env: { A: { value: "x", guest: null } } }],
    [[]],
    [null],
  ])("refuse the claim %j", (body) => {
    expect(claimRequestSchema.safeParse(body).success).toBe(false);
  });

  it("refuse unknown members only where nodes do", () => {
    expect(poolsRequestSchema.safeParse({ pools: [], nope: 1 }).success).toBe(false);
    expect(poolsRequestSchema.safeParse({ pools: [{ template: "t", warm: 1, egress: {} }] }).success).toBe(false);
    expect(labelsRequestSchema.safeParse({ labels: {}, nope: 1 }).success).toBe(false);
    expect(renewRequestSchema.parse({ ttl_seconds: 5, nope: 1 })).toEqual({ ttl_seconds: 5 });
    expect(checkpointClaimRequestSchema.parse({ nope: 1 })).toEqual({});
    expect(forkRequestSchema.parse({ nope: 1 })).toEqual({ count: 0 });
  });

  it("read an empty pool change as the removal of all pools, and null labels as none", () => {
    expect(poolsRequestSchema.parse({})).toEqual({ pools: [] });
    expect(poolsRequestSchema.parse({ pools: [{ template: "t" }] }).pools).toEqual([{ template: "t", warm: 0 }]);
    expect(labelsRequestSchema.parse({ labels: null })).toEqual({ labels: {} });
  });
});
