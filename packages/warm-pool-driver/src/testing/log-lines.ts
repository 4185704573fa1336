import type { Logger } from "@org/scale";

/** A log whose lines can be read: level, message and fields. */
export class LogLines implements Logger {
  readonly lines: {
    readonly level: string;
    readonly message: string;
    readonly fields: Readonly<Record<string, unknown>>;
  }[] = [];

  debug(fields: object, message: string): void {
    this.#add("debug", fields, message);
  }

  info(fields: object, message: string): void {
    this.#add("info", fields, message);
  }

  warn(fields: object, message: string): void {
    this.#add("warn", fields, message);
  }

  error(fields: object, message: string): void {
    this.#add("error", fields, message);
  }

  /** The messages of a level. */
  of(level: string): readonly string[] {
    return this.lines.filter((line) => line.level === level).map(({ message }) => message);
  }

  #add(level: string, fields: object, message: string): void {
    this.lines.push({ level, message, fields: fields as Readonly<Record<string, unknown>> });
  }
}
