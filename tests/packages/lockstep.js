#!/usr/bin/env node
// Runs the program of this platform. It hands on signals, because `kill` reaches only this process.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";

const platform = `${process.platform}-${process.arch}`;
const name = process.platform === "win32" ? "lockstep.exe" : "lockstep";
const program = fileURLToPath(new URL(`${platform}/${name}`, import.meta.url));

function fail(text) {
  console.error(`lockstep: ${text}`);
  process.exit(2);
}

if (!existsSync(program)) fail(`this package has no program for ${platform}: build it with cargo, see its README`);

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => fail(`cannot run ${program}: ${error.message}`));
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
// When npx or `npm run` gets a signal, its shell ends and sends nothing on. Then this parent is gone.
if (process.env.npm_command) {
  const parent = process.ppid;
  setInterval(() => process.ppid === parent || child.kill("SIGTERM"), 100);
}
// As a shell does: a program that a signal ended has the status 128 and the signal's number.
child.on("exit", (status, signal) => process.exit(status ?? 128 + constants.signals[signal]));
