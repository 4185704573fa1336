// Loaded before the client: names below `localhost` are loopback, as they are for browsers, curl and the Python SDK. Node
// asks the system's resolver instead, and not every system has one that knows them.
import dns, { type LookupAddress, type LookupOptions } from "node:dns";

type Callback = (error: Error | null, address: string | LookupAddress[], family?: number) => void;
type Lookup = (hostname: string, options: LookupOptions | number | Callback, callback?: Callback) => void;

const others = dns.lookup as unknown as Lookup;

const lookup: Lookup = (hostname, options, callback) => {
  const answer = typeof options === "function" ? options : callback;
  if (answer === undefined || !hostname.endsWith(".localhost")) {
    others(hostname, options, callback);
    return;
  }
  const all = typeof options === "object" && options.all === true;
  process.nextTick(() => (all ? answer(null, [{ address: "127.0.0.1", family: 4 }]) : answer(null, "127.0.0.1", 4)));
};

Object.assign(dns, { lookup });
