import { idSegment } from "./address.ts";
import type { CallOptions, Requester } from "./requester.ts";
import type { InfoReply, PoolSpec, VolumeInfo } from "./wire/node.ts";
import { readInfo } from "./wire/readers.ts";
import { readStats, readVolumes } from "./wire/reply-readers.ts";
import type { StatsReply } from "./wire/sandbox.ts";

/** Calls of an operator. */
export interface OperationCalls {
  /** Replaces the whole set of pools: what is left out retires. Resolves with the node's state afterwards. §9.3. */
  setPools(pools: readonly PoolSpec[], options?: CallOptions): Promise<InfoReply>;
  /** Refuses claims, forks and claims of checkpoints; what lives goes on. §9.4. */
  drain(options?: CallOptions): Promise<InfoReply>;
  /** Lifts a drain. §9.4. */
  undrain(options?: CallOptions): Promise<InfoReply>;
  /** `undefined` when the node does not know the id. A reply about another sandbox is refused. §6.3. */
  stats(id: string, options?: CallOptions): Promise<StatsReply | undefined>;
  /** Volumes of the catalogue. §9.7. */
  volumes(options?: CallOptions): Promise<readonly VolumeInfo[]>;
}

/** The operator's calls of one node. */
export function operationCalls(requester: Requester): OperationCalls {
  return {
    async setPools(pools, call = {}) {
      return requester.ask({ ...call, method: "PUT", path: "/v1/pools", body: { pools } }, readInfo);
    },

    async drain(call = {}) {
      return requester.ask({ ...call, method: "POST", path: "/v1/drain", expects: 200 }, readInfo);
    },

    async undrain(call = {}) {
      return requester.ask({ ...call, method: "DELETE", path: "/v1/drain", expects: 200 }, readInfo);
    },

    async stats(id, call = {}) {
      const path = `/v1/sandboxes/${idSegment(id)}/stats`;
      return requester.find({ ...call, method: "GET", path, expects: 200 }, (value) => {
        const stats = readStats(value);
        if (stats.id !== id) {
          throw new TypeError("stats of another sandbox");
        }
        return stats;
      });
    },

    async volumes(call = {}) {
      return requester.ask({ ...call, method: "GET", path: "/v1/volumes", expects: 200 }, readVolumes);
    },
  };
}
