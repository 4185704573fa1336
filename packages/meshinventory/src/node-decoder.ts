import type { NodeInventory, PoolCapacity, PromotedTemplate } from "@org/scale";
import { poolsFromInfo, templatesFromInfo } from "@org/scale/sandboxd";
import { readInfo } from "@org/sandboxd-client/wire";
import { NoAdvertiseAddressError } from "./errors.ts";
import { IndexDecoder } from "./index-decoder.ts";
import type { Steps } from "./turns.ts";

/** What the mesh needs of a node's info reply. */
export interface InfoView {
  /** The node's key. */
  readonly node: string;
  readonly peers: readonly string[];
  readonly pools: readonly PoolCapacity[];
  readonly templates: readonly PromotedTemplate[];
}

/** Reads one member's replies. What did not change since its last replies keeps its objects. */
export class NodeDecoder {
  readonly #index = new IndexDecoder();
  #body: Buffer | undefined;
  #info: InfoView | undefined;

  /**
   * The body is kept until the next one is read.
   * @throws NoAdvertiseAddressError, or another Error for a reply that is no info; the one before is then still kept.
   */
  *info(body: Buffer): Steps<InfoView> {
    const last = this.#info;
    if (last !== undefined && this.#body?.equals(body) === true) {
      this.#body = body;
      return last;
    }
    yield;
    const reply = readInfo(JSON.parse(body.toString("utf8")));
    if (reply.advertise_addr === undefined) {
      throw new NoAdvertiseAddressError(
        "GET /v1/info reports no advertise_addr; a mesh node must advertise a routable host",
      );
    }
    this.#info = {
      node: reply.advertise_addr,
      peers: reply.peers,
      pools: unlessSame(last?.pools, poolsFromInfo(reply)),
      templates: unlessSame(last?.templates, templatesFromInfo(reply)),
    };
    this.#body = body;
    return this.#info;
  }

  /**
   * The body is kept until the next one is read.
   * @throws Error for a reply that is no index; the one before is then still kept.
   */
  *inventory(info: InfoView, body: Buffer, asOfMs: number): Steps<NodeInventory> {
    const { node, pools, templates } = info;
    const entries = yield* this.#index.decode(body);
    return Object.freeze({ node, address: node, pools, templates, entries, asOfMs });
  }
}

/** The last list when the new one says the same: counters around it change far more often. */
function unlessSame<T>(last: readonly T[] | undefined, next: readonly T[]): readonly T[] {
  return last !== undefined && JSON.stringify(last) === JSON.stringify(next) ? last : Object.freeze(next);
}
