import assert from "node:assert/strict";

import { rejects, type Row } from "./context.ts";
import { Screen } from "./screen.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** `pty` of the SDK. */
export const ptyRows: Readonly<Record<string, Row>> = {
  PT1: async (context) => {
    const { pty } = await context.shared();
    const screen = new Screen();
    const handle = await pty.create({ cols: 80, rows: 24, onData: screen.onData, envs: { MARK: "abc" }, timeoutMs: 0 });
    await pty.sendInput(handle.pid, bytes('echo "<$MARK|$TERM|$LANG|$(whoami)|$(pwd)>"\n'));
    await screen.shows(/<abc\|xterm-256color\|C\.UTF-8\|user\|\/home\/user>/);
    await pty.sendInput(handle.pid, bytes("echo é漢🙂\n"));
    await screen.shows(/\n.*é漢🙂/);
    await pty.sendInput(handle.pid, bytes("exit 0\n"));
    assert.equal((await handle.wait()).exitCode, 0);
  },

  PT2: async (context) => {
    const { pty } = await context.shared();
    const screen = new Screen();
    const handle = await pty.create({ cols: 80, rows: 24, onData: screen.onData, timeoutMs: 0 });
    await pty.sendInput(handle.pid, bytes('echo "size=$(stty size)"\n'));
    await screen.shows(/size=24 80/);
    await pty.resize(handle.pid, { cols: 132, rows: 50 });
    await pty.sendInput(handle.pid, bytes('echo "size=$(stty size)"\n'));
    await screen.shows(/size=50 132/);
    await pty.kill(handle.pid);
  },

  PT3: async (context) => {
    const { pty } = await context.shared();
    const handle = await pty.create({ cols: 80, rows: 24, onData: () => undefined, timeoutMs: 0 });
    assert.equal(await pty.kill(handle.pid), true);
    await rejects(handle.wait(), context.sdk.CommandExitError);
    assert.equal(await pty.kill(handle.pid), false);
  },

  PT4: async (context) => {
    const { pty } = await context.shared();
    const first = new Screen();
    const handle = await pty.create({ cols: 80, rows: 24, onData: first.onData, timeoutMs: 0 });
    await pty.sendInput(handle.pid, bytes("export KEEP=kept; echo go\n"));
    await first.shows(/[\r\n]go/);
    await handle.disconnect();
    const second = new Screen();
    const again = await pty.connect(handle.pid, { onData: second.onData, timeoutMs: 0 });
    assert.equal(again.pid, handle.pid);
    await pty.sendInput(handle.pid, bytes('echo "again $KEEP"\n'));
    await second.shows(/[\r\n]again kept/);
    await pty.sendInput(handle.pid, bytes("exit 4\n"));
    const error = await rejects(again.wait(), context.sdk.CommandExitError);
    assert.equal(error.exitCode, 4);
  },
};
