import type { SandboxStore } from "@org/scale";
import type { Settings } from "../options.ts";
import type { TemplateWrites } from "../template-writes.ts";
import type { UploadStore } from "./upload-store.ts";

/** What of the server builds work with. */
export interface BuildService {
  readonly store: SandboxStore;
  readonly templateWrites: TemplateWrites;
  readonly settings: Settings;
  readonly newName: () => string;
  /** Releases a sandbox whatever happens; never rejects. */
  readonly abandon: (node: string, id: string) => Promise<void>;
}

/** Where and within which bounds builds take place. */
export interface BuildSite {
  readonly service: BuildService;
  readonly uploads: UploadStore | undefined;
  /** How long a build may take, in seconds. */
  readonly timeoutSeconds: number;
}
