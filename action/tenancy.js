// The directory through which the processes of one tenancy meet:
//
//   claim.js    the action's first step: starts the holder and waits until the lane is ours, or is not to be had
//   holder.js   lives as long as the job: runs `interlock hold`, which renews the lease
//   keeper.js   the command under the lease: says that the lane is ours, and ends when asked to
//   release.js  the action's last step: asks, and reports how it ended
//
// Files are written under another name first, so that whoever sees one sees all of it.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { setTimeout: sleep } = require("node:timers/promises");

const POLL_MS = 100;

class Tenancy {
  constructor(directory) {
    this.directory = directory;
    this.log = path.join(directory, "log.txt");
    this.message = path.join(directory, "message.txt");
  }

  // `claim`: the lane is ours. `release`: it is to be given back. `unread`: what came too late to be read.
  // `ended`: the holder is gone.
  write(name, value) {
    const file = this.#file(name);
    fs.writeFileSync(`${file}.part`, JSON.stringify(value), { mode: 0o600 });
    fs.renameSync(`${file}.part`, file);
  }

  read(name) {
    try {
      return JSON.parse(fs.readFileSync(this.#file(name), "utf8"));
    } catch {
      return null;
    }
  }

  has(name) {
    return fs.existsSync(this.#file(name));
  }

  // The first of these files that is there; null after `seconds`.
  async first(names, { seconds = Infinity, meanwhile = () => {} } = {}) {
    const end = performance.now() + seconds * 1000;
    for (;;) {
      meanwhile();
      const found = names.find((name) => this.has(name));
      if (found || performance.now() > end) return found ?? null;
      await sleep(POLL_MS);
    }
  }

  lines() {
    try {
      return fs.readFileSync(this.log, "utf8").split("\n").filter(Boolean);
    } catch {
      return [];
    }
  }

  #file(name) {
    return path.join(this.directory, `${name}.json`);
  }
}

module.exports = { Tenancy, POLL_MS };
