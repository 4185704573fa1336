import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { NodeAddress } from "./address.ts";

/** How sockets to nodes are opened. */
export interface SocketOptions {
  readonly address: NodeAddress;
  readonly ca?: string | undefined;
  readonly allowHalfOpen: boolean;
  /** Memory that incoming bytes of a plain connection are handed over in; the callback must use them at once. */
  readonly onread?: { readonly buffer: Buffer; readonly callback: (size: number, chunk: Uint8Array) => boolean };
}

/** Opens a plain or a TLS socket to a node. TLS speaks HTTP/1.1 and names the host unless it is an IP address. */
export function openSocket({ address, ca, allowHalfOpen, onread }: SocketOptions): Socket {
  const target = { host: address.hostname, port: address.port, allowHalfOpen };
  const socket = address.tls
    ? connectTls({
        ...target,
        ALPNProtocols: ["http/1.1"],
        minVersion: "TLSv1.2",
        ...(isIP(address.hostname) === 0 ? { servername: address.hostname } : {}),
        ...(ca === undefined ? {} : { ca }),
      })
    : connectTcp(onread === undefined ? target : { ...target, onread });
  socket.setNoDelay(true);
  socket.setKeepAlive(true, 60_000);
  return socket;
}

/** The event that says an {@link openSocket} is connected. */
export function connectedEvent(address: NodeAddress): "secureConnect" | "connect" {
  return address.tls ? "secureConnect" : "connect";
}
