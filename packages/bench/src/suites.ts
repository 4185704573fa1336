import type { Suite } from "./suite.ts";
import { listSuite } from "./suites/list.ts";
import { pollSuite } from "./suites/poll.ts";
import { storeSuite } from "./suites/store.ts";

/** All suites in the order they run in. */
export const SUITES: readonly Suite[] = [storeSuite, listSuite, pollSuite];
