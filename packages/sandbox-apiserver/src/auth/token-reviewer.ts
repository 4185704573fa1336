import { createHmac, randomBytes } from "node:crypto";
import type { KubeClient, Timing } from "@org/kubeinventory/client";
import type { Logger } from "@org/scale";
import { internalError } from "../api-status.ts";
import type { ApiUser } from "../security.ts";
import { record, statusOf, strings } from "./foreign.ts";
import { ReviewCaller } from "./review-caller.ts";
import { VerdictCache } from "./verdict-cache.ts";

/** Options of {@link TokenReviewer}. */
export interface TokenReviewerOptions {
  readonly client: Pick<KubeClient, "request">;
  /** Whom a token must be for. @default the API server's own */
  readonly audiences?: readonly string[] | undefined;
  readonly ttlMs: number;
  readonly logger?: Logger | undefined;
  readonly timing: Timing;
}

/** What came of a token. */
type Verdict = { readonly user: ApiUser | undefined };

const MAX_KEPT = 4096;

/** Asks the cluster whose a bearer token is. Tokens are kept as keyed hashes only, under a key of this process. */
export class TokenReviewer {
  readonly #audiences: readonly string[];
  readonly #caller: ReviewCaller;
  readonly #verdicts: VerdictCache<Verdict>;
  readonly #key = randomBytes(32);

  constructor({ client, audiences = [], ttlMs, logger, timing }: TokenReviewerOptions) {
    this.#audiences = audiences;
    this.#verdicts = new VerdictCache({ max: MAX_KEPT, ttlMs: () => ttlMs, timing });
    const path = "/apis/authentication.k8s.io/v1/tokenreviews";
    this.#caller = new ReviewCaller({ client, name: "tokenreviews", path, logger, timing });
  }

  /**
   * Whose a token is; `undefined` when it is nobody's.
   * @throws ApiStatusError when the cluster does not say; the signal's reason
   */
  async userOf(token: string, signal?: AbortSignal): Promise<ApiUser | undefined> {
    const hash = createHmac("sha256", this.#key).update(token).digest("base64");
    const { user } = await this.#verdicts.get(hash, () => this.#review(token), signal);
    return user;
  }

  async #review(token: string): Promise<Verdict> {
    const audiences = this.#audiences;
    const reply = await this.#caller.review({
      kind: "TokenReview",
      apiVersion: "authentication.k8s.io/v1",
      metadata: {},
      spec: { token, ...(audiences.length > 0 && { audiences }) },
    });
    const status = statusOf(reply);
    if (status["authenticated"] !== true) {
      return { user: undefined };
    }
    const granted = strings(status["audiences"]);
    if (audiences.length > 0 && !granted.some((one) => audiences.includes(one))) {
      return { user: undefined };
    }
    return { user: userFrom(record(status["user"])) };
  }
}

function userFrom(fields: Readonly<Record<string, unknown>>): ApiUser {
  const { username, uid } = fields;
  if (typeof username !== "string" || username === "") {
    throw internalError("the cluster's answer names no user");
  }
  const extra = Object.entries(record(fields["extra"])).map(([key, values]) => [key, strings(values)] as const);
  return {
    name: username,
    ...(typeof uid === "string" && uid !== "" && { uid }),
    groups: strings(fields["groups"]),
    ...(extra.length > 0 && { extra: Object.fromEntries(extra) }),
  };
}
