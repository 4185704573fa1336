import { startDevNode, type DevNodeOptions } from "../index.ts";

// A node in a process of its own, for tests that kill it or run it as another user. Options are JSON in the first
// argument; what the test wants to know comes back as one line of JSON.

const options = JSON.parse(process.argv[2] ?? "{}") as DevNodeOptions;
const node = await startDevNode(options);
await node.warmed();
process.stdout.write(
  `${JSON.stringify({ address: node.address, isolation: node.isolation, freezer: node.freezer, separateUsers: node.separateUsers })}\n`,
);
process.once("SIGTERM", () => {
  void node.close();
});
