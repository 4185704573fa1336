/** Log port. pino fits. Messages are constants; values travel as fields. */
export interface DevNodeLogger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** Swallows everything. */
export const SILENT: DevNodeLogger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
