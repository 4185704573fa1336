// What steps run in the guest as root. Values come as arguments and are never part of the text.

/**
 * Gives files to an owner, whose group is the user's own unless it is named. In a guest that has one id for all users they
 * stay as they are.
 */
const OWN = `own() {
  local owner="$1"
  shift
  case "$owner" in
    *:*) ;;
    *[!0-9]*) id -u -- "$owner" >/dev/null || exit 1; owner="$owner:" ;;
  esac
  chown -h "$owner" "$@" 2>/dev/null || echo "this sandbox cannot change the owners of files" >&2
}`;

/** `$1` the folder, `$2` its owner-to-be. Folders of the system keep their owner. */
export const WORKDIR_SCRIPT: string = `set -e
${OWN}
mkdir -p -- "$1"
case "$(realpath -- "$1")" in
  /|/bin|/boot|/dev|/etc|/home|/lib|/lib32|/lib64|/opt|/proc|/root|/run|/sbin|/srv|/sys|/tmp|/usr|/var) ;;
  *) own "$2" -- "$1" ;;
esac`;

/**
 * `$1` the user, `$2` a group or nothing. Prints the user's name. A number means the user with this id, which is
 * not made.
 */
export const USER_SCRIPT: string = `set -e
name="$1"
case "$name" in
  *[!0-9]*)
    if ! id -u -- "$name" >/dev/null 2>&1; then
      if [ "$(id -u)" != 0 ]; then
        # One id plays all users: a new one is a name and a home.
        next="$(awk -F: '$3 >= 1000 && $3 < 60000 && $3 >= free { free = $3 + 1 } END { print free ? free : 1000 }' /etc/passwd)"
        mkdir -p -- "/home/$name"
        echo "$name:x:$next:" >>/etc/group
        echo "$name:x:$next:$next::/home/$name:/bin/bash" >>/etc/passwd
      elif command -v useradd >/dev/null 2>&1; then
        useradd -m -s /bin/bash -- "$name" >&2
      elif command -v adduser >/dev/null 2>&1; then
        adduser -D -s /bin/bash "$name" >&2
      else
        echo "there is no user $name, and neither useradd nor adduser to make one" >&2
        exit 1
      fi
    fi ;;
  *)
    found="$(awk -F: -v id="$name" '$3 == id { print $1; exit }' /etc/passwd)"
    if [ -z "$found" ]; then echo "there is no user with the id $name" >&2; exit 1; fi
    name="$found" ;;
esac
if [ -n "$2" ] && [ "$2" != "$(id -gn -- "$name")" ] && [ "$2" != "$(id -g -- "$name")" ]; then
  echo "the group $2 is not the one of the user $name: other groups are not supported" >&2
  exit 1
fi
printf '%s\\n' "$name"`;

/**
 * `$1` the archive, `$2` the source as it is named in there, `$3` `glob` or `plain`, `$4` the absolute destination,
 * `$5` the owner, `$6` the mode or nothing. The rules are those of COPY in a Dockerfile: of a folder its content is
 * copied; a file goes into a destination that is a folder or ends with a slash, else it is the destination.
 */
export const COPY_SCRIPT: string = `set -e
${OWN}
shopt -s globstar dotglob nullglob extglob
archive="$1" source="$2" kind="$3" target="$4" owner="$5" mode="$6"
stage="$(mktemp -d)"
trap 'rm -rf -- "$stage" "$archive"' EXIT
tar -xf "$archive" -C "$stage" --no-same-owner
rm -f -- "$archive"
cd -- "$stage"
if [ "$kind" = glob ]; then
  IFS=
  found=( ./$source )
else
  found=()
  if [ -e "./$source" ] || [ -L "./$source" ]; then found=( "./$source" ); fi
fi
if [ "\${#found[@]}" -eq 0 ]; then echo "no such file in the upload: $source" >&2; exit 1; fi
make_folder() {
  local missing=() at="$1"
  while [ ! -e "$at" ]; do missing=( "$at" "\${missing[@]}" ); at="$(dirname -- "$at")"; done
  for at in "\${missing[@]}"; do mkdir -- "$at"; own "$owner" -- "$at"; done
}
own "$owner" -R -- "$stage"
if [ -n "$mode" ] && [ "$(id -u)" = 0 ]; then
  find "$stage" -mindepth 1 ! -type l -exec chmod "$mode" -- {} +
elif [ -n "$mode" ]; then
  # Whoever is not root could not enter folders with the modes of files.
  find "$stage" -mindepth 1 -type f -exec chmod "$mode" -- {} +
fi
for one in "\${found[@]}"; do
  if [ -d "$one" ] && [ ! -L "$one" ]; then
    make_folder "$target"
    find "$one" -mindepth 1 -maxdepth 1 -exec cp -a -t "$target" -- {} +
  elif [ -d "$target" ] || [ "\${target%/}" != "$target" ] || [ "\${#found[@]}" -gt 1 ]; then
    make_folder "\${target%/}/"
    cp -a -t "$target" -- "$one"
  else
    make_folder "$(dirname -- "$target")"
    cp -a -T -- "$one" "$target"
  fi
done`;
