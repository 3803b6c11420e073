// What node-redis does with the emulator, on RESP2 and RESP3. REDIS_URL names a server that allows control.

import assert from "node:assert";
import { createRequire } from "node:module";
import { WatchError, createClient, defineScript } from "redis";

const release = defineScript({
  NUMBER_OF_KEYS: 1,
  SCRIPT: "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
  parseCommand(parser, key, owner) {
    parser.pushKey(key);
    parser.push(owner);
  },
  transformReply: (reply) => reply,
});

// Clients of an empty server whose clock stands.
class Session {
  opened = [];

  constructor(protocol) {
    this.protocol = protocol;
  }

  async begin() {
    this.r = await this.connect();
    await this.r.sendCommand(["EMULATOR", "RESET"]);
    await this.clock("FREEZE");
  }

  async connect(options = {}) {
    const client = createClient({
      url: process.env.REDIS_URL,
      RESP: this.protocol,
      scripts: { release },
      socket: { reconnectStrategy: false },
      ...options,
    });
    // What fails says so where it is awaited.
    client.on("error", () => {});
    this.opened.push(client);
    return client.connect();
  }

  clock(...words) {
    return this.r.sendCommand(["EMULATOR", "CLOCK", ...words]);
  }

  fault(...words) {
    return this.r.sendCommand(["EMULATOR", "FAULT", ...words]);
  }

  // The server says when so many clients wait: no guess, no sleep.
  async blocked(n) {
    assert((await this.r.sendCommand(["EMULATOR", "WAIT-BLOCKED", String(n)])) >= n);
  }

  end() {
    for (const client of this.opened) if (client.isOpen) client.destroy();
  }
}

const tests = {
  async ready(s) {
    assert.equal(await s.r.ping(), "PONG");
    assert.match(await s.r.info("server"), /^redis_version:7\.0\.15\r$/m);
    const named = await s.connect({ database: 3, name: "me" });
    assert.equal(await named.clientGetName(), "me");
    await named.set("here", 1);
    assert.equal(await s.r.exists("here"), 0);
  },

  async expiry(s) {
    await s.r.set("k", "v", { expiration: { type: "PX", value: 1000 } });
    await s.clock("ADVANCE", "1000");
    assert.equal(await s.r.get("k"), "v", "at the deadline it is still there");
    await s.clock("ADVANCE", "1");
    assert.equal(await s.r.get("k"), null);
  },

  async lock(s) {
    const lease = { condition: "NX", expiration: { type: "PX", value: 10_000 } };
    assert.equal(await s.r.set("lock", "a", lease), "OK");
    assert.equal(await s.r.set("lock", "b", lease), null);
    assert.equal(await s.r.release("lock", "b"), 0);
    assert.equal(await s.r.release("lock", "a"), 1);
    await s.r.scriptFlush();
    assert.equal(await s.r.release("lock", "a"), 0, "EVALSHA fails, and EVAL follows");
  },

  async pipeline(s) {
    assert.deepEqual(await Promise.all([s.r.set("k", 1), s.r.incr("k"), s.r.get("k")]), ["OK", 2, "2"]);
    await assert.rejects(s.r.lPush("k", "1"), /^(SimpleError|Error): WRONGTYPE/);
  },

  async transaction(s) {
    assert.deepEqual(await s.r.multi().set("n", 1).incr("n").exec(), ["OK", 2]);
    const careful = await s.connect();
    await careful.watch("n");
    await s.r.incr("n");
    await assert.rejects(careful.multi().set("n", 0).exec(), WatchError);
    assert.equal(await s.r.get("n"), "3");
  },

  async pubsub(s) {
    const listener = await s.connect();
    const heard = [];
    await listener.subscribe("news", (message, channel) => heard.push([channel, message]));
    await listener.pSubscribe("w*", (message, channel) => heard.push([channel, message]));
    await listener.sSubscribe("shard", (message, channel) => heard.push([channel, message]));
    assert.deepEqual([await s.r.publish("news", "a"), await s.r.publish("weather", "b")], [1, 1]);
    assert.equal(await s.r.sPublish("shard", "c"), 1);
    // Its reply comes behind the messages.
    await listener.unsubscribe("news");
    assert.deepEqual(heard, [["news", "a"], ["weather", "b"], ["shard", "c"]]);
  },

  async blocking(s) {
    const waiting = await s.connect();
    const popped = waiting.blPop("list", 0);
    await s.blocked(1);
    await s.r.rPush("list", "a");
    assert.deepEqual({ ...(await popped) }, { key: "list", element: "a" });
    const timedOut = waiting.blPop("list", 3600);
    await s.blocked(1);
    await s.clock("ADVANCE", "3600000");
    assert.equal(await timedOut, null);
  },

  async types(s) {
    await s.r.hSet("hash", { a: 1, b: 2 });
    assert.deepEqual({ ...(await s.r.hGetAll("hash")) }, { a: "1", b: "2" });
    await s.r.sAdd("set", ["a", "b"]);
    assert.deepEqual([...(await s.r.sMembers("set"))].sort(), ["a", "b"]);
    await s.r.zAdd("zset", [{ score: 1, value: "a" }, { score: 2.5, value: "b" }]);
    assert.deepEqual(await s.r.zRangeWithScores("zset", 0, -1), [
      { value: "a", score: 1 },
      { value: "b", score: 2.5 },
    ]);
    const keys = [];
    for await (const page of s.r.scanIterator()) keys.push(...page);
    assert.deepEqual(keys.sort(), ["hash", "set", "zset"]);
  },

  async faults(s) {
    const victim = await s.connect({ name: "victim" });
    assert.equal(await victim.incr("n"), 1);
    await s.fault("DROP-AFTER", "CLIENT", "victim");
    await assert.rejects(victim.incr("n"));
    assert.equal(await s.r.get("n"), "2");
    await s.fault("ERROR", "LOADING", "COMMAND", "get");
    await assert.rejects(s.r.get("n"), /LOADING Redis is loading the dataset in memory/);
    await s.fault("TWICE", "COMMAND", "incr");
    assert.equal(await s.r.incr("n"), 4);
  },
};

const { version } = createRequire(import.meta.url)("redis/package.json");
for (const protocol of [2, 3]) {
  for (const [name, test] of Object.entries(tests)) {
    const session = new Session(protocol);
    try {
      await session.begin();
      await test(session);
    } catch (error) {
      console.log(`node-redis ${version}, RESP${protocol}: ${name} failed`);
      throw error;
    } finally {
      session.end();
    }
  }
}
console.log(`node-redis ${version}: ${Object.keys(tests).length} tests passed on RESP2, and on RESP3`);
