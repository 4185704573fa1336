import { buffer } from "node:stream/consumers";
import { AwsClient } from "aws4fetch";
import { describe, expect, it } from "vitest";
import { signatureFault, startS3Server } from "../testing/s3-server.ts";
import { createS3Store } from "./s3-store.ts";
import type { S3Store, S3StoreOptions } from "./s3-store.ts";
import type { UploadKey } from "./upload-key.ts";

const SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const ID = "AKIAIOSFODNN7EXAMPLE";
const KEY: UploadKey = { namespace: "ns1", template: "team/mine", hash: "ab".repeat(32) };
const options = { signal: new AbortController().signal };

function storeAt(endpoint: string, more: Partial<S3StoreOptions> = {}): ReturnType<typeof createS3Store> {
  const credentials = { accessKeyId: ID, secretAccessKey: SECRET };
  return createS3Store({
    bucket: "uploads",
    region: "eu-central-1",
    endpoint,
    forcePathStyle: true,
    credentials,
    ...more,
  });
}

async function content(store: S3Store): Promise<Buffer> {
  const object = await store.open(KEY, options);
  if (object === undefined) {
    throw new Error("there is no such object");
  }
  return buffer(object);
}

describe("Amazon's own example of a presigned address", () => {
  const signature = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";

  it("comes out of the library", async () => {
    const client = new AwsClient({ accessKeyId: ID, secretAccessKey: SECRET, service: "s3", region: "us-east-1" });
    const { url } = await client.sign("https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Expires=86400", {
      aws: { signQuery: true, datetime: "20130524T000000Z" },
    });
    expect(new URL(url).searchParams.get("X-Amz-Signature")).toBe(signature);
  });

  it("is right for the server of these tests, which was written apart", () => {
    const credential = `${ID}%2F20130524%2Fus-east-1%2Fs3%2Faws4_request`;
    const target =
      `/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=${credential}` +
      `&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=${signature}`;
    const request = { method: "GET", target, headers: { host: "examplebucket.s3.amazonaws.com" } };
    const at = Date.parse("2013-05-24T12:00:00Z");
    expect(signatureFault(request, SECRET, at)).toBeUndefined();
    expect(signatureFault({ ...request, method: "PUT" }, SECRET, at)).toBe("wrong signature");
    expect(signatureFault(request, SECRET, Date.parse("2013-05-25T00:00:01Z"))).toBe("expired");
  });
});

describe("the S3 store", () => {
  it("lets a client without credentials upload, and finds and reads what it uploaded", async () => {
    await using server = await startS3Server(SECRET);
    const store = storeAt(server.endpoint, { prefix: "/a b/+c/" });
    expect(await store.present(KEY, options)).toBe(false);
    expect(await store.open(KEY, options)).toBeUndefined();
    const url = await store.presign(KEY, 3600);
    const reply = await fetch(url, { method: "PUT", body: "archive" });
    expect(reply.status).toBe(200);
    expect([...server.objects.keys()]).toStrictEqual([`/uploads/a b/+c/e2b-files/ns1/team/mine/${KEY.hash}.tar`]);
    expect(await store.present(KEY, options)).toBe(true);
    expect((await content(store)).toString()).toBe("archive");
    expect(server.seen.map(({ method, fault }) => [method, fault])).toStrictEqual([
      ["HEAD", undefined],
      ["GET", undefined],
      ["PUT", undefined],
      ["HEAD", undefined],
      ["GET", undefined],
    ]);
  });

  it("gives out addresses that end, and that are good for nothing else", async () => {
    await using server = await startS3Server(SECRET);
    const url = await storeAt(server.endpoint).presign(KEY, 3600);
    expect(new URL(url).searchParams.get("X-Amz-Expires")).toBe("3600");
    const put = async (address: string, method = "PUT"): Promise<number> =>
      (await fetch(address, { method, ...(method === "PUT" ? { body: "x" } : {}) })).status;
    expect(await put(url.replace("ns1", "ns2"))).toBe(403);
    expect(await put(url, "GET")).toBe(403);
    server.nowMs = () => Date.now() + 3_599_000;
    expect(await put(url)).toBe(200);
    server.nowMs = () => Date.now() + 3_602_000;
    expect(await put(url)).toBe(403);
    expect(url).not.toContain(SECRET);
  });

  it("signs the token of temporary credentials too", async () => {
    await using server = await startS3Server(SECRET);
    const credentials = { accessKeyId: ID, secretAccessKey: SECRET, sessionToken: "se/ss+ion==" };
    const store = storeAt(server.endpoint, { credentials });
    expect(await store.present(KEY, options)).toBe(false);
    const url = await store.presign(KEY, 60);
    expect(new URL(url).searchParams.get("X-Amz-Security-Token")).toBe("se/ss+ion==");
    expect((await fetch(url, { method: "PUT", body: "x" })).status).toBe(200);
  });

  it.each([403, 500, 301])("does not take a %i for an archive that is not there", async (status) => {
    await using server = await startS3Server(SECRET);
    server.status = status;
    const store = storeAt(server.endpoint);
    await expect(store.present(KEY, options)).rejects.toMatchObject({ name: "E2bError", code: "internal" });
    await expect(store.open(KEY, options)).rejects.toMatchObject({ name: "E2bError", code: "internal" });
  });

  it("says so when nobody answers", async () => {
    const store = storeAt("http://127.0.0.1:1");
    await expect(store.present(KEY, options)).rejects.toThrow("the upload store does not answer");
  });

  it.each<[Partial<S3StoreOptions>, string]>([
    [{ endpoint: undefined, forcePathStyle: false }, "https://uploads.s3.eu-central-1.amazonaws.com/e2b-files/ns1/"],
    [{ endpoint: undefined }, "https://s3.eu-central-1.amazonaws.com/uploads/e2b-files/ns1/"],
    [{ endpoint: "http://minio:9000", forcePathStyle: false }, "http://uploads.minio:9000/e2b-files/ns1/"],
    [{ endpoint: "http://minio:9000/base/", prefix: "p" }, "http://minio:9000/base/uploads/p/e2b-files/ns1/"],
  ])("puts objects where %j says", async (more, start) => {
    expect(await storeAt("http://x", more).presign(KEY, 60)).toContain(start);
  });

  it.each<[string, Partial<S3StoreOptions>]>([
    ["bucket", { bucket: "../x" }],
    ["bucket in upper case", { bucket: "Uploads" }],
    ["region", { region: "" }],
    ["endpoint", { endpoint: "ftp://x" }],
    ["endpoint with a user", { endpoint: "http://a:b@x" }],
    ["secret", { credentials: { accessKeyId: ID, secretAccessKey: "" } }],
  ])("refuses a bad %s", (_what, more) => {
    expect(() => storeAt("http://x", more)).toThrow(expect.objectContaining({ code: "invalid_options" }));
  });
});
