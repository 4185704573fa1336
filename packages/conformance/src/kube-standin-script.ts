import type { StoredObject } from "./kube-standin-store.ts";
import type { KubeRule, KubeUser } from "./kube-standin-reviews.ts";

/** What happens to a request instead of, or on top of, its answer. */
export type KubeFaultAction =
  | { readonly kind: "status"; readonly code: number; readonly reason: string; readonly retryAfterSeconds?: number }
  /** The connection is reset before an answer. */
  | { readonly kind: "reset" }
  /** No answer ever comes. */
  | { readonly kind: "hang" }
  /** A watch that opens, says one ERROR and ends. */
  | { readonly kind: "watch-error"; readonly code: number; readonly reason: string }
  /** A watch is written in pieces of so many bytes, whatever they cut in two. */
  | { readonly kind: "split"; readonly bytes: number }
  /** A watch that opens and then says nothing. */
  | { readonly kind: "silence" };

/** Which requests go wrong. */
export interface KubeFault {
  /** A regular expression that the path matches. */
  readonly path: string;
  readonly method?: string;
  /** Watches alone, or all but watches. */
  readonly watch?: boolean;
  /** How many requests; absent: all, until the faults are replaced. */
  readonly times?: number;
  readonly action: KubeFaultAction;
}

/** What the harness asks of the stand-in's process. */
export type KubeCommand =
  /** The API server is gone: nothing listens, every connection is reset. */
  | { readonly op: "outage" }
  | { readonly op: "back" }
  | { readonly op: "faults"; readonly faults: readonly KubeFault[] }
  /** Every older version is expired. */
  | { readonly op: "compact" }
  | { readonly op: "reset-watches" }
  | { readonly op: "bookmarks" }
  | { readonly op: "rules"; readonly rules: readonly KubeRule[] }
  | { readonly op: "users"; readonly users: Readonly<Record<string, KubeUser>> }
  /** Tokens that clients of the API server itself may have. */
  | { readonly op: "credentials"; readonly tokens: readonly string[] }
  | {
      readonly op: "put";
      readonly group: string;
      readonly plural: string;
      readonly namespace?: string;
      readonly object: StoredObject;
    }
  | {
      readonly op: "delete";
      readonly group: string;
      readonly plural: string;
      readonly namespace?: string;
      readonly name: string;
    }
  | { readonly op: "objects"; readonly group: string; readonly plural: string; readonly namespace?: string }
  /** The requests so far, which are then forgotten. */
  | { readonly op: "requests" }
  | { readonly op: "watches" };

/** A request as the stand-in got it. */
export interface KubeRequestNote {
  readonly at: number;
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** An open watch. */
export interface KubeWatchNote {
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
}

/** What the process begins with. */
export interface KubeStandinSettings {
  /** 0 takes a free one. */
  readonly port: number;
  readonly certFile: string;
  readonly keyFile: string;
  readonly users: Readonly<Record<string, KubeUser>>;
  readonly rules: readonly KubeRule[];
  readonly tokens: readonly string[];
  /** Stored at the start, such as the ConfigMap of an extension server's authentication. */
  readonly objects: readonly Extract<KubeCommand, { readonly op: "put" }>[];
}
