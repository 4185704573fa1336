import { empty, json } from "../answer.ts";
import type { Answer } from "../answer.ts";
import { checkNamespace } from "../api-keys.ts";
import { FILES_HASH } from "../builds/build-steps.ts";
import { checkTemplateName } from "../builds/template-name.ts";
import { uploadBody } from "../builds/upload-body.ts";
import { mayUpload, signUpload, UPLOAD_SECONDS } from "../builds/upload-signature.ts";
import type { UploadProof } from "../builds/upload-signature.ts";
import type { UploadKey } from "../builds/upload-key.ts";
import type { Call } from "../call.ts";
import { E2bError } from "../errors.ts";
import type { Service } from "../service.ts";
import { buildsOff } from "./refused.ts";

function uploadKey(namespace: string, template: string, hash: string): UploadKey {
  checkTemplateName(namespace, template);
  if (!FILES_HASH.test(hash)) {
    throw new E2bError("bad_request", "hash: want 64 hexadecimal digits");
  }
  return { namespace, template, hash };
}

function noStore(service: Service): E2bError {
  return service.builds === undefined
    ? buildsOff()
    : new E2bError("not_found", "this deployment has no upload store: set --e2b-build-dir");
}

/** The address of the request, as its client wrote it. */
function ownAddress(call: Call): URL {
  const { req } = call.context;
  const url = new URL(req.url);
  const forwarded = req.header("x-forwarded-proto")?.split(",")[0]?.trim().toLowerCase();
  if (forwarded === "https") {
    url.protocol = "https:";
  }
  return url;
}

/** `GET /templates/{templateID}/files/{hash}`: whether the files are there, and where to send them. */
export async function uploadLink(service: Service, call: Call, asked: string, hash: string): Promise<Answer> {
  const { uploads, settings } = service;
  if (uploads === undefined) {
    throw noStore(service);
  }
  const key = uploadKey(call.namespace, asked, hash);
  const present = await uploads.present(key, { signal: call.signal });
  if (present) {
    return json(201, { present });
  }
  if (uploads.kind === "s3") {
    return json(201, { present, url: await uploads.presign(key, UPLOAD_SECONDS) });
  }
  const expires = Math.floor(settings.now() / 1000) + UPLOAD_SECONDS;
  const url = ownAddress(call);
  url.search = signUpload(settings.envdSecret ?? "", key, expires).toString();
  return json(201, { present, url: url.href });
}

/** `PUT` of the address that {@link uploadLink} gave out. It carries no key: its query is signed. */
export async function receiveUpload(
  service: Service,
  call: Call,
  asked: string,
  hash: string,
  proof: UploadProof,
): Promise<Answer> {
  const { uploads, settings } = service;
  if (uploads === undefined || uploads.kind !== "directory") {
    throw noStore(service);
  }
  const { ns: namespace } = proof;
  if (namespace === undefined) {
    throw new E2bError("unauthorized", "ns: the address of an upload names a namespace");
  }
  try {
    checkNamespace(namespace, "ns");
  } catch {
    throw new E2bError("bad_request", "ns: not a namespace");
  }
  const key = uploadKey(namespace, asked, hash);
  if (!mayUpload(settings.envdSecret ?? "", key, proof, settings.now() / 1000)) {
    throw new E2bError("unauthorized", "the upload address has expired, or its signature is wrong");
  }
  await uploads.receive(key, uploadBody(call, uploads.maxBytes));
  return empty(200);
}
