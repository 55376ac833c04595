// How an action talks with the runner that runs it: inputs from the environment, answers into files.
"use strict";

const fs = require("node:fs");
const { randomUUID } = require("node:crypto");

function input(name) {
  return (process.env[`INPUT_${name.toUpperCase()}`] ?? "").trim();
}

// One line of a file that the runner reads; a random mark ends the value, so that no value can forge another.
function tell(variable, name, value) {
  const file = process.env[variable];
  if (!file) return;
  const end = `end-${randomUUID()}`;
  fs.appendFileSync(file, `${name}<<${end}\n${value}\n${end}\n`);
}

// A command to the runner's log: error, warning, add-mask.
function say(command, text) {
  const escaped = String(text).replace(/%/g, "%25").replace(/\r/g, "%0D").replace(/\n/g, "%0A");
  process.stdout.write(`::${command}::${escaped}\n`);
}

module.exports = {
  input,
  output: (name, value) => tell("GITHUB_OUTPUT", name, value),
  keep: (name, value) => tell("GITHUB_STATE", name, value),
  kept: (name) => process.env[`STATE_${name}`] ?? "",
  forLaterSteps: (name, value) => tell("GITHUB_ENV", name, value),
  mask: (text) => say("add-mask", text),
  warn: (text) => say("warning", text),
  fail: (text) => {
    say("error", text);
    process.exitCode = 1;
  },
};
