const TYPE_MASK = 0o170000;

/** Letters in front of the nine, in this order; a plain file has none and shows `-`. */
function prefixOf(mode: number): string {
  let letters = "";
  const type = mode & TYPE_MASK;
  if (type === 0o040000) letters += "d";
  if (type === 0o120000) letters += "L";
  if (type === 0o060000 || type === 0o020000) letters += "D";
  if (type === 0o010000) letters += "p";
  if (type === 0o140000) letters += "S";
  if ((mode & 0o4000) !== 0) letters += "u";
  if ((mode & 0o2000) !== 0) letters += "g";
  if (type === 0o020000) letters += "c";
  if ((mode & 0o1000) !== 0) letters += "t";
  return letters === "" ? "-" : letters;
}

/** A file mode as text, for example `-rw-r--r--`, `drwxr-xr-x`, `Lrwxrwxrwx`, `dtrwxrwxrwx`. */
export function permissionText(mode: number): string {
  let text = prefixOf(mode);
  for (let bit = 8; bit >= 0; bit -= 1) text += (mode & (1 << bit)) === 0 ? "-" : "rwx".charAt((8 - bit) % 3);
  return text;
}
