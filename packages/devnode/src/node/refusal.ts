/** A request that gets an error answer. Node API §3: statuses matter, messages are for people. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, message: string, options: ErrorOptions & { headers?: Record<string, string> } = {}) {
    super(message, options);
    this.status = status;
    this.headers = options.headers ?? {};
  }
}
