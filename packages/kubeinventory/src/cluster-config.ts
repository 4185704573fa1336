/** Text that is given, or the file that holds it and may be replaced while we run. */
export type Material = { readonly text: string } | { readonly file: string };

/** A program that hands out credentials, as a kubeconfig names it. */
export interface ExecConfig {
  readonly command: string;
  readonly args: readonly string[];
  /** The program's whole environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly apiVersion: "client.authentication.k8s.io/v1" | "client.authentication.k8s.io/v1beta1";
  /** Whether the program is told which cluster it is for. */
  readonly provideClusterInfo: boolean;
  /** What to tell a person whose machine has no such program. */
  readonly installHint?: string | undefined;
}

/** How requests are authenticated. All absent: not at all. */
export interface UserConfig {
  readonly token?: Material | undefined;
  readonly basic?: { readonly username: string; readonly password: string } | undefined;
  /** Certificate and private key of the client, PEM. */
  readonly certificate?: { readonly cert: Material; readonly key: Material } | undefined;
  readonly exec?: ExecConfig | undefined;
}

/** One cluster and how to reach it. */
export interface ClusterConfig {
  /** Where this was found, for the log. */
  readonly source: string;
  /** Origin of the API server, with the path it lies under, without a slash at its end. */
  readonly server: string;
  /** The namespace to use when none is named. */
  readonly namespace: string;
  /** Certificate authorities, PEM; absent trusts those that Node trusts. */
  readonly ca?: Material | undefined;
  /** The name to expect in the server's certificate when it is not the one in `server`. */
  readonly tlsServerName?: string | undefined;
  /** Accept any certificate. @default false */
  readonly insecure?: boolean | undefined;
  /** `http:`, `https:` or `socks5:` proxy on the way. */
  readonly proxyUrl?: string | undefined;
  readonly user: UserConfig;
}
