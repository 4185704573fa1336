import { DEVICES, GUEST_TOOLS, GUEST_UID, type HostView, type ReadOnlyBind } from "./guest-tree.ts";
import type { IdRange } from "./id-range.ts";
import { lockedFlags, type MountEntry } from "./mount-table.ts";
import { withOwnKeyring } from "./session-keyring.ts";
import { commandLine, quote } from "./shell.ts";

/** How guests are kept apart from the host and from each other. */
export type Isolation = "bubblewrap" | "unshare" | "process";

/** What a launch needs to know. */
export interface LaunchInput {
  readonly isolation: Isolation;
  readonly tree: string;
  readonly view: HostView;
  readonly binds: readonly ReadOnlyBind[];
  readonly mounts: readonly MountEntry[];
  /** Present: both guest users exist, as host ids of their own. Absent: one id plays both. */
  readonly range?: IdRange | undefined;
  /** Cgroup folder to enter first. */
  readonly group?: string | undefined;
  /** The agent's command line, as seen inside. */
  readonly agent: readonly string[];
}

/** A command line for `spawn`. Descriptor 3 is the relay's listener, 4 the status pipe; both reach the agent. */
export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  /** The launch writes `map` to the status pipe and waits for a line on its input until the id maps are written. */
  readonly needsIdMap: boolean;
}

/**
 * Privileges a guest's root keeps over its own files, processes and users. Nothing that reaches mounts, devices,
 * networks or the kernel: the kernel would grant them inside the namespace only, but there is no need to.
 */
const KEPT = [
  "chown",
  "dac_override",
  "dac_read_search",
  "fowner",
  "fsetid",
  "kill",
  "setgid",
  "setuid",
  "setpcap",
  "net_bind_service",
  "sys_chroot",
  "setfcap",
];
const BOUNDING = ["-all", ...KEPT.map((name) => `+${name}`)].join(",");

/** First program of a guest. As process 1 it also reaps what others leave behind, which the agent cannot. */
function init(agent: readonly string[]): string[] {
  return ["/bin/sh", "-c", `${commandLine(agent)}; exit $?`];
}

/** Builds the command line of a guest. */
export function planLaunch(input: LaunchInput): Launch {
  const inner = wrap(input);
  const enter = input.group === undefined ? [] : ['echo 0 > "$0/cgroup.procs" || exit 1'];
  const become = input.isolation === "process" ? 'exec "$@"' : withOwnKeyring(process.arch);
  const script = [...enter, become].join("\n");
  const [command, ...args] = ["/bin/sh", "-c", script, input.group ?? "sh", ...inner] as const;
  return { command, args, needsIdMap: input.isolation !== "process" && input.range !== undefined };
}

function wrap(input: LaunchInput): readonly string[] {
  if (input.isolation === "process") {
    return input.agent;
  }
  return input.isolation === "bubblewrap" ? bubblewrap(input) : unshare(input);
}

/**
 * Gives up the host's root: a user namespace whose ids the host maps, then the guest's root without the privileges it
 * has no use for. The mounts stay with the outer namespace, so nothing in the guest can undo them.
 */
function enterIdRange(agent: readonly string[]): string {
  const inner = [
    "setpriv",
    "--reuid=0",
    "--regid=0",
    "--clear-groups",
    "--inh-caps=-all",
    "--ambient-caps=-all",
    `--bounding-set=${BOUNDING}`,
    "--pdeathsig=KILL",
    ...init(agent),
  ];
  return [
    "echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start || true",
    'echo "0 2147483647" > /proc/sys/net/ipv4/ping_group_range || true',
    `exec unshare --user --keep-caps /bin/sh -c ${quote(`echo map >&4 && read -r _ && exec ${commandLine(inner)}`)}`,
  ].join("\n");
}

function bubblewrap(input: LaunchInput): string[] {
  const { range } = input;
  const words = ["bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--die-with-parent"];
  if (range === undefined) {
    words.push("--unshare-user", "--uid", String(GUEST_UID), "--gid", String(GUEST_UID));
  } else {
    for (const capability of ["CAP_SYS_ADMIN", "CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_NET_ADMIN"]) {
      words.push("--cap-add", capability);
    }
  }
  words.push("--hostname", "sandbox", "--bind", input.tree, "/", "--proc", "/proc", "--dev", "/dev");
  for (const bind of [...input.view.binds, ...input.binds]) {
    words.push("--ro-bind", bind.from, bind.to);
  }
  words.push("--chdir", "/", "--");
  return range === undefined ? [...words, ...input.agent] : [...words, "/bin/sh", "-c", enterIdRange(input.agent)];
}

