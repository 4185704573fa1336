/** Group of the API. */
export const GROUP = "agents.x-k8s.io";

/** The only version. */
export const VERSION = "v1beta1";

/** Group and version as objects carry them. */
export const GROUP_VERSION = "agents.x-k8s.io/v1beta1";

/** The resource, in its plural form. */
export const RESOURCE = "sandboxes";

/** The resource together with its group, as messages name it. */
export const QUALIFIED_RESOURCE = "sandboxes.agents.x-k8s.io";

/** Kind of the objects. */
export const KIND = "Sandbox";
