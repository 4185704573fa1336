import type { ServerResponse } from "node:http";

import type { Exchange } from "./reply.ts";

const METHODS = new Set(["HEAD", "GET", "POST", "PUT", "PATCH", "DELETE"]);
const MAX_AGE_SECONDS = "7200";
const EXPOSED = [
  "Grpc-Status",
  "Grpc-Message",
  "Grpc-Status-Details-Bin",
  "Location",
  "Cache-Control",
  "X-Content-Type-Options",
].join(", ");

/** Marks every answer for browsers of any origin and answers preflights; true when the exchange is done. */
export function handleCors({ req, res, method }: Exchange): boolean {
  const wanted = req.headers["access-control-request-method"];
  if (method === "OPTIONS" && wanted !== undefined) {
    answerPreflight(res, wanted, req.headers["access-control-request-headers"]);
    return true;
  }
  if (req.headers.origin !== undefined) {
    res.setHeader("access-control-allow-origin", "*");
    res.setHeader("access-control-expose-headers", EXPOSED);
    res.setHeader("vary", "Origin");
  }
  return false;
}

function answerPreflight(res: ServerResponse, method: string, headers: string | undefined): void {
  res.setHeader("vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers");
  if (METHODS.has(method)) {
    res.setHeader("access-control-allow-origin", "*");
    res.setHeader("access-control-allow-methods", method);
    if (headers !== undefined && headers !== "") res.setHeader("access-control-allow-headers", headers);
    res.setHeader("access-control-max-age", MAX_AGE_SECONDS);
  }
  res.writeHead(204);
  res.end();
}
