import type * as z from "zod";
import type { Answer } from "./answer.ts";
import type { Call } from "./call.ts";
import type { Query } from "./query.ts";
import type { Service } from "./service.ts";
import { readBody, readOptionalBody } from "./wire/body.ts";

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

/** A route, ready to be mounted. */
export interface Route extends Operation {
  readonly run: (service: Service, call: Call) => Answer | Promise<Answer>;
}

type NamesIn<P extends string> = P extends `${string}{${infer Name}}${infer Rest}` ? Name | NamesIn<Rest> : never;

/** What a request said, read as its route declares. */
export interface Input<P extends string, Q, B> {
  /** Decoded once. */
  readonly params: Readonly<Record<NamesIn<P>, string>>;
  readonly query: Q;
  readonly body: B;
}

interface Declaration<P extends string, Q, B> extends Operation {
  readonly path: P;
  readonly query?: Query<Q> | undefined;
  readonly body?: BodyDeclaration<B> | undefined;
  /** Throws when this deployment has not what the route needs, before anything is read. */
  readonly requires?: ((service: Service) => void) | undefined;
}

/** A body that must be there. */
export function jsonBody<B>(schema: z.ZodType<B>): BodyDeclaration<B> {
  return { kind: "json", schema, optional: false };
}

/** A body that may be absent. */
export function optionalJsonBody<B>(schema: z.ZodType<B>): BodyDeclaration<B> {
  return { kind: "json", schema, optional: true };
}

/**
 * Declares a route. Its request is read in this order: path, query, body. What is not as declared is a `bad_request`,
 * and the handler runs only with what is.
 */
export function route<const P extends string, Q = undefined, B = undefined>(
  { requires, ...operation }: Declaration<P, Q, B>,
  handle: (service: Service, call: Call, input: Input<P, Q, B>) => Answer | Promise<Answer>,
): Route {
  const names = [...operation.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? "");
  const { query: declared, body: bodyOf } = operation;
  const readParams = ({ context }: Call): Input<P, Q, B>["params"] => {
    const params: Record<string, string> = {};
    for (const name of names) {
      params[name] = context.req.param(name) ?? "";
    }
    return params as Input<P, Q, B>["params"];
  };
  const readQuery = ({ context }: Call): Q =>
    // A route that declares none has no use for it.
    declared === undefined ? (undefined as Q) : declared.read(new URL(context.req.url).searchParams);
  if (bodyOf?.kind !== "json") {
    return {
      ...operation,
      run(service, call) {
        requires?.(service);
        return handle(service, call, { params: readParams(call), query: readQuery(call), body: undefined as B });
      },
    };
  }
  const { schema, optional } = bodyOf;
  return {
    ...operation,
    async run(service, call) {
      requires?.(service);
      const params = readParams(call);
      const query = readQuery(call);
      const value = await (optional ? readOptionalBody(call, schema) : readBody(call, schema));
      return handle(service, call, { params, query, body: value });
    },
  };
}
