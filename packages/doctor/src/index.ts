/**
 * Looks at a configured service before, or while, it runs: nodes, token, addresses, clocks, pools, names, certificate and
 * a guest's daemon. Each finding says what to do. It prints nothing and decides nothing.
 */
export { examine } from "./examine.ts";
export type { Examined, ExamineOptions } from "./examine.ts";
export { findingsOf } from "./finding.ts";
export type { CheckName, Finding, Findings } from "./finding.ts";
export type { CertificatePair } from "./certificate-checks.ts";
export type { Lookup } from "./name-checks.ts";
export type { AliasedTemplate } from "./pool-checks.ts";
