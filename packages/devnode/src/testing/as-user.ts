import { spawnSync } from "node:child_process";
import { mkdtempSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const CHECKOUT = fileURLToPath(new URL("../../../../", import.meta.url));
/** Shows the checkout at another place to the command that follows, and runs it as another user. */
const SHOW =
  'mount --bind "$1" "$2" && user=$3 && shift 3 && exec setpriv --reuid="$user" --regid="$user" --clear-groups -- "$@"';

/** A command line, and the ids to start it with. */
export interface UserCommand {
  readonly words: readonly string[];
  readonly ids: { readonly uid: number; readonly gid: number } | undefined;
}

let place: string | undefined;

/** Where a checkout that lies in a private folder is shown to others: a mount of their own, behind this folder. */
function placeOfCheckout(): string {
  if (place === undefined) {
    const made = mkdtempSync(join(tmpdir(), "devnode-checkout-"));
    // The mode that lets others in comes with what is mounted there.
    process.once("exit", () => rmdirSync(made));
    place = made;
  }
  return `${place}/`;
}

const readable = new Map<number, boolean>();

function canRead(uid: number): boolean {
  const known = readable.get(uid);
  if (known !== undefined) {
    return known;
  }
  const script = `require("node:fs").readFileSync(${JSON.stringify(import.meta.filename)})`;
  const { status } = spawnSync(process.execPath, ["-e", script], { uid, gid: uid, cwd: "/" });
  readable.set(uid, status === 0);
  return status === 0;
}

/** A text about the checkout's paths, as that user sees them. Needs root. */
export function seenBy(uid: number, text: string): string {
  return canRead(uid) ? text : text.replaceAll(CHECKOUT, placeOfCheckout());
}

/** Runs a command line as another user, who need not be able to enter the folder of this checkout. Needs root. */
export function asUser(uid: number, words: readonly string[]): UserCommand {
  if (canRead(uid)) {
    return { words, ids: { uid, gid: uid } };
  }
  const show = ["/bin/sh", "-c", SHOW, "show", CHECKOUT, placeOfCheckout(), String(uid)];
  return {
    words: ["unshare", "--mount", "--propagation", "private", "--", ...show, ...words.map((word) => seenBy(uid, word))],
    ids: undefined,
  };
}
