import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkpointsReplySchema, promoteReplySchema, statsReplySchema, volumesReplySchema } from "../wire.ts";
import { WireShapeError } from "./readers.ts";
import { readCheckpoints, readPromotion, readStats, readVolumes } from "./reply-readers.ts";

const text = fc.string({ minLength: 1 });
const key = fc.record({ template: fc.string(), net: fc.constantFrom("none", "egress"), size: text });
const time = fc
  .date({ min: new Date("1970-01-01"), max: new Date("9999-01-01"), noInvalidDate: true })
  .map((date) => date.toISOString());
const count = fc.nat();

const checkpoints = fc.record({
  checkpoints: fc.option(
    fc.array(
      fc.record(
        { id: text, name: text, sandbox_id: text, key, tenant: text, created_at: time, policy_source: text },
        { requiredKeys: ["id", "sandbox_id", "key", "created_at"] },
      ),
    ),
  ),
});
const volumes = fc.record({
  volumes: fc.option(
    fc.array(
      fc.record(
        {
          name: text,
          default_mount: text,
          size_bytes: count,
          available: fc.boolean(),
          writable: fc.constant(true),
          nodes: fc.array(text),
        },
        { requiredKeys: ["name", "default_mount", "size_bytes", "available"] },
      ),
    ),
  ),
});
const stats = fc.record({
  id: text,
  cpu_count: count,
  mem_total_bytes: count,
  mem_used_bytes: count,
  mem_used_measured: fc.boolean(),
  hibernated: fc.boolean(),
  measured_at: time,
});
const promotion = fc.record({ key, content_digest: text });

describe("the readers of captures and of the node", () => {
  it("agree with the schemas on well-formed replies", () => {
    fc.assert(
      fc.property(checkpoints, volumes, stats, promotion, (one, two, three, four) => {
        expect(readCheckpoints(one)).toEqual(checkpointsReplySchema.parse(one).checkpoints);
        expect(readVolumes(two)).toEqual(volumesReplySchema.parse(two).volumes);
        expect(readStats(three)).toEqual(statsReplySchema.parse(three));
        expect(readPromotion(four)).toEqual(promoteReplySchema.parse(four));
      }),
    );
  });

  it("read any JSON or refuse it with a shape error, and give only what the types say", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.array(fc.jsonValue()), (value, list) => {
        for (const reader of [readCheckpoints, readVolumes, readStats, readPromotion]) {
          for (const reply of [
            value,
            { checkpoints: list, volumes: list, key: value, id: value, measured_at: value },
          ]) {
            try {
              expect(typeof reader(reply)).toBe("object");
            } catch (error) {
              expect(error).toBeInstanceOf(WireShapeError);
            }
          }
        }
        for (const record of readCheckpoints({ checkpoints: list })) {
          expect(record.id).not.toBe("");
          expect([typeof record.sandbox_id, typeof record.created_at, typeof record.key.template]).toEqual([
            "string",
            "string",
            "string",
          ]);
        }
        expect(readCheckpoints({ checkpoints: list }).length).toBeLessThanOrEqual(list.length);
      }),
    );
  });

  it("read what older nodes leave out as empty", () => {
    expect(readCheckpoints({ checkpoints: [{ id: "ck_1" }] })).toEqual([
      { id: "ck_1", sandbox_id: "", key: { template: "", net: "none", size: "small" }, created_at: "" },
    ]);
    expect(readPromotion({ key: { template: "t" } })).toEqual({
      key: { template: "t", net: "none", size: "small" },
      content_digest: "",
    });
    expect(readStats({ id: "sb_1", mem_used_bytes: -1 })).toMatchObject({ id: "sb_1", mem_used_bytes: 0 });
  });
});
