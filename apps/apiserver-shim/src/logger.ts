import { pino } from "pino";
import type { Logger } from "pino";

const LEVELS = ["debug", "info", "warn", "error"];

/**
 * The process log on stderr: JSON lines, or readable ones on a terminal.
 * @throws when `level` is not one of debug, info, warn and error
 */
export async function createLogger(level = "info"): Promise<Logger> {
  if (!LEVELS.includes(level)) {
    throw new Error(`OPERATOR_LOG_LEVEL is ${JSON.stringify(level)}: set it to one of ${LEVELS.join(", ")}`);
  }
  const stream = process.stderr.isTTY
    ? (await import("pino-pretty")).default({
        destination: 2,
        messageKey: "message",
        ignore: "pid,hostname,func",
        singleLine: true,
        sync: true,
      })
    : pino.destination({ dest: 2, sync: false });
  return pino(
    {
      level,
      messageKey: "message",
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: ["token", "apiKey", "accessToken", "*.token", "*.apiKey", "*.accessToken"],
    },
    stream,
  );
}
