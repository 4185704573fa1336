import type * as z from "zod";
import type { Query } from "./query.ts";

type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** Chapters of the API. */
export type Tag = "sandboxes" | "snapshots" | "templates" | "builds" | "service";

/** Statuses of error answers that a route can have beside 400, 401 and 500, which every one may have. */
export type ErrorStatus = 404 | 409 | 413 | 429 | 503;

/** Headers of answers that not all answers have. */
export type ReplyHeader = "x-next-token" | "ratelimit" | "idempotent-replayed" | "etag" | "cache-control";

/** What a successful answer is like. */
export interface ReplyDeclaration {
  readonly about: string;
  /** Of its JSON body; absent for an answer without one. Held against every answer of the tests. */
  readonly schema?: z.ZodType | undefined;
  readonly headers?: readonly ReplyHeader[] | undefined;
  /** Where the body has what other routes take in their paths, as an OpenAPI runtime expression by parameter. */
  readonly links?: Readonly<Record<string, string>> | undefined;
}

/** The body that a route reads. */
export type BodyDeclaration<B> =
  | {
      readonly kind: "json";
      readonly schema: z.ZodType<B>;
      /** Whether an empty body, `null` and `{}` mean the same. */
      readonly optional: boolean;
    }
  | { readonly kind: "bytes"; readonly about: string };

/** What a route is: enough to mount it, to read its requests, and to describe it. */
export interface Operation {
  readonly method: Method;
  /** As the API documents it, with `{name}` for a variable segment. */
  readonly path: string;
  /** The only name of the operation. */
  readonly id: string;
  readonly tag: Tag;
  readonly summary: string;
  readonly details?: string | undefined;
  readonly query?: Query<unknown> | undefined;
  /** Request headers that matter to this route alone. */
  readonly headers?: readonly HeaderDeclaration[] | undefined;
  readonly body?: BodyDeclaration<unknown> | undefined;
  readonly replies: Readonly<Record<number, ReplyDeclaration>>;
  readonly errors?: readonly ErrorStatus[] | undefined;
  /** Whether a node's own refusal is passed on with its status. @default false */
  readonly nodeRefusals?: boolean | undefined;
  /** Whether the request proves what it may do by something else than a key. @default false */
  readonly keyless?: boolean | undefined;
}

/** A header of requests, with the form that it must have. */
export interface HeaderDeclaration {
  readonly name: string;
  readonly about: string;
  readonly pattern: RegExp;
}

/** A body that must be there. */
export function jsonBody<B>(schema: z.ZodType<B>): BodyDeclaration<B> {
  return { kind: "json", schema, optional: false };
}

/** A body that may be absent. */
export function optionalJsonBody<B>(schema: z.ZodType<B>): BodyDeclaration<B> {
  return { kind: "json", schema, optional: true };
}
