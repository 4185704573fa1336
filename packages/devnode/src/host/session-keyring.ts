import { quote } from "./shell.ts";

/** Number of `keyctl` by processor, as Node names them (Linux's tables of system calls). */
const KEYCTL: Readonly<Record<string, number>> = {
  arm: 311,
  arm64: 219,
  ia32: 288,
  loong64: 219,
  ppc64: 271,
  riscv64: 219,
  s390x: 280,
  x64: 250,
};

/**
 * A line of shell that becomes the command in `"$@"` with a session keyring of its own. No namespace parts keyrings: who
 * inherits one may read every key in it, and leave keys there for the others. The tools of namespaces cannot change it,
 * so it takes an interpreter that can; without one, or where the kernel has no keyrings, the command runs as it is.
 */
export function withOwnKeyring(arch: string): string {
  const keyctl = KEYCTL[arch];
  if (keyctl === undefined) {
    return 'exec "$@"';
  }
  const perl = `syscall(${keyctl}, 1, 0); exec { $ARGV[0] } @ARGV or exit 127`;
  const python = `import ctypes,os,sys; ctypes.CDLL(None).syscall(${keyctl}, 1, None); os.execvp(sys.argv[1], sys.argv[1:])`;
  return [
    `if command -v perl >/dev/null; then exec perl -e ${quote(perl)} -- "$@"`,
    `elif command -v python3 >/dev/null; then exec python3 -c ${quote(python)} "$@"`,
    'else exec "$@"; fi',
  ].join("; ");
}