/**
 * The same with util-linux alone. Brings the loopback interface up with whatever the machine has, since nothing of
 * util-linux can.
 */
function unshare(input: LaunchInput): string[] {
  const { range, tree } = input;
  // No device of a template's files is one in the guest; those it gets are bound one by one.
  const rootFlags = [...new Set(["nodev", ...lockedFlags(input.mounts, tree)])];
  const lines = [
    "set -eu",
    `mount -n --bind -o ${rootFlags.join(",")} ${quote(tree)} ${quote(tree)}`,
    `cd ${quote(tree)}`,
  ];
  for (const bind of [...input.view.binds, ...input.binds]) {
    const flags = ["ro", ...lockedFlags(input.mounts, bind.from)];
    const kind = bind.directory ? "--rbind" : "--bind";
    lines.push(`mount -n ${kind} -o ${flags.join(",")} ${quote(bind.from)} ${quote(bind.to.slice(1))}`);
  }
  lines.push("mount -n -t proc -o nosuid,nodev,noexec proc proc");
  for (const name of DEVICES) {
    lines.push(`mount -n --bind /dev/${name} dev/${name}`);
  }
  // Group 5 is `tty`; it exists only where the guest has a range of ids.
  const ttyGroup = range === undefined ? "" : `,gid=${range.base + 5}`;
  lines.push(
    `mount -n -t devpts -o newinstance,nosuid,noexec,ptmxmode=0666,mode=620${ttyGroup} devpts dev/pts`,
    "mount -n -t tmpfs -o mode=1777,nosuid,nodev shm dev/shm",
    LOOPBACK_UP,
    "hostname sandbox 2>/dev/null || true",
    "pivot_root . .host",
    "cd /",
    "umount -n -l /.host",
    "rmdir /.host 2>/dev/null || true",
  );
  // Every step dies with the one before it; the keeper is there for the programs that reset this.
  const words = ["setpriv", "--pdeathsig", "KILL", "unshare"];
  if (range === undefined) {
    words.push("--user", "--map-root-user");
    const agent = ["setpriv", "--bounding-set=-all", "--pdeathsig=KILL", ...init(input.agent)];
    lines.push(
      "echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start || true",
      `exec ${commandLine(["unshare", "--user", `--map-user=${GUEST_UID}`, `--map-group=${GUEST_UID}`, ...agent])}`,
    );
  } else {
    lines.push(enterIdRange(input.agent));
  }
  words.push("--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child=KILL");
  return [...words, "/bin/sh", "-c", lines.join("\n")];
}

const PERL_LOOPBACK =
  'socket(my $s, 2, 2, 0) or die; my $r = pack("a16 s x22", "lo", 0); ioctl($s, 0x8913, $r) or die; my (undef, $f) = unpack("a16 s", $r); ioctl($s, 0x8914, pack("a16 s x22", "lo", $f | 1)) or die;';
const PYTHON_LOOPBACK =
  'import fcntl,socket,struct; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); r=fcntl.ioctl(s,0x8913,struct.pack("16sh22x",b"lo",0)); f=struct.unpack("16sh22x",r)[1]; fcntl.ioctl(s,0x8914,struct.pack("16sh22x",b"lo",f|1))';

const LOOPBACK_UP = [
  "ip link set lo up 2>/dev/null",
  "ifconfig lo up 2>/dev/null",
  "busybox ip link set lo up 2>/dev/null",
  `perl -e ${quote(PERL_LOOPBACK)} 2>/dev/null`,
  `python3 -c ${quote(PYTHON_LOOPBACK)} 2>/dev/null`,
].join(" || ");

/** Guest paths of what is bound in. */
export const TOOL_PATHS: { readonly node: string; readonly agent: string; readonly egress: string } = {
  node: `${GUEST_TOOLS}/node`,
  agent: `${GUEST_TOOLS}/agent`,
  egress: `${GUEST_TOOLS}/egress.sock`,
};
