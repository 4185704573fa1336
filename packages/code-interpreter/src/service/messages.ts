/** One line of the answer to an execution. Clients pass over types they do not know. */
export type Message =
  | { readonly type: "number_of_executions"; readonly execution_count: number }
  | { readonly type: "stdout" | "stderr"; readonly text: string; readonly timestamp: number }
  | ResultMessage
  | ErrorMessage
  | { readonly type: "keepalive" }
  | { readonly type: "end_of_execution" };

/** Something to be shown, in every form that it has. */
export interface ResultMessage {
  readonly type: "result";
  readonly is_main_result: boolean;
  readonly [form: string]: unknown;
}

/** What ended a cell early. */
export interface ErrorMessage {
  readonly type: "error";
  readonly name: string;
  readonly value: string;
  readonly traceback: string;
}

/** What a kernel says. Results and errors go to the client as they are. */
export type KernelEvent = { readonly type: "ready" } | { readonly type: "done" } | ResultMessage | ErrorMessage;

/** Where the messages of a cell go. Resolves when there is room for more. */
export type Emit = (message: Message) => Promise<void>;

/** An error that is not the code's own. */
export function errorMessage(name: string, value: string): ErrorMessage {
  return { type: "error", name, value, traceback: `${name}: ${value}` };
}

/**
 * A message as a line of plain ASCII: SDKs decode each chunk of the answer by itself, and split lines at characters that
 * only look like line ends.
 */
export function lineOf(message: Message): string {
  const escaped = JSON.stringify(message).replaceAll(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return `${escaped}\n`;
}
