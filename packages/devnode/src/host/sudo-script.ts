/**
 * `sudo` of a guest. The host's own cannot work: its owner has no id in here. Where a guest has both users, a set-uid
 * copy of setpriv changes the user; where it has one, that user already owns everything and the command just runs.
 */
export const SUDO_SCRIPT = `#!/bin/sh
user=root
login=
shell=
keep=
while [ $# -gt 0 ]; do
  case "$1" in
    -u | --user) user=\${2-}; shift 2 || exit 1 ;;
    --user=*) user=\${1#--user=}; shift ;;
    -u?*) user=\${1#-u}; shift ;;
    -E | --preserve-env) keep=1; shift ;;
    --preserve-env=*) keep=1; shift ;;
    -i | --login) login=1; shift ;;
    -s | --shell) shell=1; shift ;;
    -H | -n | -S | -k | -b | --set-home | --non-interactive | --stdin) shift ;;
    -v | -K | --validate) exit 0 ;;
    --) shift; break ;;
    -*) echo "sudo: option $1 is not supported in this sandbox" >&2; exit 1 ;;
    [A-Za-z_]*=*) export "$1"; given="\${given-} \${1%%=*}"; shift ;;
    *) break ;;
  esac
done
entry=$(grep "^$user:" /etc/passwd) || { echo "sudo: unknown user $user" >&2; exit 1; }
uid=$(echo "$entry" | cut -d: -f3)
gid=$(echo "$entry" | cut -d: -f4)
home=$(echo "$entry" | cut -d: -f6)
if [ -n "$login" ] || [ -n "$shell" ]; then
  [ -z "$login" ] || cd "$home" 2>/dev/null || true
  if [ $# -gt 0 ]; then set -- /bin/bash \${login:+-l} -c "$*"; else set -- /bin/bash \${login:+-l}; fi
fi
[ $# -gt 0 ] || { echo "usage: sudo [-EHin] [-u user] command [argument …]" >&2; exit 1; }
if [ -z "$keep" ]; then
  for name in TERM LANG LC_ALL http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY \${given-}; do
    eval "value=\\\${$name-}"
    [ -z "$value" ] || set -- "$name=$value" "$@"
  done
  set -- env -i "PATH=$PATH" "HOME=$home" "USER=$user" "LOGNAME=$user" "SUDO_USER=\${USER-user}" "$@"
fi
[ "$(id -u)" != "$uid" ] || exec "$@"
here=\${0%/*}
if [ ! -e "$here/elevate" ]; then
  # One id stands for both users here.
  exec "$@"
fi
if [ "$(id -u)" != 0 ] && grep -q '^NoNewPrivs:.*1' /proc/self/status; then
  echo "sudo: not available under this isolation (no new privileges)" >&2
  exit 1
fi
exec "$here/elevate" --reuid="$uid" --regid="$gid" --clear-groups -- "$@"
`;
