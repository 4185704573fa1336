import { once } from "node:events";
import { connect } from "node:net";

import { describe, expect, it } from "vitest";

import { createEnvd } from "./envd.ts";
import { startGuest, type TestGuest } from "./testing/guest.ts";
import { envelope, openStream } from "./testing/raw-stream.ts";
import { sh } from "./testing/run.ts";

const JSON_TYPE = { "content-type": "application/json" };
const UNAUTHORIZED = {
  code: 401,
  message: "unauthorized access, please provide a valid access token or method signing if supported",
};

function init(guest: TestGuest, body: unknown, headers: Record<string, string> = {}): ReturnType<TestGuest["call"]> {
  return guest.call("POST", "/init", { headers, body: typeof body === "string" ? body : JSON.stringify(body) });
}

/** Sends bytes as they are and gives back everything until the connection ends. */
async function rawExchange(port: number, bytes: string): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined);
  let received = "";
  socket.on("data", (data) => (received += data.toString("latin1")));
  socket.write(bytes);
  await once(socket, "close");
  return received;
}

describe("routes", () => {
  it("answer health without content", async () => {
    await using guest = await startGuest();
    const reply = await guest.call("GET", "/health");
    expect([reply.status, reply.text, reply.headers["cache-control"]]).toEqual([204, "", "no-store"]);
    expect(reply.headers["content-type"]).toBeUndefined();
  });

  it("give the default variables", async () => {
    await using guest = await startGuest({ environment: { PROXY: "http://127.0.0.1:3128" } });
    await init(guest, { envVars: { A: "1", E2B_SANDBOX: "no" } });
    const reply = await guest.call("GET", "/envs");
    expect(reply.headers).toMatchObject({ "content-type": "application/json", "cache-control": "no-store" });
    expect(reply.json()).toEqual({
      A: "1",
      PROXY: "http://127.0.0.1:3128",
      E2B_SANDBOX: "true",
      E2B_SANDBOX_ID: "sb-test",
      E2B_TEMPLATE_ID: "base",
    });
  });

  it("give numbers of the system", async () => {
    await using guest = await startGuest({ now: () => 1_700_000_000_999 });
    const first = (await guest.call("GET", "/metrics")).json() as Record<string, number>;
    expect(Object.keys(first).toSorted((a, b) => a.localeCompare(b))).toEqual([
      "cpu_count",
      "cpu_used_pct",
      "disk_total",
      "disk_used",
      "mem_cache",
      "mem_total",
      "mem_total_mib",
      "mem_used",
      "mem_used_mib",
      "ts",
    ]);
    expect(first["ts"]).toBe(1_700_000_000);
    for (const value of Object.values(first)) expect(value).toBeGreaterThanOrEqual(0);
    expect(first["mem_used"]).toBeLessThan(first["mem_total"] ?? 0);
    expect(first["disk_used"]).toBeLessThan(first["disk_total"] ?? 0);
    expect(first["cpu_used_pct"]).toBeLessThanOrEqual(100);
  });

  it("give the numbers of the embedder", async () => {
    const numbers = {
      cpuCount: 2,
      memTotal: 3 * 1024 * 1024,
      memUsed: 1024 * 1024,
      memCache: 5,
      diskUsed: 6,
      diskTotal: 7,
    };
    await using guest = await startGuest({ metrics: async () => ({ ...numbers, cpuUsedPercent: 12.3456 }) });
    expect((await guest.call("GET", "/metrics")).json()).toMatchObject({
      cpu_count: 2,
      cpu_used_pct: 12.35,
      mem_total_mib: 3,
      mem_used_mib: 1,
      disk_total: 7,
    });
  });

  it.each([
    ["GET", "/", 404],
    ["GET", "/files/", 404],
    ["GET", "/Health", 404],
    ["GET", "/health/..", 404],
    ["GET", "/constructor", 404],
    ["GET", "/filesystem.Filesystem/", 404],
    ["POST", "/process.Process/Nothing", 404],
    ["POST", "/health", 405],
    ["HEAD", "/files", 405],
    ["PUT", "/files", 405],
    ["GET", "/init", 405],
    ["GET", "/process.Process/List", 405],
    ["POST", "/files/compose", 501],
  ])("answer %s %s with %i and a JSON body", async (method, path, status) => {
    await using guest = await startGuest();
    const reply = await guest.call(method, path);
    expect([reply.status, reply.headers["content-type"]]).toEqual([status, "application/json; charset=utf-8"]);
    if (method !== "HEAD") expect(reply.json()).toEqual({ code: status, message: expect.stringContaining(path) });
    if (status === 405) expect(reply.headers.allow).toMatch(/^(GET|POST)/);
  });

  it.each([
    ["bytes that are not HTTP", "\x01\x02\x03\r\n\r\n", 400],
    ["a header over the limit", `GET /health HTTP/1.1\r\nhost: x\r\nx: ${"y".repeat(1_100_000)}\r\n\r\n`, 431],
    ["an unknown expectation", "GET /health HTTP/1.1\r\nhost: x\r\nexpect: miracles\r\nconnection: close\r\n\r\n", 417],
  ])("answer %s with a JSON body", async (_what, bytes, status) => {
    await using guest = await startGuest();
    const received = await rawExchange(guest.port, bytes);
    expect(received).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    const body = received.slice(received.indexOf("\r\n\r\n") + 4);
    expect(JSON.parse(body)).toEqual({ code: status, message: expect.any(String) });
    expect((await guest.call("GET", "/health")).status).toBe(204);
  });

  it("read every field of a head that a proxy lets through, however long it is", async () => {
    await using guest = await startGuest({ accessToken: "secret" });
    const fields = `cookie: ${"c".repeat(500_000)}\r\n${"x: y\r\n".repeat(3000)}`;
    const ask = (token: string): Promise<string> =>
      rawExchange(
        guest.port,
        `GET /envs HTTP/1.1\r\nhost: x\r\n${fields}x-access-token: ${token}\r\nconnection: close\r\n\r\n`,
      );
    expect(await ask("secret")).toMatch(/^HTTP\/1.1 200 /);
    expect(await ask("other")).toMatch(/^HTTP\/1.1 401 /);
  });

  const upload = (rest = ""): string =>
    `POST /files?path=/tmp/behind HTTP/1.1\r\nhost: x\r\ncontent-type: application/octet-stream\r\n${rest}content-length: 3\r\n\r\nabc`;
  const closing = upload("connection: close\r\n");
  const chunked = "POST /init HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
  it.each([
    ["another request behind a closing one", closing + upload(), [200]],
    ["garbage behind a closing one", `${closing}\0\x01`, [200]],
    ["garbage", `${upload()}\0\x01`, [200, 400]],
    ["garbage behind several", `${upload() + upload()}\0\x01`, [200, 200, 400]],
    ["a head over the limit", `${upload()}GET /${"x".repeat(1_100_000)}`, [200, 431]],
    ["a second body that breaks", `${upload()}${chunked}zz\r\n`, [200, 400]],
    ["a body that breaks", `${chunked}zz\r\n`, [400]],
  ])("are answered as what they were whatever stands behind them: %s", async (_what, bytes, statuses) => {
    await using guest = await startGuest();
    const received = await rawExchange(guest.port, bytes);
    expect([...received.matchAll(/HTTP\/1\.1 (\d{3})/g)].map((match) => Number(match[1]))).toEqual(statuses);
  });

  it("are closed with the daemon", async () => {
    const envd = createEnvd({ sandboxId: "x", templateId: "x" });
    await envd.close();
    const { createEnvdServer } = await import("./http/server.ts");
    const server = createEnvdServer(envd).listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    expect(await rawExchange(port, "GET /health HTTP/1.1\r\nhost: x\r\n\r\n")).toMatch(/^HTTP\/1.1 503 .*"code":503/s);
    server.close();
  });
});

