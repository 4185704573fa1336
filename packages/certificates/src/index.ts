/**
 * Certificates that a program makes for itself: an authority for development, server certificates below it, and servers
 * that vouch for themselves. Elliptic curve P-256 and X.509 v3 (RFC 5280), with `node:crypto` alone.
 */
export { createAuthority, createSelfSigned, createServerCertificate } from "./certificate.ts";
export type { CertificateNames, IssuedCertificate, Validity } from "./certificate.ts";
