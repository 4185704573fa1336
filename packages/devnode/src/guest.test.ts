import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { EgressPolicy } from "./host/egress-gate.ts";
import { createGuestHost, type GuestHost } from "./host/guest-host.ts";
import type { Guest } from "./host/guest.ts";
import { startDevNode } from "./index.ts";
import { nodeApi, readAll, runCommand, runInGuest, type CommandResult } from "./testing/api.ts";
import { ensureGuestBundle } from "./testing/guest-bundle.ts";
import { temporaryFolder, type TemporaryFolder } from "./testing/temporary-folder.ts";

beforeAll(ensureGuestBundle, 60_000);

/** A way out that leads to a server of the test, whatever the name. */
let reachable = 0;
const egress: EgressPolicy = {
  allowed: async (host) => (host === "allowed.test" || host === "2001:db8:0:0:0:0:0:1" ? ["192.0.2.1"] : []),
  dial: () => connect({ host: "127.0.0.1", port: reachable, allowHalfOpen: true }),
};

describe.runIf(process.platform === "linux")("a guest", () => {
  let state: TemporaryFolder;
  let host: GuestHost;
  let next = 0;
  const started: Guest[] = [];

  beforeAll(async () => {
    state = temporaryFolder();
    host = await createGuestHost({ stateDir: state.path, isolation: "auto", egress });
    expect(host.isolation).not.toBe("process");
  }, 60_000);
  afterAll(async () => {
    await host.close();
    expect(readdirSync(join(state.path, "runs"))).toEqual([]);
    await state[Symbol.asyncDispose]();
  });

  const start = async (egressLane = false, base?: string): Promise<Guest> => {
    next += 1;
    const guest = await host.start({
      id: `sb_${next.toString(16).padStart(16, "0")}`,
      template: "base",
      egressLane,
      ...(base === undefined ? {} : { base }),
    });
    started.push(guest);
    return guest;
  };
  const run = async (guest: Guest, command: string, user?: string): Promise<CommandResult> =>
    await runCommand(await guest.connect(49_983), command, user);

  test("has the tools, folders, variables and terminals that commands expect", async () => {
    const guest = await start();
    const { stdout } = await run(
      guest,
      'pwd; echo "$E2B_SANDBOX $E2B_SANDBOX_ID $E2B_TEMPLATE_ID"; hostname; tty; cat /etc/hostname; ls -d /proc/self /dev/pts /dev/shm; awk "BEGIN{print 42}"; TERM=xterm script -qec "tty; tput cols" /dev/null </dev/null',
    );
    expect(stdout.replaceAll("\r", "").split("\n")).toEqual([
      "/home/user",
      `true ${guest.id} base`,
      "sandbox",
      "not a tty",
      "sandbox",
      "/dev/pts",
      "/dev/shm",
      "/proc/self",
      "42",
      "/dev/pts/0",
      expect.stringMatching(/^[0-9]+$/),
      "",
    ]);
  });

  test("has a port space of its own, reached by IPv4 or IPv6", async () => {
    const [one, two] = await Promise.all([start(), start()]);
    const serve = (guest: Guest, address: string, text: string) =>
      run(
        guest,
        `(/opt/sandbox/node -e 'require("net").createServer((s) => s.on("error", () => {}).end("${text}")).listen(3000, "${address}")' >/dev/null 2>&1 &)
         for i in $(seq 100); do (: </dev/tcp/${address}/3000) 2>/dev/null && break; sleep 0.05; done`,
      );
    await Promise.all([serve(one, "127.0.0.1", "one"), serve(two, "::1", "two")]);
    expect(await readAll(await one.connect(3000))).toBe("one");
    expect(await readAll(await two.connect(3000))).toBe("two");
    await expect(one.connect(3001)).rejects.toMatchObject({ code: "guest_unreachable" });
  });

  test("stands still while it is frozen and goes on where it was", async () => {
    const guest = await start();
    await run(
      guest,
      "(for ((i = 0; ; i++)); do echo $i > /tmp/next; mv /tmp/next /tmp/count; sleep 0.01; done) >/dev/null 2>&1 &",
    );
    const [folder = ""] = readdirSync(join(state.path, "runs"));
    const file = join(state.path, "runs", folder, "guests", guest.id, "tree/tmp/count");
    const count = (): number => Number(readFileSync(file, "utf8"));
    const moves = async (): Promise<void> => {
      const before = existsSync(file) ? count() : -1;
      while (!existsSync(file) || count() <= before) {
        await sleep(5);
      }
    };
    await moves();
    await guest.freeze();
    const frozen = count();
    await sleep(300);
    expect(count()).toBe(frozen);
    await guest.thaw();
    await moves();
    expect((await run(guest, "echo alive")).stdout).toBe("alive\n");
  });

  test("starts with the files of its template, owned by the same users", async () => {
    await using base = temporaryFolder(0o755);
    mkdirSync(join(base.path, "home/user/project"), { recursive: true });
    writeFileSync(join(base.path, "home/user/project/readme"), "hello");
    mkdirSync(join(base.path, "etc"));
    writeFileSync(join(base.path, "etc/motd"), "welcome");
    const guest = await start(false, base.path);
    const { stdout } = await run(
      guest,
      "cat ~/project/readme /etc/motd; stat -c %U ~ ~/project/readme; echo more >> ~/project/readme",
    );
    expect(stdout).toBe("hellowelcomeuser\nuser\n");
    expect((await run(guest, "stat -c %u /etc/motd")).stdout).toBe(host.separateUsers ? "0\n" : "1000\n");
    writeFileSync(join(base.path, "home/user/project/readme"), "changed");
    expect((await run(guest, "cat ~user/project/readme", "root")).stdout).toBe("hellomore\n");
  });

  test("runs sudo where it has two users or one", async () => {
    const guest = await start();
    const { stdout } = await run(
      guest,
      "export SECRET=x; sudo sh -c 'id -u; echo \"[$SECRET]\"'; sudo -E sh -c 'echo \"[$SECRET]\"'; sudo A=1 sh -c 'echo $A'; sudo -u user id -un; sudo --nonsense x 2>&1; echo $?",
    );
    const works = host.isolation === "unshare" || !host.separateUsers;
    expect(works).toBe(true);
    expect(stdout.split("\n")).toEqual([
      host.separateUsers ? "0" : "1000",
      "[]",
      "[x]",
      "1",
      "user",
      "sudo: option --nonsense is not supported in this sandbox",
      "1",
      "",
    ]);
  });

  test("ends with everything it started, and its connections with it", async () => {
    const guest = await start();
    await run(guest, "(setsid sleep 1000 &) >/dev/null 2>&1");
    const connection = await guest.connect(49_983);
    const closed = new Promise<void>((resolve) => {
      connection.once("close", () => resolve());
    });
    connection.on("end", () => connection.end()).resume();
    await guest.destroy();
    await closed;
    expect(await guest.ended).toMatch(/SIGKILL|exit status/);
    await guest.removed();
    await expect(guest.connect(49_983)).rejects.toMatchObject({ code: "guest_unreachable" });
  });

  test("says that it ended when its root kills everything", async () => {
    const guest = await start();
    run(guest, "kill -9 -1; kill -9 1", host.separateUsers ? "root" : "user").catch(() => undefined);
    expect(await guest.ended).toMatch(/signal|exit status/);
  });

  test("cannot put its own socket in the relay's place", async () => {
    const guest = await start();
    const { stdout } = await run(
      guest,
      "cat /proc/net/unix; find /opt /run /tmp /var /home /etc -type s 2>/dev/null",
      "root",
    );
    expect(stdout).not.toContain(state.path);
    expect(stdout).not.toContain(".r\n");
  });

  describe("of the egress lane", () => {
    let guest: Guest;
    const server = createServer({ allowHalfOpen: true }, (socket: Socket) => {
      let text = "";
      socket.on("error", () => socket.destroy());
      socket.on("data", (chunk: Buffer) => {
        text += chunk.toString("latin1");
        if (text.endsWith("\r\n\r\n") || text.endsWith("raw\n")) {
          const [line = ""] = text.split("\r\n");
          const proxied = /proxy-|x-hop/i.test(text) ? "leaked" : "clean";
          socket.end(
            text.startsWith("GET")
              ? `HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n${line} ${proxied}\n`
              : `echo ${text}`,
          );
        }
      });
    });

    beforeAll(async () => {
      await new Promise<void>((resolve) => {
        server.listen(0, "127.0.0.1", resolve);
      });
      reachable = (server.address() as { port: number }).port;
      guest = await start(true);
    }, 60_000);
    afterAll(() => {
      server.close();
    });

    const speak = (port: number, bytes: string) =>
      run(guest, `exec 3<>/dev/tcp/127.0.0.1/${port}; printf '${bytes}' >&3; timeout 10 cat <&3`);

    test("has the proxy variables set", async () => {
      const { stdout } = await run(guest, "echo $http_proxy $HTTPS_PROXY $all_proxy $no_proxy");
      expect(stdout).toBe(
        "http://127.0.0.1:3128 http://127.0.0.1:3128 socks5h://127.0.0.1:1080 localhost,127.0.0.1,::1\n",
      );
    });

    test("gets out through CONNECT and through plain requests", async () => {
      const tunnel = await speak(3128, "CONNECT allowed.test:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\nraw\\n");
      expect(tunnel.stdout).toBe("HTTP/1.1 200 Connection Established\r\n\r\necho raw\n");
      const plain = await speak(
        3128,
        "GET http://allowed.test/a?b=1 HTTP/1.1\\r\\nHost: x\\r\\nProxy-Authorization: x\\r\\nX-Hop: 1\\r\\nConnection: close, x-hop\\r\\n\\r\\n",
      );
      expect(plain.stdout).toContain("\r\n\r\n");
      expect(plain.stdout).toContain("GET /a?b=1 HTTP/1.1 clean");
    });

    test("is refused what the host does not allow, in each protocol's words", async () => {
      expect((await speak(3128, "CONNECT 127.0.0.1:22 HTTP/1.1\\r\\n\\r\\n")).stdout).toContain("403 Forbidden");
      expect((await speak(3128, "CONNECT nonsense HTTP/1.1\\r\\n\\r\\n")).stdout).toContain("400 Bad Request");
      const plain = await speak(
        3128,
        "GET http://denied.test/ HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n",
      );
      expect(plain.stdout).toContain("HTTP/1.1 403 Forbidden");
      expect((await speak(3128, "GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")).stdout).toContain(
        "HTTP/1.1 400",
      );
    });

    test("gets out through SOCKS by name and by address", async () => {
      const hello = "\\x05\\x01\\x00";
      const byName = `${hello}\\x05\\x01\\x00\\x03\\x0callowed.test\\x01\\xbbraw\\n`;
      const ok = "\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00";
      expect((await speak(1080, byName)).stdout).toBe(`${ok}echo raw\n`);
      const six = `${hello}\\x05\\x01\\x00\\x04\\x20\\x01\\x0d\\xb8${"\\x00".repeat(11)}\\x01\\x00\\x50raw\\n`;
      expect((await speak(1080, six)).stdout).toBe(`${ok}echo raw\n`);
      const denied = `${hello}\\x05\\x01\\x00\\x01\\x7f\\x00\\x00\\x01\\x00\\x16`;
      expect((await speak(1080, denied)).stdout.slice(2, 4)).toBe("\x05\x02");
      const bind = `${hello}\\x05\\x02\\x00\\x01\\x7f\\x00\\x00\\x01\\x00\\x16`;
      expect((await speak(1080, bind)).stdout.slice(2, 4)).toBe("\x05\x07");
      expect((await speak(1080, "\\x05\\x01\\x02")).stdout).toContain("\x05");
    });

    test("has no other way, and none once it is shut", async () => {
      const direct = await run(guest, "timeout 2 bash -c ': </dev/tcp/192.0.2.1/80' 2>&1");
      expect(direct.stdout).toMatch(/unreachable/i);
      guest.setEgress(false);
      expect((await speak(3128, "CONNECT allowed.test:443 HTTP/1.1\\r\\n\\r\\n")).stdout).toContain("403 Forbidden");
      guest.setEgress(true);
      expect((await speak(3128, "CONNECT allowed.test:443 HTTP/1.1\\r\\n\\r\\nraw\\n")).stdout).toContain(
        "200 Connection",
      );
    });
  });
});