describe("the access token", () => {
  const TOKEN = "token-of-the-guest";

  it.each([
    ["GET", "/envs"],
    ["GET", "/metrics"],
    ["POST", "/process.Process/List"],
    ["POST", "/process.Process/Start"],
    ["POST", "/filesystem.Filesystem/Stat"],
    ["GET", "/nowhere"],
    ["POST", "/health"],
    ["POST", "/files/compose"],
    ["PUT", "/files"],
    ["GET", "/init"],
  ])("is asked for by %s %s, in plain JSON", async (method, path) => {
    await using guest = await startGuest({ accessToken: TOKEN });
    for (const headers of [
      {},
      { "x-access-token": "wrong" },
      { "x-access-token": `${TOKEN}x` },
      { "x-access-token": "" },
    ]) {
      const reply = await guest.call(method, path, { headers });
      expect([reply.status, reply.json()]).toEqual([401, UNAUTHORIZED]);
      expect(reply.headers["content-type"]).toBe("application/json; charset=utf-8");
    }
  });

  it("opens everything, and health needs none", async () => {
    await using guest = await startGuest({ accessToken: TOKEN });
    const headers = { "x-access-token": TOKEN };
    expect((await guest.call("GET", "/health")).status).toBe(204);
    expect((await guest.call("GET", "/envs", { headers })).status).toBe(200);
    expect((await sh(guest.process({ headers }), "echo in")).stdout.toString()).toBe("in\n");
  });

  it("is asked for before users are looked at", async () => {
    await using guest = await startGuest({ accessToken: TOKEN });
    const authorization = `Basic ${Buffer.from("ghost:").toString("base64")}`;
    expect((await guest.call("GET", "/envs", { headers: { authorization } })).json()).toEqual(UNAUTHORIZED);
    const reply = await guest.call("GET", "/envs", { headers: { authorization, "x-access-token": TOKEN } });
    expect([reply.status, reply.json()]).toEqual([
      401,
      { code: "unauthenticated", message: "invalid username: 'ghost'" },
    ]);
  });

  it.each(["Bearer abc", "Basic", "Basic !!!", "Digest x", `Basic ${Buffer.from("no-colon").toString("base64")}`])(
    "is all that counts beside the header Authorization: %s",
    async (authorization) => {
      await using guest = await startGuest();
      expect((await guest.call("GET", "/envs", { headers: { authorization } })).status).toBe(200);
    },
  );
});

