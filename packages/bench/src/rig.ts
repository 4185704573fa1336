import { requestText } from "./http-messages.ts";
import type { FrontCalls } from "./processes/front.ts";
import type { NodesCalls, NodesToServe } from "./processes/nodes.ts";
import { start } from "./remote.ts";
import type { Remote } from "./remote.ts";

/** The API key of every front. */
const KEY = "e2b_bench";

/** Nodes in one process and the API before them in another: this process only makes the load. */
export class Rig implements AsyncDisposable {
  readonly nodes: Remote<NodesCalls> = start<NodesCalls>(new URL("./processes/nodes.ts", import.meta.url));
  readonly front: Remote<FrontCalls> = startFront();

  /** Serves a mesh and the API before it. */
  async open(name: string, mesh: NodesToServe, front: Remote<FrontCalls> = this.front): Promise<World> {
    const nodes = await this.nodes.call("serve", mesh);
    const seeds = nodes.slice(0, 1);
    const opened = await front.call("open", { name, seeds, key: KEY });
    if (opened.nodes !== mesh.nodes) {
      throw new Error(`${opened.nodes} nodes of ${mesh.nodes} answered the first poll`);
    }
    return { name, address: opened.address, nodes };
  }

  /** Forgets a mesh of this rig's front, on both sides. */
  async close(world: World): Promise<void> {
    await this.front.call("close", world.name);
    await this.nodes.call("close", world.nodes);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.front[Symbol.asyncDispose]();
    await this.nodes[Symbol.asyncDispose]();
  }
}

/** Another front, for a rig with two of them. */
export function startFront(): Remote<FrontCalls> {
  return start<FrontCalls>(new URL("./processes/front.ts", import.meta.url));
}

/** A mesh with the API before it. */
export interface World {
  readonly name: string;
  /** Of the API. */
  readonly address: string;
  readonly nodes: readonly string[];
}

/** A request to the API, as text. */
export function apiRequest(method: string, path: string, body?: object): string {
  return requestText(method, path, { headers: { "x-api-key": KEY }, body });
}
