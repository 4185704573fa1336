import type { Suite } from "./suite.ts";
import { bulkSuite } from "./suites/bulk.ts";
import { createSuite } from "./suites/create.ts";
import { firstCommandSuite } from "./suites/first-command.ts";
import { idleStreamsSuite } from "./suites/idle-streams.ts";
import { kubeSuite } from "./suites/kube.ts";
import { listSuite } from "./suites/list.ts";
import { parallelCommandsSuite } from "./suites/parallel-commands.ts";
import { pollSuite } from "./suites/poll.ts";
import { proxySuite } from "./suites/proxy.ts";
import { storeSuite } from "./suites/store.ts";
import { ticksSuite } from "./suites/ticks.ts";
import { verbsSuite } from "./suites/verbs.ts";
import { watchSuite } from "./suites/watch.ts";

/** All suites in the order they run in. */
export const SUITES: readonly Suite[] = [
  storeSuite,
  listSuite,
  watchSuite,
  kubeSuite,
  pollSuite,
  createSuite,
  verbsSuite,
  ticksSuite,
  proxySuite,
  bulkSuite,
  parallelCommandsSuite,
  idleStreamsSuite,
  firstCommandSuite,
];
