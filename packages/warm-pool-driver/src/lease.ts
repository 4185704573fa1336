import { KubeError, type KubeClient, type KubeObject } from "@org/kubeinventory/client";

/** What a Lease says of who leads. Kube specification §5. */
export interface LeaseSpec {
  /** Empty when nobody holds it. */
  readonly holderIdentity: string;
  readonly leaseDurationSeconds: number;
  /** When the holder began, RFC 3339 with six decimals, as it was read. */
  readonly acquireTime: string | undefined;
  readonly renewTime: string | undefined;
  /** How often the holder changed. */
  readonly leaseTransitions: number;
}

/** A Lease as it was read; an update is refused when somebody else was faster. */
export interface LeaseReading {
  readonly object: KubeObject;
  readonly spec: LeaseSpec;
}

/** Which Lease is meant. */
export interface LeaseName {
  readonly namespace: string;
  readonly name: string;
}

/** The calls on one Lease. */
export class LeaseCalls {
  readonly #client: Pick<KubeClient, "request">;
  readonly #lease: LeaseName;
  readonly #path: string;

  constructor(client: Pick<KubeClient, "request">, lease: LeaseName) {
    this.#client = client;
    this.#lease = lease;
    this.#path = `/apis/coordination.k8s.io/v1/namespaces/${encodeURIComponent(lease.namespace)}/leases`;
  }

  /**
   * `undefined` when there is none.
   * @throws KubeError
   */
  async read(signal: AbortSignal): Promise<LeaseReading | undefined> {
    const path = `${this.#path}/${encodeURIComponent(this.#lease.name)}`;
    try {
      return readLease(await this.#client.request({ path, signal }), path);
    } catch (error) {
      if (error instanceof KubeError && error.status === 404) {
        return undefined;
      }
      throw error;
    }
  }

  /** @throws KubeError with status 409 when somebody else made it. */
  async create(spec: LeaseSpec, signal: AbortSignal): Promise<LeaseReading> {
    const { namespace, name } = this.#lease;
    const body = { ...LEASE, metadata: { name, namespace }, spec };
    return readLease(await this.#client.request({ method: "POST", path: this.#path, body, signal }), this.#path);
  }

  /** @throws KubeError with status 409 when it changed since it was read. */
  async update({ object }: LeaseReading, spec: LeaseSpec, signal: AbortSignal): Promise<LeaseReading> {
    const path = `${this.#path}/${encodeURIComponent(this.#lease.name)}`;
    const body = { ...object, ...LEASE, spec: { ...members(object["spec"]), ...spec } };
    return readLease(await this.#client.request({ method: "PUT", path, body, signal }), path);
  }
}

const LEASE = { apiVersion: "coordination.k8s.io/v1", kind: "Lease" };

/** A time as Leases hold it: RFC 3339 with six decimals. */
export function microTime(ms: number): string {
  return new Date(ms).toISOString().replace("Z", "000Z");
}

function readLease(value: unknown, path: string): LeaseReading {
  const object = members(value);
  const metadata = members(object["metadata"]);
  if (typeof metadata["name"] !== "string" || typeof metadata["resourceVersion"] !== "string") {
    throw new KubeError("bad_reply", `${path}: the reply is no Lease`);
  }
  const spec = members(object["spec"]);
  return {
    object: object as KubeObject,
    spec: {
      holderIdentity: text(spec["holderIdentity"]) ?? "",
      leaseDurationSeconds: count(spec["leaseDurationSeconds"]),
      acquireTime: text(spec["acquireTime"]),
      renewTime: text(spec["renewTime"]),
      leaseTransitions: count(spec["leaseTransitions"]),
    },
  };
}

function members(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** A count; 0 for what is none. */
function count(value: unknown): number {
  return Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : 0;
}
