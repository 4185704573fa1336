import { dirname } from "node:path";
import { fileURLToPath } from "node:url";

import { kernelCommands, kernelFilesIn } from "./languages.ts";
import { createInterpreter } from "./server.ts";

// The service of a guest. It is built into one file that lies beside the kernels, and starts with the guest.

/** Where the SDKs expect it. */
const PORT = 49_999;
/** Port of the guest's daemon. */
const DAEMON_PORT = 49_983;

const interpreter = createInterpreter({
  commands: kernelCommands(kernelFilesIn(dirname(fileURLToPath(import.meta.url)))),
  cwd: process.cwd(),
  daemonPort: DAEMON_PORT,
});
interpreter.server.listen(PORT, "127.0.0.1");
