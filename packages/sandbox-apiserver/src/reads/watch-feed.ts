import type { Form } from "./form.ts";
import { eventLine } from "./step-events.ts";

/** Where the body of a watch takes its pieces from. */
export interface WatchFeed {
  /** The next piece; `undefined` while there is none, empty when it has only begun to look. */
  next(): Uint8Array<ArrayBuffer> | undefined;
  /** A bookmark is due, for clients that take them. */
  bookmark(): void;
  /** Whether what it would have to tell next is forgotten. */
  readonly behind: boolean;
}

/** Annotation of the bookmark behind everything that was there when a watch began. */
const INITIAL_EVENTS_END = { annotations: { "k8s.io/initial-events-end": "true" } } as const;

/** A line that tells a version alone. */
export function bookmarkLine(form: Form, version: string, initialEnd: boolean, first: boolean): string {
  const metadata = { resourceVersion: version, creationTimestamp: null, ...(initialEnd && INITIAL_EVENTS_END) };
  return eventLine("BOOKMARK", form.bookmark(metadata, first));
}
