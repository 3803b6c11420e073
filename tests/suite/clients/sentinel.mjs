// What ioredis does with Sentinels of the emulator. REDIS_SENTINELS has their addresses; they allow control.

import assert from "node:assert";
import { once } from "node:events";
import Redis from "ioredis";

const sentinels = process.env.REDIS_SENTINELS.split(" ").map((address) => {
  const [host, port] = address.split(":");
  return { host, port: Number(port) };
});
const watch = new Redis(sentinels[1]);
const find = async () => (await watch.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster")).join(":");
await watch.call("EMULATOR", "RESET");

const options = { sentinels, name: "mymaster", sentinelRetryStrategy: null };
const detecting = new Redis({ ...options, failoverDetector: true });
const plain = new Redis(options);
const replica = new Redis({ ...options, role: "slave" });
await Promise.all([detecting, plain, replica].map((client) => client.status === "ready" || once(client, "ready")));
await plain.set("k", "v");
assert.equal(await replica.get("k"), "v");

// Only the client that listens to the Sentinels notices; the other one writes to the old primary.
const before = await find();
const reconnected = once(detecting, "ready");
await watch.call("SENTINEL", "FAILOVER", "mymaster");
assert.notEqual(await find(), before);
await reconnected;
assert.equal(await detecting.set("k", "new"), "OK");
assert.equal(await plain.set("k", "old"), "OK");
assert.equal(await detecting.get("k"), "new");

// The Sentinels make the old primary a replica, which closes its connections.
const closed = once(plain, "close");
await watch.call("EMULATOR", "CLOCK", "ADVANCE", 8000);
await find();
await closed;
assert.equal(await plain.get("k"), "new");
await watch.call("EMULATOR", "RESET");
console.log("ioredis with Sentinels: ok");
[watch, detecting, plain, replica].forEach((client) => client.disconnect());
