/** One endpoint of the E2B API. */
export interface E2bEndpoint {
  readonly method: string;
  /** With `{name}` for a variable segment. */
  readonly path: string;
  /** What calls it; empty for an endpoint that no client under test calls. */
  readonly callers: string;
}

const HASH = "0".repeat(64);

/** A value for each variable segment, for requests that only ask whether a path is served. */
export const EXAMPLES: Readonly<Record<string, string>> = {
  hash: HASH,
  templateID: "nothing",
  buildID: "00000000-0000-4000-8000-000000000000",
};

function endpoints(callers: string, ...lines: readonly string[]): E2bEndpoint[] {
  return lines.map((line) => {
    const [method = "", path = ""] = line.split(" ");
    return { method, path, callers };
  });
}

/** Every endpoint of the E2B API, with those that this service refuses. */
export const E2B_ENDPOINTS: readonly E2bEndpoint[] = [
  ...endpoints("`Sandbox.create` before 2.51, `sandbox create`", "POST /sandboxes"),
  ...endpoints("`Sandbox.create`", "POST /v2/sandboxes"),
  ...endpoints("`Sandbox.list`, `sandbox list`", "GET /v2/sandboxes"),
  ...endpoints("", "GET /sandboxes"),
  ...endpoints("`getInfo`, `sandbox info`", "GET /sandboxes/{sandboxID}"),
  ...endpoints("`kill`, `sandbox kill`", "DELETE /sandboxes/{sandboxID}"),
  ...endpoints("`setTimeout`", "POST /sandboxes/{sandboxID}/timeout"),
  ...endpoints("", "POST /sandboxes/{sandboxID}/refreshes"),
  ...endpoints("`pause`, `sandbox pause`", "POST /sandboxes/{sandboxID}/pause"),
  ...endpoints("`connect` before 2.51, `sandbox connect`", "POST /sandboxes/{sandboxID}/connect"),
  ...endpoints("`connect`", "POST /v2/sandboxes/{sandboxID}/connect"),
  ...endpoints("Python's generated client", "POST /sandboxes/{sandboxID}/resume"),
  ...endpoints("`fork`", "POST /sandboxes/{sandboxID}/fork"),
  ...endpoints("`updateNetwork`", "PUT /sandboxes/{sandboxID}/network"),
  ...endpoints("`getMetrics`, `sandbox metrics`", "GET /sandboxes/{sandboxID}/metrics"),
  ...endpoints("", "GET /sandboxes/metrics"),
  ...endpoints("`sandbox logs`", "GET /sandboxes/{sandboxID}/logs"),
  ...endpoints("", "GET /v2/sandboxes/{sandboxID}/logs"),
  ...endpoints("`createSnapshot`, `sandbox snapshot create`", "POST /sandboxes/{sandboxID}/snapshots"),
  ...endpoints("`listSnapshots`, `sandbox snapshot list`", "GET /snapshots"),
  ...endpoints("`deleteSnapshot`, `template delete`", "DELETE /templates/{templateID}"),
  ...endpoints("`template list`", "GET /templates"),
  ...endpoints("", "GET /v2/templates", "GET /templates/{templateID}", "PATCH /templates/{templateID}"),
  ...endpoints("`template publish`", "PATCH /v2/templates/{templateID}"),
  ...endpoints("`Template.exists`", "GET /templates/aliases/{alias}"),
  ...endpoints("`Template.assignTags`", "POST /templates/tags"),
  ...endpoints("`Template.removeTags`", "DELETE /templates/tags"),
  ...endpoints("`Template.getTags`", "GET /templates/{templateID}/tags"),
  ...endpoints("`Template.build`, `template create`", "POST /v3/templates", "GET /templates/{templateID}/files/{hash}"),
  ...endpoints("the address that the one before answers", "PUT /templates/{templateID}/files/{hash}"),
  ...endpoints(
    "`Template.build`, `template create`",
    "POST /v2/templates/{templateID}/builds/{buildID}",
    "GET /templates/{templateID}/builds/{buildID}/status",
  ),
  ...endpoints("", "GET /templates/{templateID}/builds/{buildID}/logs"),
  ...endpoints(
    "clients before `/v3/templates`",
    "POST /templates",
    "POST /v2/templates",
    "POST /templates/{templateID}",
    "POST /templates/{templateID}/builds/{buildID}",
  ),
  ...endpoints("`Volume`", "GET /volumes", "POST /volumes", "GET /volumes/{volumeID}", "DELETE /volumes/{volumeID}"),
  ...endpoints(
    "`Volume`",
    "GET /volumecontent/{volumeID}/dir",
    "POST /volumecontent/{volumeID}/dir",
    "GET /volumecontent/{volumeID}/file",
    "PUT /volumecontent/{volumeID}/file",
    "GET /volumecontent/{volumeID}/path",
    "PATCH /volumecontent/{volumeID}/path",
    "DELETE /volumecontent/{volumeID}/path",
  ),
  ...endpoints(
    "`Secret`",
    "GET /secrets",
    "POST /secrets",
    "GET /secrets/{secretID}",
    "POST /secrets/{secretID}",
    "DELETE /secrets/{secretID}",
  ),
  ...endpoints("`auth login`, `auth configure`", "GET /teams"),
  ...endpoints("", "GET /teams/{teamID}/metrics", "GET /teams/{teamID}/metrics/max"),
  ...endpoints("", "GET /nodes", "GET /nodes/{nodeID}", "POST /nodes/{nodeID}"),
  ...endpoints("", "POST /admin/teams/{teamID}/sandboxes/kill", "POST /admin/teams/{teamID}/builds/cancel"),
  ...endpoints("", "POST /access-tokens", "DELETE /access-tokens/{accessTokenID}"),
  ...endpoints("", "GET /api-keys", "POST /api-keys", "PATCH /api-keys/{apiKeyID}", "DELETE /api-keys/{apiKeyID}"),
  ...endpoints("probes", "GET /health"),
];