describe("POST /init", () => {
  it("sets token, user, directory and variables, and replaces variables as a whole", async () => {
    await using guest = await startGuest({ defaultUser: "root" });
    const body = {
      accessToken: "one",
      envVars: { A: "1", B: "2" },
      defaultUser: "user",
      defaultWorkdir: "/usr",
      timestamp: new Date().toISOString(),
      volumeMounts: [{ path: "/x" }],
      lifecycleID: "y",
    };
    const reply = await init(guest, body);
    expect([reply.status, reply.text, reply.headers["cache-control"], reply.headers["x-envd-version"]]).toEqual([
      204,
      "",
      "no-store",
      "0.8.0",
    ]);
    const headers = { "x-access-token": "one" };
    const show = async (): Promise<string> =>
      (await sh(guest.process({ headers }), "echo $USER $A$B$C; pwd")).stdout.toString();
    expect(await show()).toBe("user 12\n/usr\n");
    await init(guest, { accessToken: "one", envVars: { C: "3" }, defaultUser: "", defaultWorkdir: null });
    expect(await show()).toBe("user 3\n/usr\n");
  });

  it("lets only those change the token who have it", async () => {
    await using guest = await startGuest({ accessToken: "old" });
    for (const [body, headers] of [
      [{}, {}],
      ["", {}],
      [{ accessToken: "new" }, {}],
      [{ accessToken: "new" }, { "x-access-token": "new" }],
      [{ accessToken: "" }, { "x-access-token": "" }],
    ] as const) {
      const reply = await init(guest, body, headers);
      expect([reply.status, reply.json()]).toMatchObject([401, { code: 401 }]);
    }
    const withOld = { headers: { "x-access-token": "old" } };
    expect((await guest.call("GET", "/envs", withOld)).status).toBe(200);
    expect((await init(guest, { accessToken: "old" })).status).toBe(204);
    expect((await init(guest, { accessToken: "new" }, { "x-access-token": "old" })).status).toBe(204);
    expect((await guest.call("GET", "/envs", withOld)).status).toBe(401);
    expect((await init(guest, {}, { "x-access-token": "new" })).status).toBe(204);
    expect((await guest.call("GET", "/envs")).status).toBe(200);
  });

  it("drops what is older than the last one, to the nanosecond", async () => {
    await using guest = await startGuest();
    const at = (timestamp: string, value: string): Promise<unknown> =>
      init(guest, { timestamp, envVars: { V: value } });
    const value = async (): Promise<unknown> =>
      ((await guest.call("GET", "/envs")).json() as Record<string, string>)["V"];
    await at("2030-01-01T00:00:00.000000002Z", "first");
    await at("2030-01-01T00:00:00.000000001Z", "older");
    await at("2030-01-01T00:00:00.000000002Z", "same");
    await at("2030-01-01T00:30:00.9+01:00", "another zone, half an hour older");
    expect(await value()).toBe("first");
    await at("2029-12-31T23:00:00.000000003-01:00", "newer");
    expect(await value()).toBe("newer");
    await init(guest, { envVars: { V: "untimed" } });
    expect(await value()).toBe("untimed");
  });

  it.each([
    ["no JSON", "{"],
    ["a list", "[]"],
    ["a text", '"x"'],
    ["null", "null"],
    ["a number for the token", { accessToken: 5 }],
    ["a backslash in the token", { accessToken: "a\\b" }],
    ["a list for the variables", { envVars: [] }],
    ["a number for a variable", { envVars: { A: 1 } }],
    ["a NUL in a variable", { envVars: { A: "\0" } }],
    ["a name no environment can hold", { envVars: { "A=B": "x" } }],
    ["a number for the user", { defaultUser: 1 }],
    ["a time that is none", { timestamp: "yesterday" }],
    ["a day that is none", { timestamp: "2030-13-01T00:00:00Z" }],
  ])("refuses %s and changes nothing", async (_what, body) => {
    await using guest = await startGuest();
    await init(guest, { envVars: { KEPT: "1" } });
    const reply = await init(guest, body);
    expect([reply.status, reply.json()]).toEqual([400, { code: 400, message: expect.any(String) }]);
    expect((await guest.call("GET", "/envs")).json()).toMatchObject({ KEPT: "1" });
  });

  it.each(["", " \n", "{}"])("takes the body %j as one without fields", async (body) => {
    await using guest = await startGuest();
    await init(guest, { envVars: { A: "1" } });
    expect((await init(guest, body)).status).toBe(204);
    expect((await guest.call("GET", "/envs")).json()).not.toHaveProperty("A");
  });
});

