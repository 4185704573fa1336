import { Agent, request } from "node:http";

import { Refusal } from "./errors.ts";

/** Longest wait for the guest's daemon. */
const LIMIT_MS = 2000;
const MAX_BYTES = 4 * 1024 * 1024;

/** Asks the guest's daemon for the variables of the sandbox, with the token of whoever asks us. */
export interface GuestVariables {
  /** @throws Refusal `unauthorized` when the daemon refuses the token */
  read(token: string | undefined): Promise<Readonly<Record<string, string>>>;
  close(): void;
}

/** Makes it for a daemon on this port of the loopback interface. One that does not answer has no variables. */
export function createGuestVariables(port: number): GuestVariables {
  const agent = new Agent({ keepAlive: true, maxFreeSockets: 2 });
  const get = (token: string | undefined): Promise<{ status: number; text: string }> =>
    new Promise((resolve, reject) => {
      const asked = request(
        {
          agent,
          host: "127.0.0.1",
          port,
          path: "/envs",
          headers: token === undefined ? {} : { "x-access-token": token },
          signal: AbortSignal.timeout(LIMIT_MS),
        },
        (answer) => {
          let text = "";
          answer.setEncoding("utf8");
          answer.on("data", (part: string) => {
            text += part;
            if (text.length > MAX_BYTES) asked.destroy(new Error("the answer is too long"));
          });
          answer.on("error", reject);
          answer.on("end", () => resolve({ status: answer.statusCode ?? 0, text }));
        },
      );
      asked.on("error", reject);
      asked.end();
    });
  return {
    read: async (token) => {
      const answer = await get(token).catch(() => undefined);
      if (answer?.status === 401 || answer?.status === 403) {
        throw new Refusal("unauthorized", "running code needs the access token of the sandbox");
      }
      return answer?.status === 200 ? textsOf(answer.text) : {};
    },
    close: () => agent.destroy(),
  };
}

function textsOf(text: string): Record<string, string> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return {};
  }
  if (typeof value !== "object" || value === null) return {};
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
  );
}
