/** Which archive of which template is meant. All parts were checked: they make up paths. */
export interface UploadKey {
  readonly namespace: string;
  readonly template: string;
  /** Hex SHA-256 that the client made of the files. */
  readonly hash: string;
}

/** What both kinds of store can do. */
export interface UploadReader {
  present(key: UploadKey, options: { readonly signal?: AbortSignal | undefined }): Promise<boolean>;
  /** The content as it is read; `undefined` when it is not there. */
  open(key: UploadKey, options: { readonly signal: AbortSignal }): Promise<AsyncIterable<Uint8Array> | undefined>;
}

/** Where an archive is kept, below the store's own place. */
export function uploadPath({ namespace, template, hash }: UploadKey): string {
  return `${namespace}/${template}/${hash}.tar`;
}
