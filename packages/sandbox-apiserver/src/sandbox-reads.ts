import type { Sandbox } from "@org/scale";
import type { Negotiated } from "./negotiation.ts";
import type { SandboxResource } from "./sandbox-resource.ts";

/** One read of sandboxes. */
export interface ReadRequest {
  /** Absent for every namespace. */
  readonly namespace?: string | undefined;
  /** Of one sandbox; with `watch` it stands for the field selector `metadata.name`. */
  readonly name?: string | undefined;
  readonly query: URLSearchParams;
  readonly negotiated: Negotiated;
  readonly signal: AbortSignal;
}

/** Gets, lists and watches of sandboxes. Rejections are ApiStatusErrors and ScaleErrors. */
export interface SandboxReads {
  get(request: ReadRequest): Promise<Response>;
  list(request: ReadRequest): Promise<Response>;
  watch(request: ReadRequest): Promise<Response>;
  /** The answer with this object in the form that the client wants. */
  present(object: SandboxResource, negotiated: Negotiated, status?: number): Response;
  /** The object of a sandbox. */
  object(sandbox: Sandbox): SandboxResource;
  /** Version of lists. */
  version(): string;
  /** Ends every watch. */
  close(): void;
}
