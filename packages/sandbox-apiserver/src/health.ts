import type { ApiHandler } from "./api-call.ts";

/** One thing that an endpoint looks at. */
export interface HealthCheck {
  readonly name: string;
  readonly passes: () => boolean;
}

/** An endpoint and what it looks at. */
export interface HealthEndpoint {
  readonly name: "healthz" | "livez" | "readyz";
  readonly checks: readonly HealthCheck[];
}

const always = (name: string): HealthCheck => ({ name, passes: () => true });

/**
 * The endpoints of liveness and readiness. Only `readyz` looks at the inventory, and at its first arrival only: an API
 * that goes away with the cluster's own troubles takes discovery down with it. Kube specification §2.2.
 */
export function healthEndpoints(parts: {
  readonly synced: () => boolean;
  readonly shuttingDown: () => boolean;
}): readonly HealthEndpoint[] {
  let everSynced = false;
  const general = [always("ping"), always("log")];
  return [
    { name: "healthz", checks: general },
    { name: "livez", checks: general },
    {
      name: "readyz",
      checks: [
        ...general,
        {
          name: "informer-sync",
          passes: () => {
            everSynced ||= parts.synced();
            return everSynced;
          },
        },
        { name: "shutdown", passes: () => !parts.shuttingDown() },
      ],
    },
  ];
}

/** Answers an endpoint: `ok`, or a line for each check when one fails or `verbose` asks for them. */
export function answerHealth({ name, checks }: HealthEndpoint): ApiHandler {
  return ({ info: { query } }) => {
    const excluded = new Set(query.getAll("exclude"));
    const lines: string[] = [];
    let failed = false;
    for (const check of checks) {
      if (excluded.delete(check.name)) {
        lines.push(`[+]${check.name} excluded: ok`);
        continue;
      }
      const passed = check.passes();
      failed ||= !passed;
      lines.push(passed ? `[+]${check.name} ok` : `[-]${check.name} failed: reason withheld`);
    }
    if (excluded.size > 0) {
      const names = [...excluded].map((one) => JSON.stringify(one.slice(0, 64))).join(", ");
      lines.push(`warn: some health checks cannot be excluded: no matches for ${names}`);
    }
    if (failed) {
      return plain([...lines, `${name} check failed`, ""].join("\n"), 500);
    }
    return query.has("verbose") ? plain([...lines, `${name} check passed`, ""].join("\n"), 200) : plain("ok", 200);
  };
}

/** Answers one check alone. */
export function answerCheck({ passes }: HealthCheck): ApiHandler {
  return () => (passes() ? plain("ok", 200) : plain("internal server error: reason withheld\n", 500));
}

function plain(body: string, status: number): Response {
  return new Response(body, {
    status,
    headers: { "content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff" },
  });
}
