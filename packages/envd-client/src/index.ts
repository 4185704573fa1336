/**
 * What the daemon inside a guest speaks: the schemas of its two Connect services, the one call that prepares a fresh
 * guest ({@link initGuest}) and signed file addresses.
 *
 * The services are for any Connect transport; `initGuest` needs none, since it runs over a single raw connection.
 */
export * from "../gen/filesystem_pb.js";
export * from "../gen/process_pb.js";
export { EnvdClientError, type EnvdClientErrorCode, type EnvdClientErrorDetails } from "./errors.ts";
export { type DialGuest, type InitBody, initGuest, type InitGuestOptions } from "./init-guest.ts";
export {
  type FileOperation,
  fileSignature,
  type FileSignatureInput,
  signFileUrl,
  type SignFileUrlInput,
} from "./sign-file-url.ts";
