/** The part of a bundler's options that the agent needs. */
export interface GuestBundle {
  readonly format: ["esm"];
  readonly target: string;
  readonly platform: "node";
  readonly dts: false;
  readonly clean: false;
  readonly sourcemap: false;
  readonly splitting: false;
  readonly noExternal: RegExp[];
  readonly external: RegExp[];
  readonly banner: { readonly js: string };
  readonly esbuildOptions: (options: { conditions?: string[] }) => void;
}

/**
 * How the agent is built: one file that is copied into every guest. Only what comes with binaries stays outside: the
 * terminal library and the one for system calls; the CommonJS packages inside need a `require`. Workspace packages are taken from their sources.
 */
export const guestBundle: GuestBundle = {
  format: ["esm"],
  target: "node22",
  platform: "node",
  dts: false,
  clean: false,
  sourcemap: false,
  splitting: false,
  noExternal: [/^(?!@lydell\/node-pty|koffi$)/],
  external: [/^@lydell\/node-pty/, /^koffi$/],
  banner: {
    js: 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);',
  },
  esbuildOptions: (options) => {
    options.conditions = ["@org/source"];
  },
};
