import { AwsClient } from "aws4fetch";
import { E2bError } from "../errors.ts";
import { uploadPath } from "./upload-key.ts";
import type { UploadKey, UploadReader } from "./upload-key.ts";

/** Who the object store knows us as. All parts but the first are secrets. */
export interface S3Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

/** Options of {@link createS3Store}. */
export interface S3StoreOptions {
  readonly bucket: string;
  readonly region: string;
  /** In front of every object's name. @default none */
  readonly prefix?: string | undefined;
  /** An `http` or `https` origin. @default that of Amazon for the region */
  readonly endpoint?: string | undefined;
  /** Name the bucket in the path rather than in the host. @default false */
  readonly forcePathStyle?: boolean | undefined;
  readonly credentials: S3Credentials;
}

/** Archives as objects `<prefix>/e2b-files/<namespace>/<template>/<hash>.tar`, which clients upload themselves. */
export interface S3Store extends UploadReader {
  readonly kind: "s3";
  /** An address that takes the archive for a while. A secret. */
  presign(key: UploadKey, seconds: number): Promise<string>;
}

const HEAD_TIMEOUT_MS = 10_000;
const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
const REGION = /^[a-z0-9-]{1,64}$/;

function baseUrl({ bucket, region, endpoint, forcePathStyle = false }: S3StoreOptions): URL {
  const origin = endpoint ?? `https://s3.${region}.amazonaws.com`;
  const url = URL.canParse(origin) ? new URL(origin) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.search !== "" || url.username !== "") {
    throw new E2bError("invalid_options", "the S3 endpoint is not an http or https address");
  }
  if (forcePathStyle) {
    url.pathname = `${url.pathname.replace(/\/$/, "")}/${bucket}`;
  } else {
    url.host = `${bucket}.${url.host}`;
  }
  return url;
}

/** Does no I/O. Throws `invalid_options`. */
export function createS3Store(options: S3StoreOptions): S3Store {
  const { bucket, region, prefix = "", credentials } = options;
  if (!BUCKET.test(bucket)) {
    throw new E2bError("invalid_options", `${JSON.stringify(bucket)} is not the name of an S3 bucket`);
  }
  if (!REGION.test(region)) {
    throw new E2bError("invalid_options", `${JSON.stringify(region)} is not an S3 region`);
  }
  if (credentials.accessKeyId === "" || credentials.secretAccessKey === "") {
    throw new E2bError("invalid_options", "the S3 upload store needs an access key and its secret");
  }
  const base = baseUrl(options);
  const folder = prefix.replace(/^\/+|\/+$/g, "");
  const { accessKeyId, secretAccessKey, sessionToken } = credentials;
  const token = sessionToken === undefined ? {} : { sessionToken };
  const client = new AwsClient({ accessKeyId, secretAccessKey, ...token, service: "s3", region, retries: 0 });

  const addressOf = (key: UploadKey): URL => {
    const parts = [...folder.split("/"), "e2b-files", ...uploadPath(key).split("/")].filter((part) => part !== "");
    const url = new URL(base);
    url.pathname = `${url.pathname.replace(/\/$/, "")}/${parts.map(encodeURIComponent).join("/")}`;
    return url;
  };

  const ask = async (method: "GET" | "HEAD", key: UploadKey, signal: AbortSignal): Promise<Response | undefined> => {
    let status: number;
    try {
      const response = await fetch(await client.sign(addressOf(key).href, { method }), { signal, redirect: "error" });
      if (response.ok) {
        return response;
      }
      await response.body?.cancel();
      status = response.status;
    } catch (error) {
      throw new E2bError("internal", "the upload store does not answer", { cause: error });
    }
    if (status === 404) {
      return undefined;
    }
    throw new E2bError("internal", `the upload store answered with ${status}`);
  };

  return {
    kind: "s3",
    async presign(key, seconds) {
      const url = addressOf(key);
      url.searchParams.set("X-Amz-Expires", String(seconds));
      const { url: signed } = await client.sign(url.href, { method: "PUT", aws: { signQuery: true } });
      return signed;
    },
    async present(key) {
      return (await ask("HEAD", key, AbortSignal.timeout(HEAD_TIMEOUT_MS))) !== undefined;
    },
    async open(key, { signal }) {
      const response = await ask("GET", key, signal);
      return response === undefined ? undefined : ((response.body ?? []) as AsyncIterable<Uint8Array>);
    },
  };
}
