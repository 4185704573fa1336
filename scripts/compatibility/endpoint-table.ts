import { operationsOf } from "./document.ts";
import { E2B_ENDPOINTS, type E2bEndpoint, EXAMPLES } from "./e2b-endpoints.ts";
import { type AskedFleet, messageOf } from "./fleet.ts";
import { table } from "./table.ts";

interface State {
  readonly state: string;
  readonly about: string;
}

/**
 * What the service does with each endpoint: one that its OpenAPI document has is described there, any other is asked
 * for. `plain` has no template builds. Throws when the service has an operation that no line of the table is about.
 */
export async function endpointTable(whole: AskedFleet, plain: AskedFleet): Promise<string> {
  const known = operationsOf(await whole.document());
  const own = known.filter(
    ({ method, path }) => !E2B_ENDPOINTS.some((one) => one.method === method && one.path === path),
  );
  const rows: string[][] = [];
  for (const endpoint of E2B_ENDPOINTS) {
    const { method, path, callers } = endpoint;
    const operation = known.find((one) => one.method === method && one.path === path)?.operation;
    const served = Object.keys(operation?.responses ?? {}).some((status) => status.startsWith("2"));
    const { state, about } =
      operation !== undefined && served
        ? { state: await servedState(endpoint, plain), about: operation.summary }
        : await refusal(endpoint, whole);
    rows.push([`\`${method} ${path}\``, callers === "" ? "–" : callers, state, about]);
  }
  const others = own.map(({ method, path, operation }) => [
    `\`${method} ${path}\``,
    "–",
    "served, beyond E2B",
    operation.summary,
  ]);
  return table(["endpoint", "called by", "here", "what"], [...rows, ...others]);
}

async function servedState(endpoint: E2bEndpoint, plain: AskedFleet): Promise<string> {
  const reply = await ask(endpoint, plain, EXAMPLES["templateID"] ?? "");
  return reply.status === 404 && messageOf(reply).includes("builds are off")
    ? "served with `--e2b-builds`, else 404"
    : "served";
}

async function refusal(endpoint: E2bEndpoint, fleet: AskedFleet): Promise<State> {
  const reply = await ask(endpoint, fleet, await fleet.create());
  if (reply.status < 400) {
    throw new Error(`${endpoint.method} ${endpoint.path} is not in the document, and answers ${reply.status}`);
  }
  return { state: `refused, ${reply.status}`, about: messageOf(reply).replaceAll(EXAMPLE_SEGMENTS, "{id}") };
}

const EXAMPLE = "example";
const EXAMPLE_SEGMENTS = /(?<=\/)(?:example|nothing|sb-[0-9a-f]+|[0-9a-f]{8}(?:-[0-9a-f]+){4})\b/g;

function ask({ method, path }: E2bEndpoint, fleet: AskedFleet, sandboxId: string): ReturnType<AskedFleet["send"]> {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_all, name: string) =>
    name === "sandboxID" ? sandboxId : (EXAMPLES[name] ?? EXAMPLE),
  );
  return fleet.send(method, filled, method === "GET" || method === "DELETE" ? undefined : {});
}
