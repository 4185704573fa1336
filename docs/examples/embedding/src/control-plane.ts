import { createServer, type E2bServer } from "@org/e2bcompat";
import { bindListener, createProxy, serve } from "@org/envdproxy";
import { MeshInventory } from "@org/meshinventory";
import { createNodePool } from "@org/sandboxd-client";
import { createStore } from "@org/scale";
import { createNodeClients } from "@org/scale/sandboxd";

/** What the examples need to know. */
export interface Settings {
  /** A node of the mesh, `host:port`. */
  readonly seed: string;
  /** The nodes' own token. A secret. */
  readonly token: string;
  /** The key that E2B clients send. A secret. */
  readonly key: string;
  /** Key of the access tokens that clients get for their sandboxes. A secret. */
  readonly envdSecret: string;
  readonly domain: string;
}

/** The two surfaces over one store. Nothing listens for the control plane: that is the framework's part. */
export interface ControlPlane extends AsyncDisposable {
  readonly e2b: E2bServer;
  /** `E2B_SANDBOX_URL` of clients. */
  readonly sandboxUrl: string;
}

/** Joins a mesh, and serves the data plane on a free port of loopback. */
export async function openControlPlane({ seed, token, key, envdSecret, domain }: Settings): Promise<ControlPlane> {
  const life = new AbortController();
  const { signal } = life;
  const polls = createNodePool();
  const calls = createNodePool();
  const inventory = await MeshInventory.start({ seeds: [seed], pool: polls, token, signal });
  const store = createStore(inventory, { clients: createNodeClients({ pool: calls, token }) });
  const e2b = createServer(store, {
    inventory,
    domain,
    envdSecret,
    keys: [{ key, namespace: "default" }],
    aliases: [{ alias: "base", image: "base", size: "small" }],
  });
  const proxy = createProxy({ store, domain, envdSecret });
  const listener = await bindListener("127.0.0.1:0");
  const served = serve(listener, proxy, { signal });
  return {
    e2b,
    sandboxUrl: `http://${listener.address}`,
    async [Symbol.asyncDispose]() {
      // Sandboxes whose creators hung up are released first.
      await e2b.settled();
      life.abort();
      await served;
      proxy.close();
      await polls.close();
      await calls.close();
    },
  };
}
