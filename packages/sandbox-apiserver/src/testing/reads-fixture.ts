import { createStore } from "@org/scale";
import type { InventoryEntry, NodeClients, SandboxStore } from "@org/scale";
import { StaticInventorySource } from "@org/scale/testing";
import { createSandboxReads } from "../reads/index.ts";
import type { ReadRequest, SandboxReads, SandboxReadsOptions } from "../reads/index.ts";

export const NEGOTIATED: ReadRequest["negotiated"] = {
  format: "json",
  as: "object",
  metaVersion: "v1",
  pretty: false,
  includeObject: "Metadata",
};

/** What a line of a watch holds. */
export interface Line {
  readonly type: string;
  readonly object: {
    readonly kind: string;
    readonly metadata: {
      readonly name?: string;
      readonly namespace?: string;
      readonly uid?: string;
      readonly resourceVersion: string;
      readonly annotations?: Readonly<Record<string, string>>;
    };
    readonly rows?: readonly unknown[];
    readonly columnDefinitions?: readonly unknown[] | null;
  };
}

/** A list as its JSON says. */
export interface ListBody {
  readonly kind: string;
  readonly metadata: {
    readonly resourceVersion: string;
    readonly continue?: string;
    readonly remainingItemCount?: number;
  };
  readonly items: readonly Line["object"][];
}

/** A fleet in memory and its reads. */
export interface ReadsFixture {
  readonly source: StaticInventorySource;
  readonly store: SandboxStore;
  readonly reads: SandboxReads;
  readonly list: (query?: string, more?: Partial<ReadRequest>) => Promise<ListBody>;
  readonly watch: (query?: string, more?: Partial<ReadRequest>) => Promise<Watcher>;
}

export function request(query = "", more: Partial<ReadRequest> = {}): ReadRequest {
  return { query: new URLSearchParams(query), negotiated: NEGOTIATED, signal: new AbortController().signal, ...more };
}

/** An entry `sb_<n>` of a name. */
export function entry(id: string, name: string, more: Partial<InventoryEntry> = {}): InventoryEntry {
  return { name, id, phase: "Running", claimRef: name, ...more };
}

export function readsOver(
  nodes: Readonly<Record<string, readonly InventoryEntry[]>>,
  options: Partial<SandboxReadsOptions> & { readonly clients?: NodeClients } = {},
): ReadsFixture {
  const source = new StaticInventorySource(Object.entries(nodes).map(([node, entries]) => ({ node, entries })));
  const { clients, ...more } = options;
  const store = createStore(source, { clients, watchPollMs: 20 });
  const reads = createSandboxReads({ store, ...more });
  return {
    source,
    store,
    reads,
    list: async (query, one) => (await (await reads.list(request(query, one))).json()) as ListBody,
    watch: async (query, one) => new Watcher(await reads.watch(request(query, one))),
  };
}

/** Reads the lines of a watch one by one. */
export class Watcher implements AsyncDisposable {
  readonly response: Response;
  readonly #reader: ReadableStreamDefaultReader<string>;
  #text = "";

  constructor(response: Response) {
    this.response = response;
    const body = response.body;
    if (body === null) {
      throw new Error("a watch has a body");
    }
    this.#reader = body.pipeThrough(new TextDecoderStream()).getReader();
  }

  /** The next line; `undefined` when the watch has ended. */
  async next(): Promise<Line | undefined> {
    for (;;) {
      const end = this.#text.indexOf("\n");
      if (end !== -1) {
        const line = JSON.parse(this.#text.slice(0, end)) as Line;
        this.#text = this.#text.slice(end + 1);
        return line;
      }
      const { done, value } = await this.#reader.read();
      if (done) {
        return undefined;
      }
      this.#text += value;
    }
  }

  /** So many lines, each as its type and `<namespace>/<name>` or the version of a bookmark. */
  async take(count: number): Promise<readonly string[]> {
    const lines: string[] = [];
    for (let at = 0; at < count; at += 1) {
      const line = await this.next();
      if (line === undefined) {
        throw new Error(`the watch ended after ${lines.join(", ")}`);
      }
      const { namespace, name } = line.object.metadata;
      lines.push(line.type === "BOOKMARK" ? "BOOKMARK" : `${line.type} ${namespace}/${name}`);
    }
    return lines;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#reader.cancel();
  }
}
