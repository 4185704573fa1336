/** Why a request is refused. */
export type RefusalCode = "bad_request" | "unauthorized" | "not_found" | "too_large";

const STATUS: Readonly<Record<RefusalCode, number>> = {
  bad_request: 400,
  unauthorized: 401,
  not_found: 404,
  too_large: 413,
};

/** An answer that is not a success; its message is for the caller. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly code: RefusalCode;

  constructor(code: RefusalCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }

  get status(): number {
    return STATUS[this.code];
  }
}