describe("browsers of other origins", () => {
  const origin = "https://app.example.test";

  it("are let in before any check", async () => {
    await using guest = await startGuest({ accessToken: "t" });
    const reply = await guest.call("OPTIONS", "/process.Process/Start", {
      headers: {
        origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "connect-protocol-version,x-access-token",
      },
    });
    expect(reply.status).toBe(204);
    expect(reply.headers).toMatchObject({
      "access-control-allow-origin": "*",
      "access-control-allow-methods": "POST",
      "access-control-allow-headers": "connect-protocol-version,x-access-token",
      "access-control-max-age": "7200",
    });
  });

  it("are not allowed methods that nobody serves", async () => {
    await using guest = await startGuest();
    const reply = await guest.call("OPTIONS", "/files", {
      headers: { origin, "access-control-request-method": "TRACE" },
    });
    expect([reply.status, reply.headers["access-control-allow-methods"]]).toEqual([204, undefined]);
  });

  it("may read every answer, refusals included", async () => {
    await using guest = await startGuest({ accessToken: "t" });
    for (const [path, status] of [
      ["/health", 204],
      ["/envs", 401],
      ["/files?path=x", 401],
    ] as const) {
      const reply = await guest.call("GET", path, { headers: { origin } });
      expect([reply.status, reply.headers["access-control-allow-origin"]]).toEqual([status, "*"]);
      expect(reply.headers["access-control-expose-headers"]).toContain("Grpc-Status");
    }
  });
});

