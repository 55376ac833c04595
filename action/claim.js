// Takes a lane for the rest of the job.
//
// The lane is held by a process of its own, which renews the lease until the last step of the action ends it. It
// does not outlive the job: the runner ends what a job leaves behind, and the holder ends itself when the runner is
// gone. If the whole machine goes, the lease runs out.
"use strict";

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { spawn } = require("node:child_process");
const runner = require("./runner.js");
const { Tenancy } = require("./tenancy.js");

const WAYS = ["wait", "skip", "fail"];
const HELD = 4;
// Told to later steps, so that `interlock push`, `renew`, `inbox` and the hook work for this run.
const VARIABLES = ["RUN", "FENCE", "ITEM", "LANE", "AGENT", "URL"].map((name) => `INTERLOCK_${name}`);

// A token that the job chose itself goes before ours.
const TOKENS = ["INTERLOCK_GITHUB_APP_ID", "INTERLOCK_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"];

class Refused extends Error {}

function laneOfEvent() {
  const file = process.env.GITHUB_EVENT_PATH;
  const event = file && fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, "utf8")) : {};
  const number = event.issue?.number ?? event.pull_request?.number;
  if (!number) throw new Refused("This event is about no issue and no pull request. Name a lane: with: lane: …");
  return `issue:${process.env.GITHUB_REPOSITORY}#${number}`;
}

function storeOfRepository() {
  const server = process.env.GITHUB_SERVER_URL;
  return server ? `git+${server}/${process.env.GITHUB_REPOSITORY}` : "";
}

function start() {
  const lane = runner.input("lane") || laneOfEvent();
  const ifHeld = runner.input("if-held") || "wait";
  if (!WAYS.includes(ifHeld)) throw new Refused(`if-held is ${ifHeld}. Use ${WAYS.join(", ")}.`);
  const tenancy = new Tenancy(fs.mkdtempSync(path.join(process.env.RUNNER_TEMP || os.tmpdir(), "interlock-")));
  const wish = [lane, "--if-held", ifHeld, "--agent", runner.input("agent") || "github-actions"];
  const message = runner.input("message");
  if (message) {
    // Through a file: what strangers wrote is no argument, and a leading @ would name another file.
    fs.writeFileSync(tenancy.message, message, { mode: 0o600 });
    wish.push("--message", `@${tenancy.message}`);
  }
  if (runner.input("lease")) wish.push("--lease", runner.input("lease"));
  const url = runner.input("url") || process.env.INTERLOCK_URL || storeOfRepository();
  const environment = { ...process.env, ...(url && { INTERLOCK_URL: url }) };
  if (!TOKENS.some((name) => environment[name])) environment.GITHUB_TOKEN = runner.input("token");
  // Before the holder starts, so that whatever happens next the last step ends it.
  runner.keep("directory", tenancy.directory);
  const holder = [path.join(__dirname, "holder.js"), tenancy.directory, String(process.ppid), ...wish];
  spawn(process.execPath, holder, { detached: true, stdio: "ignore", env: environment }).unref();
  return { tenancy, lane, ifHeld, message };
}

function claimed(lane, claim) {
  runner.mask(claim.INTERLOCK_RUN);
  for (const name of VARIABLES) if (claim[name]) runner.forLaterSteps(name, claim[name]);
  runner.output("status", "claimed");
  runner.output("run", claim.INTERLOCK_RUN);
  runner.output("fence", claim.INTERLOCK_FENCE);
  console.log(`This job holds ${lane}, fence ${claim.INTERLOCK_FENCE}.`);
}

function notClaimed({ ifHeld, message, lane }, ended, said) {
  if (ifHeld === "skip" && ended.code === 0) {
    runner.output("status", message ? "queued" : "held");
  } else if (ended.code === HELD) {
    runner.output("status", "held");
    runner.fail(said || `${lane} is held by another.`);
  } else {
    runner.fail(said || `interlock hold ended with ${ended.code ?? ended.signal}.`);
  }
}

async function main() {
  const wish = start();
  const { tenancy } = wish;
  let shown = 0;
  const show = () => {
    const lines = tenancy.lines();
    for (; shown < lines.length; shown += 1) console.log(lines[shown]);
  };
  let cancelled = false;
  for (const signal of ["SIGINT", "SIGTERM"]) {
    process.on(signal, () => {
      cancelled = true;
      tenancy.write("release", {});
    });
  }
  const found = await tenancy.first(["claim", "ended"], { meanwhile: show });
  show();
  if (cancelled) return runner.fail("The job was cancelled while it waited for the lane.");
  if (found === "claim") return claimed(wish.lane, tenancy.read("claim"));
  return notClaimed(wish, tenancy.read("ended"), tenancy.lines().slice(-2).join(" "));
}

main().catch((error) => runner.fail(error instanceof Refused ? error.message : error.stack));
