import type { KubeRequest } from "@org/kubeinventory/client";

/** A client of the API server that reviews as a test says. */
export class ReviewDouble {
  readonly requests: KubeRequest[] = [];
  /** Answers a review with its status; may throw, or wait. */
  answer: (spec: Readonly<Record<string, unknown>>, request: KubeRequest) => unknown;

  constructor(answer: ReviewDouble["answer"]) {
    this.answer = answer;
  }

  async request(request: KubeRequest): Promise<unknown> {
    this.requests.push(request);
    const body = request.body as { readonly spec: Readonly<Record<string, unknown>> };
    return { ...body, status: await this.answer(body.spec, request) };
  }

  get specs(): readonly unknown[] {
    return this.requests.map(({ body }) => (body as { readonly spec: unknown }).spec);
  }
}
