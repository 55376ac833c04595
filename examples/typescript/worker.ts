// INTERLOCK_URL=https://… INTERLOCK_TOKEN=il_… node worker.ts AGENT
//
// Replace `job` with work of your own. Hand `lease.signal` to whatever takes one (fetch, spawn, setTimeout), and it stops
// the moment the run must.

import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

import { type Lease, Problem, Server, work } from "./interlock.ts";

/** As many steps as the payload says, `{"steps": 3, "step_s": 0.1}`; messages are read between them. */
async function job(lease: Lease): Promise<object> {
  const { steps = 3, step_s = 0.1 } = lease.item.payload ?? {};
  let messages = 0;
  for (let step = 1; step <= steps; step++) {
    console.log(`item ${lease.item.id}: step ${step} of ${steps}`);
    await sleep(1_000 * step_s, undefined, { signal: lease.signal });
    for (const message of await lease.inbox()) {
      console.log(`item ${lease.item.id}: told ${JSON.stringify(message.text)}`);
      messages++;
    }
  }
  return { steps, messages };
}

const { INTERLOCK_URL: url, INTERLOCK_TOKEN: token, LEASE_S } = process.env;
const agent = process.argv[2];
if (!url || !token || !agent) {
  console.error("usage: INTERLOCK_URL=https://… INTERLOCK_TOKEN=il_… node worker.ts AGENT");
  process.exit(2);
}
const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => stop.abort());
try {
  await work(new Server(url, token), agent, job, {
    stop: stop.signal,
    leaseS: Number(LEASE_S ?? 60),
    worker: `${hostname()}-${process.pid}`,
  });
} catch (error) {
  if (!(error instanceof Problem)) throw error;
  console.error(`${error.message} ${error.hint}`.trim());
  process.exit(1);
}