describe("Connect calls", () => {
  it.each([
    ["application/json", "/process.Process/Start", 415],
    ["application/connect+json", "/process.Process/List", 415],
    ["application/grpc", "/process.Process/List", 415],
    ["application/grpc-web+proto", "/process.Process/List", 415],
    ["application/json; charset=latin1", "/process.Process/List", 415],
    ["text/plain", "/process.Process/List", 415],
    ["application/json; charset=utf-8", "/process.Process/List", 200],
    ["Application/JSON", "/process.Process/List", 200],
    ["application/proto", "/process.Process/List", 200],
  ])("of type %s on %s are answered with %i", async (type, path, status) => {
    await using guest = await startGuest();
    const body = type.includes("proto") ? "" : "{}";
    const reply = await guest.call("POST", path, { headers: { "content-type": type }, body });
    expect(reply.status).toBe(status);
    if (status === 415) {
      expect(reply.json()).toMatchObject({ code: 415 });
      expect(reply.headers["accept-post"]).toContain("json");
    }
  });

  it.each(["process.Process/Start", "process.Process/Connect", "process.Process/List"])(
    "of %s get no head before their request is complete",
    async (method) => {
      await using guest = await startGuest();
      const unary = method.endsWith("List");
      const socket = connect(guest.port, "127.0.0.1");
      socket.on("error", () => undefined);
      let received = "";
      socket.on("data", (data) => (received += data.toString("latin1")));
      socket.write(
        `POST /${method} HTTP/1.1\r\nHost: guest\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n` +
          `Content-Type: application/${unary ? "" : "connect+"}json\r\n\r\n`,
      );
      // The daemon has seen the head by the time it has answered a later request.
      expect((await guest.call("GET", "/health")).status).toBe(204);
      expect(received).toBe("");
      const message = method.endsWith("Start") ? { process: { cmd: "/bin/true" } } : {};
      const body = unary ? Buffer.from(JSON.stringify(message)) : envelope(message);
      socket.write(Buffer.concat([Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from("\r\n")]));
      expect((await guest.call("GET", "/health")).status).toBe(204);
      expect(received).toBe("");
      socket.write("0\r\n\r\n");
      await once(socket, "close");
      expect(received).toMatch(/^HTTP\/1\.1 200 /);
    },
  );

  it.each([
    ["a body that is not JSON", "{", {}, 400, "invalid_argument"],
    ["an empty body", "", {}, 400, "invalid_argument"],
    ["bytes that are not UTF-8", Buffer.from([0x22, 0xff, 0x22]), {}, 400, "invalid_argument"],
    ["a field of the wrong type", '{"path":5}', {}, 400, "invalid_argument"],
    ["a compressed body", "{}", { "content-encoding": "gzip" }, 501, "unimplemented"],
    ["a time limit that is none", "{}", { "connect-timeout-ms": "60000.0" }, 400, "invalid_argument"],
    ["a body over the limit", JSON.stringify({ path: "x".repeat(3000) }), {}, 429, "resource_exhausted"],
  ])("with %s get a unary error", async (_what, body, headers, status, code) => {
    await using guest = await startGuest({ maxMessageBytes: 2000 });
    const reply = await guest.call("POST", "/filesystem.Filesystem/Stat", {
      headers: { ...JSON_TYPE, ...headers },
      body,
    });
    expect([reply.status, reply.headers["content-type"], reply.json()]).toEqual([
      status,
      "application/json",
      { code, message: expect.any(String) },
    ]);
  });

  it.each([
    ["no message", Buffer.alloc(0), "unimplemented"],
    ["two messages", Buffer.concat([envelope({}), envelope({})]), "unimplemented"],
    ["a message cut short", envelope({ process: { cmd: "true" } }).subarray(0, -1), "invalid_argument"],
    ["a head cut short", Buffer.from([0, 0, 0]), "invalid_argument"],
    ["a compressed message", envelope({}, 1), "internal"],
    ["unknown flags", envelope({}, 4), "invalid_argument"],
    ["a message over the limit", Buffer.from([0, 255, 255, 255, 255]), "resource_exhausted"],
    ["a message that is not JSON", Buffer.from([0, 0, 0, 0, 1, 0x7b]), "invalid_argument"],
    ["no process", envelope({}), "invalid_argument"],
  ])("with %s get a stream error", async (_what, body, code) => {
    await using guest = await startGuest();
    const stream = await openStream(guest.port, "/process.Process/Start", body);
    expect([stream.res.statusCode, stream.res.headers["content-type"]]).toEqual([200, "application/connect+json"]);
    expect(await stream.all()).toEqual([{ flags: 2, json: { error: { code, message: expect.any(String) } } }]);
  });

  it("read fields by both names, numbers as text and unknown fields", async () => {
    await using guest = await startGuest();
    const body = JSON.stringify({ path: "~", depth: "1", later_field: { a: 1 } });
    const reply = await guest.call("POST", "/filesystem.Filesystem/ListDir", { headers: JSON_TYPE, body });
    expect([reply.status, reply.json()]).toEqual([200, {}]);
  });

  it("send the head of a stream before anything happens", async () => {
    await using guest = await startGuest();
    const stream = await openStream(
      guest.port,
      "/process.Process/Start",
      envelope({ process: { cmd: "sleep", args: ["100"] } }),
    );
    expect(stream.res.statusCode).toBe(200);
    expect(stream.res.headers["content-encoding"]).toBeUndefined();
    stream.req.destroy();
  });

  it("survive clients that leave at every moment", async () => {
    await using guest = await startGuest();
    const body = envelope({ process: { cmd: "/bin/sh", args: ["-c", "echo a; sleep 0.05; echo b"] }, stdin: false });
    const bytes = Buffer.concat([
      Buffer.from(
        `POST /process.Process/Start HTTP/1.1\r\nhost: x\r\ncontent-type: application/connect+json\r\ncontent-length: ${body.length}\r\n\r\n`,
      ),
      body,
    ]);
    await Promise.all(
      Array.from({ length: 60 }, async (_, index) => {
        const socket = connect(guest.port, "127.0.0.1");
        socket.on("error", () => undefined);
        await once(socket, "connect");
        socket.write(bytes.subarray(0, Math.ceil((bytes.length * index) / 50)));
        socket.resume();
        setTimeout(() => (index % 2 === 0 ? socket.resetAndDestroy() : socket.end()), index);
        await once(socket, "close");
      }),
    );
    await expect.poll(async () => (await guest.process().list({})).processes.length).toBe(0);
    expect((await sh(guest.process(), "echo alive")).stdout.toString()).toBe("alive\n");
    expect(guest.logs.filter(({ level }) => level === "error")).toEqual([]);
  });
});
