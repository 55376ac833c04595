// The command that `interlock hold` runs: the lane is ours for as long as it lives.
"use strict";

const fs = require("node:fs");
const { Tenancy } = require("./tenancy.js");

const tenancy = new Tenancy(process.argv[2]);

if (tenancy.has("claim")) {
  // `hold` runs its command again for messages that came after it began. The job is over: all that can be done is
  // to show them.
  tenancy.write("unread", JSON.parse(fs.readFileSync(process.env.INTERLOCK_MESSAGES, "utf8")));
} else {
  const mine = Object.entries(process.env).filter(([name]) => name.startsWith("INTERLOCK_"));
  tenancy.write("claim", Object.fromEntries(mine));
  // Whoever writes that the job was cancelled ends us by a signal.
  const wait = async () => {
    await tenancy.first(["release"]);
    if (tenancy.read("release")?.cancelled) await tenancy.first(["ended"]);
  };
  wait();
}
