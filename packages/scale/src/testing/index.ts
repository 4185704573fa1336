/**
 * Doubles for users of the library: an inventory in memory and a fleet of scripted nodes. Together with `createStore`
 * they stand in for a whole fleet without sockets.
 */
export { StaticInventorySource } from "./static-inventory-source.ts";
export type { StaticNode } from "./static-inventory-source.ts";
export { answers, fails, redirects, ScriptedFailure, staysSilent } from "./scripted-calls.ts";
export type { ScriptedCall, ScriptedStep, ScriptedVerb } from "./scripted-calls.ts";
export { ScriptedNode } from "./scripted-node.ts";
export type { ScriptedFleet } from "./scripted-node.ts";
export { ScriptedNodes } from "./scripted-nodes.ts";
