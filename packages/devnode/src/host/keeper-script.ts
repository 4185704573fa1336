/**
 * Cleans up after one run: arguments are the run's folder and, when there is one, its cgroup folder. Everything to do
 * is found on disk, so the same script serves a keeper that outlives its process and the sweep of an earlier run.
 *
 * Order matters: a frozen v1 group dies only when thawed, a tree can be removed only when nothing writes into it, and
 * the run's folder goes last because it names what is left.
 */
export const CLEANUP_SCRIPT = `
cleanup() {
  run=$1
  group=\${2-}
  alive() {
    [ -r "/proc/$1/stat" ] || return 1
    IFS= read -r stat <"/proc/$1/stat" 2>/dev/null || return 1
    set -- "$1" "$2" \${stat##*) }
    [ "$3" != Z ] && [ "\${22-}" = "$2" ]
  }
  # An id alone may be somebody else's by the time it is used: what is listed is an id with its start time.
  started() {
    IFS= read -r stat <"/proc/$1/stat" 2>/dev/null || return 1
    set -- "$1" \${stat##*) }
    [ "$2" != Z ] && echo "$1 \${21}"
  }
  pids() {
    for file in "$run"/guests/*/pids; do
      [ -r "$file" ] || continue
      while read -r pid start; do
        if [ -z "$start" ] || [ ! -d /proc/self ]; then echo "$pid"; else alive "$pid" "$start" && echo "$pid $start"; fi
      done <"$file"
    done
  }
  # Guests without a pid namespace: what they started may have left their tree and their session.
  strays() {
    [ -e "$run/shared" ] && [ -d /proc/self ] || return 0
    for one in "$run"/guests/*/; do
      one=\${one%/}
      for file in $(grep -l "E2B_SANDBOX_ID=\${one##*/}" /proc/[0-9]*/environ 2>/dev/null); do
        pid=\${file#/proc/}
        found=$(started "\${pid%/environ}") || continue
        grep -q "E2B_SANDBOX_ID=\${one##*/}" "$file" 2>/dev/null && echo "$found"
      done
    done
  }
  members() {
    [ -n "$group" ] && [ -d "$group" ] || return 0
    for one in "$group"/*/; do
      [ -d "$one" ] || continue
      for pid in $(cat "$one/cgroup.procs" 2>/dev/null); do
        started "$pid"
      done
    done
  }
  round=0
  while [ $round -lt 100 ]; do
    if [ -n "$group" ] && [ -d "$group" ]; then
      for one in "$group"/*/; do
        [ -d "$one" ] || continue
        [ ! -w "$one/cgroup.kill" ] || echo 1 >"$one/cgroup.kill" 2>/dev/null
      done
    fi
    left=$(members; pids; strays)
    while read -r pid start; do
      [ -n "$pid" ] || continue
      if [ -z "$start" ] || alive "$pid" "$start"; then
        kill -9 "$pid" 2>/dev/null
        kill -9 "-$pid" 2>/dev/null
      fi
    done <<LEFT
$left
LEFT
    if [ -n "$group" ] && [ -d "$group" ]; then
      for one in "$group"/*/; do
        [ -d "$one" ] || continue
        [ ! -w "$one/freezer.state" ] || echo THAWED >"$one/freezer.state" 2>/dev/null
        [ ! -w "$one/cgroup.freeze" ] || echo 0 >"$one/cgroup.freeze" 2>/dev/null
        rmdir "$one" 2>/dev/null
      done
      rmdir "$group" 2>/dev/null
    fi
    if [ -z "$group" ] || [ ! -d "$group" ]; then
      [ -n "$(pids; strays)" ] || break
    fi
    round=$((round + 1))
    sleep 0.05
  done
  rm -rf "$run" 2>/dev/null || { chmod -R u+rwX "$run" 2>/dev/null; rm -rf "$run"; }
}
`;
