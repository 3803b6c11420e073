// What ioredis does with the emulator. REDIS_URL names a server that allows control.

import assert from "node:assert";
import { createRequire } from "node:module";
import Redis from "ioredis";

const opened = [];

function connect(options = {}) {
  const client = new Redis(process.env.REDIS_URL, { retryStrategy: null, maxRetriesPerRequest: 0, ...options });
  // What fails says so where it is awaited.
  client.on("error", () => {});
  opened.push(client);
  return client;
}

const clock = (r, ...words) => r.call("EMULATOR", "CLOCK", ...words);
const fault = (r, ...words) => r.call("EMULATOR", "FAULT", ...words);

// The server says when so many clients wait: no guess, no sleep.
async function blocked(r, n) {
  assert((await r.call("EMULATOR", "WAIT-BLOCKED", n)) >= n);
}

const nextEvent = (emitter, name) => new Promise((resolve) => emitter.once(name, (...args) => resolve(args)));

const tests = {
  async "ready check"(r) {
    assert.equal(r.status, "ready");
    assert.match(await r.info("server"), /^redis_version:7\.0\.15\r$/m);
    const named = connect({ db: 3, connectionName: "me" });
    assert.equal(await named.client("GETNAME"), "me");
    await named.set("here", 1);
    assert.equal(await r.exists("here"), 0);
  },

  async "expiry"(r) {
    await r.set("k", "v", "PX", 1000);
    await clock(r, "ADVANCE", 1000);
    assert.equal(await r.get("k"), "v");
    await clock(r, "ADVANCE", 1);
    assert.equal(await r.get("k"), null);
  },

  async "lock"(r) {
    r.defineCommand("release", {
      numberOfKeys: 1,
      lua: "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
    });
    assert.equal(await r.set("lock", "a", "PX", 10_000, "NX"), "OK");
    assert.equal(await r.set("lock", "b", "PX", 10_000, "NX"), null);
    assert.equal(await r.release("lock", "b"), 0);
    assert.equal(await r.release("lock", "a"), 1);
    await r.script("FLUSH");
    assert.equal(await r.release("lock", "a"), 0, "EVALSHA fails, and EVAL follows");
  },

  async "pipeline"(r) {
    const replies = await r.pipeline().set("k", 1).incr("k").get("k").lpush("k", 1).exec();
    assert.deepEqual(replies.slice(0, 3), [[null, "OK"], [null, 2], [null, "2"]]);
    assert.match(replies[3][0].message, /^WRONGTYPE/);
  },

  async "transaction"(r) {
    assert.deepEqual(await r.multi().set("n", 1).incr("n").exec(), [[null, "OK"], [null, 2]]);
    await r.watch("n");
    await connect().incr("n");
    assert.equal(await r.multi().set("n", 0).exec(), null);
    assert.equal(await r.get("n"), "3");
  },

  async "pub/sub"(r) {
    const listener = connect();
    assert.equal(await listener.subscribe("news"), 1);
    assert.equal(await listener.psubscribe("w*"), 2);
    const [message, pmessage] = [nextEvent(listener, "message"), nextEvent(listener, "pmessage")];
    assert.deepEqual([await r.publish("news", "a"), await r.publish("weather", "b")], [1, 1]);
    assert.deepEqual(await message, ["news", "a"]);
    assert.deepEqual(await pmessage, ["w*", "weather", "b"]);
  },

  async "blocking"(r) {
    const popped = connect().blpop("list", 0);
    await blocked(r, 1);
    await r.rpush("list", "a");
    assert.deepEqual(await popped, ["list", "a"]);
    const timedOut = connect().blpop("list", 3600);
    await blocked(r, 1);
    await clock(r, "ADVANCE", 3_600_000);
    assert.equal(await timedOut, null);
  },

  async "types"(r) {
    await r.hset("hash", { a: 1, b: 2 });
    assert.deepEqual(await r.hgetall("hash"), { a: "1", b: "2" });
    await r.sadd("set", "a", "b");
    assert.deepEqual((await r.smembers("set")).sort(), ["a", "b"]);
    await r.zadd("zset", 1, "a", 2.5, "b");
    assert.equal(Number(await r.zscore("zset", "b")), 2.5);
    const keys = [];
    for await (const page of r.scanStream()) keys.push(...page);
    assert.deepEqual(keys.sort(), ["hash", "set", "zset"]);
  },

  async "faults"(r) {
    const victim = connect({ connectionName: "victim" });
    assert.equal(await victim.incr("n"), 1);
    await fault(r, "DROP-AFTER", "CLIENT", "victim");
    await assert.rejects(victim.incr("n"));
    assert.equal(await r.get("n"), "2");
    await fault(r, "ERROR", "LOADING", "COMMAND", "get");
    await assert.rejects(r.get("n"), /^ReplyError: LOADING Redis is loading the dataset in memory/);
    await fault(r, "TWICE", "COMMAND", "incr");
    assert.equal(await r.incr("n"), 4);
  },
};

const { version } = createRequire(import.meta.url)("ioredis/package.json");
for (const [name, test] of Object.entries(tests)) {
  try {
    const r = connect();
    await nextEvent(r, "ready");
    await r.call("EMULATOR", "RESET");
    await clock(r, "FREEZE");
    await test(r);
  } catch (error) {
    console.log(`ioredis ${version}: ${name} failed`);
    throw error;
  } finally {
    for (const client of opened.splice(0)) client.disconnect();
  }
}
console.log(`ioredis ${version}: ${Object.keys(tests).length} tests passed`);