describe("a node without isolation", () => {
  test("says so loudly, serves loopback only, and runs commands in a folder of its own", async () => {
    await using state = temporaryFolder();
    const warnings: string[] = [];
    const logger = {
      debug: () => undefined,
      info: () => undefined,
      warn: (_: object, message: string) => void warnings.push(message),
      error: () => undefined,
    };
    await expect(
      startDevNode({
        stateDir: state.path,
        isolation: "process",
        listen: { host: "0.0.0.0", port: 0 },
        advertise: "h:1",
      }),
    ).rejects.toMatchObject({ code: "invalid_option" });
    await using node = await startDevNode({ stateDir: state.path, isolation: "process", token: "t", logger });
    expect(warnings.join()).toContain("NOT ISOLATED");
    const api = nodeApi(node.address, "t");
    const [one, two] = [await api.claim(), await api.claim()];
    const { stdout } = await runInGuest(
      api,
      one,
      "echo $E2B_SANDBOX_ID; echo x > mine; pwd; (sleep 1000 &) >/dev/null 2>&1",
    );
    expect(stdout).toContain(one.id);
    expect(stdout).toContain(join(one.id, "tree/home/user"));
    expect((await runInGuest(api, two, "ls")).stdout).toBe("");
    expect((await api.call("POST", `/v1/sandboxes/${one.id}/hibernate`)).status).toBe(204);
    expect((await runInGuest(api, one, "cat mine")).stdout).toBe("x\n");
  }, 60_000);
});
