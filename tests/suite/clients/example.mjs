import assert from "node:assert";
import Redis from "ioredis";

const server = new Redis(process.env.REDIS_URL);
await server.call("EMULATOR", "RESET"); // no data, faults or time of an earlier test
await server.call("EMULATOR", "CLOCK", "FREEZE");

// A lease runs out without anybody waiting for it.
assert.equal(await server.set("resource", "me", "PX", 10_000, "NX"), "OK");
assert.equal(await server.set("resource", "other", "PX", 10_000, "NX"), null);
await server.call("EMULATOR", "CLOCK", "ADVANCE", 10_001);
assert.equal(await server.set("resource", "other", "PX", 10_000, "NX"), "OK");

// The server is out of memory, for one command.
await server.call("EMULATOR", "FAULT", "ERROR", "OOM", "COMMAND", "set");
await assert.rejects(server.set("resource", "me"), /^ReplyError: OOM/);
assert.equal(await server.get("resource"), "other");

await server.quit();
