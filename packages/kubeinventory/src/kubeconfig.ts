import { isIPv4 } from "node:net";
import { dirname, isAbsolute, resolve } from "node:path";
import { isAlias, parseDocument, visit } from "yaml";
import type { ClusterConfig, ExecConfig, Material, UserConfig } from "./cluster-config.ts";
import { KubeError, record } from "./errors.ts";

/** A kubeconfig's text and where it lies. */
export interface KubeconfigFile {
  readonly path: string;
  readonly text: string;
}

/** What a kubeconfig is read with. */
export interface KubeconfigOptions {
  /** The context to use. @default the first file's `current-context` */
  readonly context?: string | undefined;
  /** Accept `insecure-skip-tls-verify`. */
  readonly allowInsecure: boolean;
  /** What exec plugins get besides the variables of their own. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

type Fields = Readonly<Record<string, unknown>>;

/** An entry of a list in a file, and the folder that its paths are relative to. */
interface Named {
  readonly fields: Fields;
  readonly folder: string;
  /** Names the entry in errors. */
  readonly label: string;
}

type Section = "cluster" | "context" | "user";

/**
 * The cluster of a context. Of entries with one name the first file's counts.
 * @throws KubeError `config` for what cannot be read, is missing, contradicts itself or is not supported.
 */
export function readKubeconfig(files: readonly KubeconfigFile[], options: KubeconfigOptions): ClusterConfig {
  const documents = files.map((file) => ({ path: file.path, fields: parse(file.path, file.text) }));
  const where = files.map(({ path }) => path).join(", ");
  const find = (section: Section, name: string): Named | undefined => {
    for (const { path, fields } of documents) {
      const list = fields[`${section}s`];
      for (const item of Array.isArray(list) ? list : []) {
        if (record(item)["name"] === name) {
          const label = `${path}: ${section} ${JSON.stringify(name)}`;
          return { fields: record(record(item)[section]), folder: dirname(resolve(path)), label };
        }
      }
    }
    return undefined;
  };
  const need = (section: Section, name: string): Named => {
    const found = find(section, name);
    if (found === undefined) {
      throw new KubeError("config", `${where}: there is no ${section} ${JSON.stringify(name)}`);
    }
    return found;
  };

  const name = options.context ?? documents.map(({ fields }) => text(fields["current-context"])).find(Boolean);
  if (name === undefined) {
    throw new KubeError("config", `${where}: no context is chosen: set current-context`);
  }
  const context = need("context", name);
  const clusterName = text(context.fields["cluster"]);
  if (clusterName === undefined) {
    throw new KubeError("config", `${context.label} names no cluster`);
  }
  const userName = text(context.fields["user"]);
  const config = {
    source: `${where}, context ${JSON.stringify(name)}`,
    namespace: text(context.fields["namespace"]) ?? "default",
    ...readCluster(need("cluster", clusterName), options.allowInsecure),
    user: userName === undefined ? {} : readUser(need("user", userName), options.env),
  };
  refusePlainSecrets(config);
  return config;
}

function parse(path: string, source: string): Fields {
  const document = parseDocument(source, { prettyErrors: false, logLevel: "silent" });
  // The parser's own words may quote the file, which holds secrets: only the place is told.
  const [problem] = document.errors;
  if (problem !== undefined) {
    const line = source.slice(0, problem.pos[0]).split("\n").length;
    throw new KubeError("config", `${path}: line ${line} is no valid YAML (${problem.code})`);
  }
  let aliases = 0;
  visit(document, (_key, node) => {
    aliases += isAlias(node) ? 1 : 0;
  });
  if (aliases > 100) {
    throw new KubeError("config", `${path}: too many aliases`);
  }
  try {
    return record(document.toJS({ maxAliasCount: 100 }));
  } catch (cause) {
    throw new KubeError("config", `${path}: cannot be read as YAML`, { cause });
  }
}

function readCluster(
  { fields, folder, label }: Named,
  allowInsecure: boolean,
): Omit<ClusterConfig, "source" | "namespace" | "user"> {
  const insecure = fields["insecure-skip-tls-verify"] === true;
  const ca = material(fields, "certificate-authority", folder, label);
  if (insecure && ca !== undefined) {
    throw new KubeError("config", `${label} has both a certificate-authority and insecure-skip-tls-verify`);
  }
  if (insecure && !allowInsecure) {
    throw new KubeError(
      "config",
      `${label} has insecure-skip-tls-verify, which would give its credentials to anybody on the way: name the ` +
        "certificate-authority instead, or allow it explicitly",
    );
  }
  const proxyUrl = text(fields["proxy-url"]);
  if (proxyUrl !== undefined) {
    url(proxyUrl, `${label}: proxy-url`, ["http:", "https:", "socks5:"]);
  }
  return {
    server: readServer(text(fields["server"]), label),
    ca,
    tlsServerName: text(fields["tls-server-name"]),
    insecure,
    proxyUrl,
  };
}

/**
 * The origin and path of an API server.
 * @throws KubeError `config` for what is no http or https URL.
 */
export function readServer(value: string | undefined, label: string): string {
  if (value === undefined) {
    throw new KubeError("config", `${label} names no server`);
  }
  const { origin, pathname, username, password, search, hash } = url(value, `${label}: server`, ["http:", "https:"]);
  if (username !== "" || password !== "" || search !== "" || hash !== "") {
    throw new KubeError("config", `${label}: server must be an origin and a path alone`);
  }
  return `${origin}${pathname.replace(/\/+$/, "")}`;
}

/** What would let requests go out with other rights than the file says is refused. */
const UNSUPPORTED = ["auth-provider", "as", "as-uid", "as-groups", "as-user-extra"];

function readUser({ fields, folder, label }: Named, env: KubeconfigOptions["env"]): UserConfig {
  for (const member of UNSUPPORTED) {
    if (present(fields[member])) {
      throw new KubeError("config", `${label} has ${member}, which is not supported`);
    }
  }
  const tokenFile = text(fields["tokenFile"]);
  const token = text(fields["token"]);
  const username = text(fields["username"]);
  const password = text(fields["password"]);
  const basic =
    username === undefined && password === undefined
      ? undefined
      : { username: username ?? "", password: password ?? "" };
  // As in the other clients a token file, which may be renewed, goes before a token.
  const bearer: Material | undefined =
    tokenFile !== undefined ? { file: at(folder, tokenFile) } : token !== undefined ? { text: token } : undefined;
  const exec = present(fields["exec"]) ? readExec(record(fields["exec"]), folder, label, env) : undefined;
  const methods = [bearer && "a token", basic && "username and password", exec && "exec"].filter(Boolean);
  if (methods.length > 1) {
    throw new KubeError("config", `${label} has ${methods.join(" and ")}: one way to authenticate is needed`);
  }
  const cert = material(fields, "client-certificate", folder, label);
  const key = material(fields, "client-key", folder, label);
  if ((cert === undefined) !== (key === undefined)) {
    throw new KubeError("config", `${label} needs client-certificate and client-key, and has one of them`);
  }
  const certificate = cert !== undefined && key !== undefined ? { cert, key } : undefined;
  return { token: bearer, basic, certificate, exec };
}

function readExec(fields: Fields, folder: string, label: string, env: KubeconfigOptions["env"]): ExecConfig {
  const command = text(fields["command"]);
  if (command === undefined) {
    throw new KubeError("config", `${label}: exec names no command`);
  }
  const { apiVersion } = fields as { apiVersion?: unknown };
  if (apiVersion !== "client.authentication.k8s.io/v1" && apiVersion !== "client.authentication.k8s.io/v1beta1") {
    throw new KubeError("config", `${label}: exec has no apiVersion that is supported (v1, v1beta1)`);
  }
  if (fields["interactiveMode"] === "Always") {
    throw new KubeError("config", `${label}: exec wants a terminal, and there is none`);
  }
  const own = (Array.isArray(fields["env"]) ? fields["env"] : []).map((pair) => {
    const { name, value } = record(pair);
    return [String(name), String(value)] as const;
  });
  const inherited = Object.entries(env).filter((pair): pair is [string, string] => pair[1] !== undefined);
  return {
    // Only a path is relative to the file; a bare name is looked up.
    command: command.includes("/") ? at(folder, command) : command,
    args: (Array.isArray(fields["args"]) ? fields["args"] : []).map(String),
    env: Object.fromEntries([...inherited, ...own]),
    apiVersion,
    provideClusterInfo: fields["provideClusterInfo"] === true,
    installHint: text(fields["installHint"]),
  };
}

/** `<member>-data` as text, else the file that `<member>` names. */
function material(fields: Fields, member: string, folder: string, label: string): Material | undefined {
  const data = text(fields[`${member}-data`]);
  if (data !== undefined) {
    const decoded = Buffer.from(data, "base64").toString("utf8");
    if (!decoded.includes("-----BEGIN ")) {
      throw new KubeError("config", `${label}: ${member}-data is no PEM in base64`);
    }
    return { text: decoded };
  }
  const file = text(fields[member]);
  return file === undefined ? undefined : { file: at(folder, file) };
}

/** A token must not cross a network where everybody can read it. */
function refusePlainSecrets({ source, server, user }: ClusterConfig): void {
  const { protocol, hostname } = new URL(server);
  const local = hostname === "localhost" || hostname === "[::1]" || (isIPv4(hostname) && hostname.startsWith("127."));
  const secret = user.token ?? user.basic ?? user.exec;
  if (protocol === "http:" && !local && secret !== undefined) {
    throw new KubeError("config", `${source}: credentials would cross the network unencrypted: server needs https`);
  }
}

function url(value: string, label: string, protocols: readonly string[]): URL {
  const parsed = URL.canParse(value) ? new URL(value) : undefined;
  if (parsed === undefined || !protocols.includes(parsed.protocol) || parsed.hostname === "") {
    throw new KubeError("config", `${label} must be a URL with ${protocols.join(", ")}`);
  }
  return parsed;
}

function at(folder: string, path: string): string {
  return isAbsolute(path) ? path : resolve(folder, path);
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** Whether a member is set to anything: empty ones are as good as absent. */
function present(value: unknown): boolean {
  return value !== undefined && value !== null && value !== "" && !(Array.isArray(value) && value.length === 0);
}
