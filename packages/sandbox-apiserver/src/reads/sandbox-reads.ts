import { isScaleError, parseSelection } from "@org/scale";
import type { Logger, Sandbox, SandboxStore, Selection } from "@org/scale";
import { objectAnswer } from "../answer.ts";
import { badRequest, notAcceptable, notFound } from "../api-status.ts";
import type { Negotiated } from "../negotiation.ts";
import { Catalog } from "./catalog.ts";
import { formOf, layoutOf } from "./form.ts";
import type { Form, Layout } from "./form.ts";
import { itemOf, TextCache } from "./item.ts";
import { listPage } from "./list-page.ts";
import type { ListPage } from "./list-page.ts";
import { readListQuery, readWatchQuery } from "./list-query.ts";
import { presented } from "./present.ts";
import { sandboxResource } from "./sandbox-resource.ts";
import type { SandboxResource } from "./sandbox-resource.ts";
import { textStream } from "./text-stream.ts";
import { Watches } from "./watches.ts";

/** A read of the API. */
export interface ReadRequest {
  /** Of the path; absent reads every namespace. */
  readonly namespace?: string | undefined;
  /** Of the path. In a list or watch it selects that name. */
  readonly name?: string | undefined;
  readonly query: URLSearchParams;
  readonly negotiated: Negotiated;
  /** Fires when the client has gone. */
  readonly signal: AbortSignal;
}

/** Options of {@link createSandboxReads}. */
export interface SandboxReadsOptions {
  readonly store: Pick<SandboxStore, "get" | "list" | "select" | "watch" | "onChange">;
  /** @default silent */
  readonly logger?: Logger | undefined;
  /** The wall clock in milliseconds. @default Date.now */
  readonly clock?: (() => number) | undefined;
  /** Uniform numbers in [0, 1), which spread the ends of watches. @default Math.random */
  readonly random?: (() => number) | undefined;
  /**
   * How much JSON of sandboxes is kept, in bytes of memory. A sandbox has about 1 KB; those beyond it are written anew
   * for each answer. @default 67108864
   */
  readonly cacheBytes?: number | undefined;
  /** How many changes of sandboxes are remembered for watches that resume, or read slowly. @default 32768 */
  readonly historyChanges?: number | undefined;
  /** How often watches get bookmarks, in milliseconds. @default 60000 */
  readonly bookmarkIntervalMs?: number | undefined;
}

/** Gets, lists and watches of sandboxes, as answers. Kube specification §2.3 to §2.7. */
export interface SandboxReads {
  /** @throws ApiStatusError 404 for an unknown sandbox; ScaleError when it cannot be told. */
  get(request: ReadRequest): Promise<Response>;
  /** @throws ApiStatusError 400 or 422 for a query that cannot be. */
  list(request: ReadRequest): Promise<Response>;
  /**
   * The answer to a watch, whose body goes on until its time-out, its signal, or {@link close}.
   * @throws ApiStatusError 400, 406 or 422 for what cannot be, 503 after {@link close}.
   */
  watch(request: ReadRequest): Promise<Response>;
  /** An object in the negotiated form: sandboxes also as Table or metadata, all others as they are. */
  present(object: object, negotiated: Negotiated, status?: number): Response;
  /** What a read says of a sandbox. Never a token. */
  object(sandbox: Sandbox): SandboxResource;
  /** The version that a list would have now. */
  version(): string;
  /** Ends all watches at once and refuses others. Other reads go on. */
  close(): void;
}

const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} };
const CACHE_BYTES = 64 * 1024 * 1024;
const HISTORY_CHANGES = 32_768;
const HISTORY_STEPS = 4096;
const BOOKMARK_MS = 60_000;

/** Lists that are no longer than this are written in one go. */
const SHORT_LIST = 64;

/** @throws TypeError for an option out of range. */
export function createSandboxReads(options: SandboxReadsOptions): SandboxReads {
  return new StoreReads(options);
}

class StoreReads implements SandboxReads {
  readonly #store: SandboxReadsOptions["store"];
  readonly #clock: () => number;
  readonly #texts: TextCache;
  readonly #catalog: Catalog;
  readonly #watches: Watches;

