/** A server with the control plane in it. */
export interface Embedded extends AsyncDisposable {
  /** `E2B_API_URL` of clients. */
  readonly apiUrl: string;
}

/** Path that the control plane hangs under in every example. */
export const MOUNT = "/e2b";
