import type { Answer } from "./answer.ts";
import type { Call } from "./call.ts";
import type { BodyDeclaration, Operation } from "./operation.ts";
import type { Query } from "./query.ts";
import type { Service } from "./service.ts";
import { readBody, readOptionalBody } from "./wire/body.ts";

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