  constructor(options: SandboxReadsOptions) {
    const { store, logger = SILENT, clock = Date.now, random = Math.random } = options;
    const { cacheBytes = CACHE_BYTES, historyChanges = HISTORY_CHANGES, bookmarkIntervalMs = BOOKMARK_MS } = options;
    checkAmount("cacheBytes", cacheBytes);
    checkAmount("historyChanges", historyChanges);
    if (!(bookmarkIntervalMs > 0 && bookmarkIntervalMs < 2 ** 31)) {
      throw new TypeError("bookmarkIntervalMs must be a positive number of milliseconds");
    }
    this.#store = store;
    this.#clock = clock;
    this.#texts = new TextCache(cacheBytes);
    const texts = this.#texts;
    this.#catalog = new Catalog({ store, texts, clock, maxChanges: historyChanges, maxSteps: HISTORY_STEPS });
    this.#watches = new Watches({ store, catalog: this.#catalog, logger, random, bookmarkIntervalMs });
  }

  async get({ namespace = "", name = "", negotiated, signal }: ReadRequest): Promise<Response> {
    let sandbox: Sandbox;
    try {
      sandbox = await this.#store.get(namespace, name, { signal });
    } catch (error) {
      throw isScaleError(error, "not_found") ? notFound(name, error) : error;
    }
    const layout = layoutOf(negotiated);
    return answer(layout, layout.whole(this.#form(negotiated).single(itemOf(sandbox), true)));
  }

  async list(request: ReadRequest): Promise<Response> {
    const { query, negotiated, signal } = request;
    const { selection, selectors } = selectionOf(request);
    const listQuery = readListQuery(query);
    signal.throwIfAborted();
    const fleet = this.#catalog.current();
    const { namespace } = selection;
    const page: ListPage =
      selection.pinned === undefined
        ? await listPage(fleet, selection, listQuery, signal)
        : {
            items: (await this.#store.select({ namespace, ...selectors, signal })).map(itemOf),
            meta: { resourceVersion: fleet.version },
          };
    const layout = layoutOf(negotiated);
    const texts = listTexts(page, this.#form(negotiated), layout);
    return answer(layout, page.items.length <= SHORT_LIST ? [...texts].join("") : textStream(texts));
  }

  async watch(request: ReadRequest): Promise<Response> {
    const { query, negotiated, signal } = request;
    if (negotiated.format !== "json") {
      throw notAcceptable(["application/json"]);
    }
    const form = this.#form(negotiated);
    const body = this.#watches.begin({ ...selectionOf(request), form, query: readWatchQuery(query), signal });
    return new Response(body, { headers: { "content-type": "application/json" } });
  }

  present(object: object, negotiated: Negotiated, status?: number): Response {
    return objectAnswer(presented(object, negotiated, this.#clock()), negotiated, { status });
  }

  object(sandbox: Sandbox): SandboxResource {
    return sandboxResource(sandbox);
  }

  version(): string {
    return this.#catalog.current().version;
  }

  close(): void {
    this.#watches.close();
  }

  #form(negotiated: Negotiated): Form {
    return formOf(negotiated, { texts: this.#texts, clock: this.#clock });
  }
}

/** What a list or a watch is about. */
function selectionOf({ namespace = "", name = "", query }: ReadRequest): {
  readonly selection: Selection;
  readonly selectors: { readonly labelSelector: string; readonly fieldSelector: string };
} {
  const labelSelector = query.get("labelSelector") ?? "";
  const asked = query.get("fieldSelector") ?? "";
  const named = name === "" ? "" : `metadata.name=${name.replace(/[\\,=]/g, String.raw`\$&`)}`;
  const fieldSelector = [named, asked].filter((part) => part !== "").join(",");
  const selectors = { labelSelector, fieldSelector };
  try {
    return { selection: parseSelection({ namespace, ...selectors }), selectors };
  } catch (error) {
    throw isScaleError(error, "bad_request") ? badRequest(error.message, error) : error;
  }
}

function* listTexts({ items, meta }: ListPage, form: Form, layout: Layout): Generator<string, void, undefined> {
  const empty = items.length === 0;
  yield layout.head(form.list(meta), form.members, empty);
  for (const [at, item] of items.entries()) {
    yield layout.item(form.member(item), at === 0);
  }
  yield layout.tail(empty);
}

function answer(layout: Layout, body: string | ReadableStream<Uint8Array<ArrayBuffer>>): Response {
  return new Response(body, { headers: { "content-type": layout.contentType } });
}

function checkAmount(name: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new TypeError(`${name} must be a whole number from 0`);
  }
}
