/** What the node tells the agent of a guest, as JSON in its first argument. Holds no secrets: the guest can read it. */
export interface GuestConfig {
  readonly sandboxId: string;
  readonly templateId: string;
  /** Port of the daemon; 0 lets the system choose, which a guest without its own ports needs. */
  readonly envdPort: number;
  readonly path: string;
  readonly environment: Readonly<Record<string, string>>;
  /** False where the guest shares the host's ids and ports: then the agent is reached by plain TCP. */
  readonly relay: boolean;
  /** Socket of the way out; absent without one. */
  readonly egressSocket?: string | undefined;
  /** Where guest folders really are; only without a private root. */
  readonly root?: string | undefined;
}

/** Port on which the SDKs expect the daemon. */
export const ENVD_PORT = 49_983;
/** Doors of the egress lane. */
export const HTTP_DOOR = 3128;
/** Doors of the egress lane. */
export const SOCKS_DOOR = 1080;
/** Descriptor of the relay's listener in the agent. */
export const RELAY_FD = 3;
/** Descriptor on which the agent says that it is ready. */
export const STATUS_FD = 4;
