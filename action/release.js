// Gives the lane back when the job ends, however it ends, and says so if it had been lost meanwhile.
"use strict";

const runner = require("./runner.js");
const { Tenancy } = require("./tenancy.js");

const LEASE_LOST = 5;
// 128 and the number of SIGTERM.
const INTERRUPTED = 143;
// A git server may take its time; the runner waits for the last step of a job.
const PATIENCE_S = 120;

async function main() {
  const directory = runner.kept("directory");
  if (!directory) return;
  const tenancy = new Tenancy(directory);
  const cancelled = runner.input("job-status") === "cancelled";
  tenancy.write("release", { cancelled });
  await tenancy.first(["ended"], { seconds: PATIENCE_S });
  const claim = tenancy.read("claim");
  if (!claim) return; // the lane was never ours
  const ended = tenancy.read("ended");
  const said = tenancy.lines().slice(-2).join(" ");
  if (!ended) return runner.fail(`${claim.INTERLOCK_LANE} could not be given back. Its lease ends by itself.`);
  for (const { author, text } of tenancy.read("unread") ?? []) {
    runner.warn(`A message came that this job did not read, from ${author || "somebody"}: ${text}`);
  }
  if (ended.code === 0 || (cancelled && ended.code === INTERRUPTED)) {
    console.log(`${claim.INTERLOCK_LANE} is given back.`);
  } else if (ended.code === LEASE_LOST) {
    runner.fail(`The lane was lost while this job ran; another run may have worked on it too. ${said}`);
  } else {
    const how = ended.signal ?? `exit code ${ended.code}`;
    runner.fail(`The holder of ${claim.INTERLOCK_LANE} ended before the job did (${how}). ${said}`);
  }
}

main().catch((error) => runner.fail(error.stack));
