import { describe, expect, it } from "vitest";

import { permissionText } from "./permissions.ts";

describe("permissionText", () => {
  it.each([
    [0o100644, "-rw-r--r--"],
    [0o100000, "----------"],
    [0o040755, "drwxr-xr-x"],
    [0o120777, "Lrwxrwxrwx"],
    [0o041777, "dtrwxrwxrwx"],
    [0o104755, "urwxr-xr-x"],
    [0o102755, "grwxr-xr-x"],
    [0o106755, "ugrwxr-xr-x"],
    [0o010600, "prw-------"],
    [0o140777, "Srwxrwxrwx"],
    [0o020666, "Dcrw-rw-rw-"],
    [0o060660, "Drw-rw----"],
    [0o042775, "dgrwxrwxr-x"],
  ])("of %i is %s", (mode, text) => {
    expect(permissionText(mode)).toBe(text);
  });
});
