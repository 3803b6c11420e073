// One client of ioredis, for links.py: reads a request in a line of JSON, and writes the reply.
// Arguments: the kind of servers, and their addresses.

import { createInterface } from "node:readline";
import Redis from "ioredis";

const [kind, ...addresses] = process.argv.slice(2);
const nodes = addresses.map((address) => {
  const [host, port] = address.split(":");
  return { host, port: Number(port) };
});

const opens = {
  cluster: () => new Redis.Cluster(nodes, { clusterRetryStrategy: () => 10, retryDelayOnFailover: 10 }),
  sentinels: () => new Redis({ sentinels: nodes, name: "mymaster", failoverDetector: true, retryStrategy: () => 10 }),
  plain: openPlain,
};

// A client of the server that says that it is the primary.
async function openPlain() {
  for (const node of nodes) {
    const client = quiet(new Redis({ ...node, retryStrategy: null }));
    try {
      if ((await client.call("ROLE"))[0] === "master") return client;
    } catch {
      // This server is away.
    }
    client.disconnect();
  }
  throw new Error("no server is the primary");
}

// What fails says so where it is awaited.
function quiet(client) {
  return client.on("error", () => {});
}

// A client that hangs must not keep the process.
process.stdin.on("end", () => process.exit());

let client;

async function ask(commands) {
  // If ioredis 6.0.0 hears of a failover while it connects, it ends for good.
  if (client?.status === "end") client = undefined;
  client ??= quiet(await opens[kind]());
  if (commands.length === 1) return client.call(...commands[0]);
  const replies = await client.multi(commands.map(([name, ...rest]) => [name.toLowerCase(), ...rest])).exec();
  return replies?.map(([error, reply]) => {
    if (error) throw error;
    return reply;
  });
}

for await (const line of createInterface({ input: process.stdin })) {
  let said;
  try {
    said = { value: (await ask(JSON.parse(line))) ?? null };
  } catch (error) {
    const code = error.name === "ReplyError" ? error.message.split(" ")[0] : "no server";
    said = { code, text: `${error.name}: ${error.message}` };
    if (kind === "plain") {
      client?.disconnect();
      client = undefined;
    }
  }
  console.log(JSON.stringify(said));
}
