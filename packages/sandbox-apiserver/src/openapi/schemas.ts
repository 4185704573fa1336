import { metaSchemas } from "./meta-schemas.ts";
import { sandboxSchemas } from "./sandbox-schemas.ts";
import type { Schemas } from "./schema.ts";

/** Every named schema of the document. */
export const schemas: Schemas = { ...metaSchemas, ...sandboxSchemas };
