// What ioredis's Cluster does with a cluster of the emulator: MOVED, ASK and a failover.
// REDIS_URL names the first of three primaries with a replica each, which allow control.

import assert from "node:assert";
import { createRequire } from "node:module";
import Redis from "ioredis";

const { hostname: host, port } = new URL(process.env.REDIS_URL);
const opened = [];

function open(client) {
  // What fails says so where it is awaited.
  client.on("error", () => {});
  opened.push(client);
  return client;
}

// A client of one server.
const server = ({ host, port }) => open(new Redis({ host, port: Number(port), retryStrategy: null }));

// The servers of a key, the primary first.
async function serversOf(key) {
  const any = server({ host, port });
  const slot = await any.cluster("KEYSLOT", key);
  const ranges = await any.cluster("SLOTS");
  const [, , ...nodes] = ranges.find(([first, last]) => first <= slot && slot <= last);
  return { slot, nodes: nodes.map(([host, port]) => ({ host, port })), ranges };
}

// A primary that does not serve a slot.
function otherPrimary(ranges, own) {
  const [host, port] = ranges.map(([, , primary]) => primary).find(([, port]) => port !== own.port);
  return { host, port };
}

const moveSlot = (source, slot, target, ...rest) =>
  server(source).call("EMULATOR", "MOVE-SLOT", slot, target.host, target.port, ...rest);

const tests = {
  async "finds all servers"(cluster) {
    for (let nth = 0; nth < 30; nth++) assert.equal(await cluster.set(`key:${nth}`, nth), "OK");
    for (let nth = 0; nth < 30; nth++) assert.equal(await cluster.get(`key:${nth}`), `${nth}`);
    assert.equal(cluster.nodes("master").length, 3);
    assert.equal(cluster.nodes("slave").length, 3);
  },

  async "follows MOVED"(cluster) {
    await cluster.set("b", "here");
    const { slot, nodes, ranges } = await serversOf("b");
    await moveSlot(nodes[0], slot, otherPrimary(ranges, nodes[0]));
    assert.equal(await cluster.get("b"), "here");
  },

  async "follows ASK"(cluster) {
    await cluster.mset("{b}1", "x", "{b}2", "y");
    const { slot, nodes, ranges } = await serversOf("b");
    const target = otherPrimary(ranges, nodes[0]);
    await moveSlot(nodes[0], slot, target, "KEYS", "{b}1");
    assert.equal(await cluster.get("{b}1"), "x");
    assert.equal(await cluster.get("{b}2"), "y");
    // It sends this again until the slot has moved.
    const both = cluster.mget("{b}1", "{b}2");
    await moveSlot(nodes[0], slot, target);
    assert.deepEqual(await both, ["x", "y"]);
  },

  async "follows a failover"(cluster) {
    await cluster.set("b", "before");
    const { nodes } = await serversOf("b");
    await server(nodes[0]).call("EMULATOR", "FAILOVER");
    assert.equal(await cluster.get("b"), "before");
    assert.equal(await cluster.set("b", "after"), "OK");
    assert.notEqual((await serversOf("b")).nodes[0].port, nodes[0].port);
  },

  async "follows a failover at the wish of the replica"(cluster) {
    await cluster.set("b", "before");
    const { nodes } = await serversOf("b");
    await server(nodes[1]).cluster("FAILOVER");
    assert.equal(await cluster.set("b", "after"), "OK");
    assert.equal((await serversOf("b")).nodes[0].port, nodes[1].port);
  },

  async "a waiting client follows its slot"(cluster) {
    const { slot, nodes, ranges } = await serversOf("b");
    const popped = cluster.blpop("b", 0);
    await server(nodes[0]).call("EMULATOR", "WAIT-BLOCKED", 1);
    await moveSlot(nodes[0], slot, otherPrimary(ranges, nodes[0]));
    await open(new Redis.Cluster([{ host, port: Number(port) }])).rpush("b", "job");
    assert.deepEqual(await popped, ["b", "job"]);
  },
};

for (const [name, test] of Object.entries(tests)) {
  await server({ host, port }).call("EMULATOR", "RESET");
  const cluster = open(new Redis.Cluster([{ host, port: Number(port) }]));
  try {
    await test(cluster);
  } catch (error) {
    console.error(`${name}:`);
    throw error;
  }
  opened.splice(0).forEach((client) => client.disconnect());
}
const { version } = createRequire(import.meta.url)("ioredis/package.json");
console.log(`ioredis ${version} Cluster: ${Object.keys(tests).length} tests pass`);
