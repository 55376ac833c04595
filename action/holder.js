// Runs `interlock hold` for as long as the job lasts, and says how it ended.
//
//   node holder.js DIRECTORY RUNNER_PID LANE [OPTION…]
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { spawn } = require("node:child_process");
const { Tenancy, POLL_MS } = require("./tenancy.js");

const [directory, runnerPid, ...wish] = process.argv.slice(2);
const tenancy = new Tenancy(directory);
const log = fs.openSync(tenancy.log, "a", 0o600);

function runnerLives() {
  try {
    process.kill(Number(runnerPid), 0);
    return true;
  } catch (error) {
    return error.code === "EPERM"; // it is there and somebody else's
  }
}

const keeper = [process.execPath, path.join(__dirname, "keeper.js"), directory];
const hold = spawn("interlock", ["hold", ...wish, "--", ...keeper], { stdio: ["ignore", log, log] });

// Under the lease the keeper ends by itself when asked. A wait for the lane has to be interrupted, so has everything
// when the runner died without asking, and so has the keeper of a cancelled job: the next holder of the lane then
// knows that this one was interrupted.
const watch = setInterval(() => {
  const release = tenancy.read("release");
  if ((release && (release.cancelled || !tenancy.has("claim"))) || !runnerLives()) {
    clearInterval(watch);
    hold.kill("SIGTERM");
  }
}, POLL_MS * 5);

hold.on("error", (error) => {
  const missing = "There is no interlock on the path: install it in an earlier step.";
  fs.writeSync(log, `${error.code === "ENOENT" ? missing : error.message}\n`);
  tenancy.write("ended", { code: 127 });
  clearInterval(watch);
});
hold.on("exit", (code, signal) => {
  tenancy.write("ended", { code, signal });
  clearInterval(watch);
});
