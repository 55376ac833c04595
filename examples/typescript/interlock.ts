// A worker of an Interlock server, with nothing but Node's own library.
//
// Rules that every client keeps:
// - A write has an Idempotency-Key and is sent again under the same key until an answer comes: the server carries it out once.
// - A lease is trusted only until `time of sending + lease`, by the worker's own clock, whatever happened to the answers.
// - A run that has lost its lease stops at once. Its later writes are refused with 410 anyway.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

export type Item = { id: number; title: string; type: string; lane: string | null; payload: any; attempt: number };
export type Message = { n: number; text: string; author: string; payload: any };

/** What a server refused: a stable code, a sentence, a hint. */
export class Problem extends Error {
  status: number;
  code: string;
  hint: string;
  constructor(status: number, code: string, sentence: string, hint = "") {
    super(sentence);
    this.status = status;
    this.code = code;
    this.hint = hint;
  }
}

/** The run is not the item's current one any more: stop, and touch nothing. */
export class LeaseLost extends Problem {}
/** Somebody asked for the run to stop: give the item back. */
export class CancelRequested extends Error {}
/** The worker itself was asked to stop. */
export class Stopping extends Error {}

const AGAIN = new Set([429, 502, 503, 504]); // the server, or a proxy before it, cannot serve just now
const ANSWER_MS = 30_000;
const PAUSE_MAX_MS = 1_000;

/** Requests to one server. */
export class Server {
  #url: string;
  #token: string;
  constructor(url: string, token: string) {
    this.#url = url.replace(/\/+$/, "");
    this.#token = token;
  }

  /** The answer to a write, which is carried out once however often it is sent. `signal` ends the waiting. */
  async post(path: string, body: object, { waitS = 0, signal }: { waitS?: number; signal?: AbortSignal } = {}): Promise<any> {
    const key = randomUUID();
    for (let pauseMs = 50; ; pauseMs = Math.min(2 * pauseMs, PAUSE_MAX_MS)) {
      signal?.throwIfAborted();
      let after = 0;
      try {
        const limit = AbortSignal.timeout(Math.ceil(1_000 * waitS) + ANSWER_MS);
        const answer = await fetch(`${this.#url}/v1/${path}`, {
          method: "POST",
          headers: { Authorization: `Bearer ${this.#token}`, "Content-Type": "application/json", "Idempotency-Key": key },
          body: JSON.stringify(body),
          signal: signal ? AbortSignal.any([signal, limit]) : limit,
        });
        const text = await answer.text();
        if (answer.ok) return JSON.parse(text);
        if (!AGAIN.has(answer.status)) throw problem(answer.status, text);
        after = Number(answer.headers.get("Retry-After")) || 0;
      } catch (error) {
        if (error instanceof Problem) throw error;
        signal?.throwIfAborted(); // anything else: the server is away, and is waited for
      }
      await sleep(Math.max(1_000 * after, pauseMs * (0.5 + Math.random() / 2)), undefined, { signal });
    }
  }
}

function problem(status: number, text: string): Problem {
  let said: any = {};
  try {
    said = JSON.parse(text);
  } catch {} // not from the server itself
  const kind = status === 410 ? LeaseLost : Problem;
  return new kind(status, said.code ?? "unknown", said.detail ?? `The server answered ${status}.`, said.hint);
}

/** One run: it renews itself until it ends, and aborts `signal` when it must stop. */
export class Lease {
  readonly run: string; // the handle: a secret, so it goes into bodies only
  readonly fence: number;
  readonly item: Item;
  readonly signal: AbortSignal;
  #server: Server;
  #abort = new AbortController();
  #leaseMs: number;
  #renewMs: number;
  #trustedUntil: number;
  #seen = 0;
  #first: Message[];
  #ended = new AbortController();
  #beating: Promise<void>;

  constructor(server: Server, given: any, sentMs: number) {
    this.#server = server;
    this.run = given.run;
    this.fence = given.fence;
    this.item = given.item;
    this.signal = this.#abort.signal;
    this.#first = given.messages;
    this.#leaseMs = 1_000 * given.lease_s;
    this.#renewMs = 1_000 * given.renew_within_s;
    this.#trustedUntil = sentMs + 1_000 * given.waited_s + this.#leaseMs; // it began no earlier than that
    this.#beating = this.#beat();
  }

  /** Messages that this run has not had yet. They count as read with the next call that reaches the server. */
  async inbox(): Promise<Message[]> {
    const found: Message[] =
      this.#seen === 0 && this.#first.length > 0
        ? this.#first
        : (await this.#server.post("runs/inbox", { run: this.run, seen: this.#seen }, { signal: this.signal })).messages;
    this.#seen = Math.max(this.#seen, ...found.map((message) => message.n));
    return found;
  }

  /** Stop the run's work for this reason. */
  stop(reason: Error): void {
    this.#abort.abort(reason);
  }

  /** End the run: `done`, `fail` or `release`. It is sent until the server has answered. */
  async end(how: "done" | "fail" | "release", more: object = {}): Promise<void> {
    this.#ended.abort();
    await this.#beating; // a renewal that came after the end would be a refused write
    await this.#server.post(`runs/${how}`, { reports: [{ run: this.run, seen: this.#seen, ...more }] });
  }

  /** Renew no more, and report nothing. */
  async drop(): Promise<void> {
    this.#ended.abort();
    await this.#beating;
  }

  async #beat(): Promise<void> {
    while (await this.#pause(this.#renewMs)) {
      const sentMs = performance.now();
      const untilMs = this.#trustedUntil - this.#leaseMs / 10; // the rest is for stopping
      const limit = AbortSignal.timeout(Math.max(0, Math.floor(untilMs - sentMs)));
      try {
        const body = { reports: [{ run: this.run, seen: this.#seen }] };
        const answer = await this.#server.post("runs/renew", body, { signal: AbortSignal.any([limit, this.#ended.signal]) });
        this.#trustedUntil = sentMs + this.#leaseMs;
        if (answer.runs[0].cancel_requested) this.stop(new CancelRequested(answer.runs[0].item.cancel_reason));
      } catch (error) {
        if (this.#ended.signal.aborted) return;
        const away = new LeaseLost(0, "lease_lost", "No renewal came through for as long as the lease is.");
        return this.stop(limit.aborted ? away : (error as Error));
      }
    }
  }

  async #pause(ms: number): Promise<boolean> {
    try {
      await sleep(ms, undefined, { signal: this.#ended.signal });
      return true;
    } catch {
      return false;
    }
  }
}

/** Work for one agent until `stop`: claim, call `job`, report what came of it. What `job` returns is the run's result. */
export async function work(
  server: Server,
  agent: string,
  job: (lease: Lease) => Promise<unknown>,
  { stop, leaseS = 60, waitS = 30, worker, log = console.log }: { stop: AbortSignal; leaseS?: number; waitS?: number; worker?: string; log?: (line: string) => void },
): Promise<void> {
  while (!stop.aborted) {
    const sentMs = performance.now();
    let answer: any;
    try {
      // A claim that is broken off here, or whose answer is lost for good, is offered again when its lease ends.
      answer = await server.post("claims", { agent, wait_s: waitS, lease_s: leaseS, worker }, { waitS, signal: stop });
    } catch (error) {
      if (stop.aborted) return;
      throw error; // a wrong token, say: waiting does not mend it
    }
    for (const given of answer.leases) {
      await one(new Lease(server, given, sentMs), job, stop, log);
    }
  }
}

async function one(lease: Lease, job: (lease: Lease) => Promise<unknown>, stop: AbortSignal, log: (line: string) => void): Promise<void> {
  const { id } = lease.item;
  const stopping = () => lease.stop(new Stopping());
  stop.addEventListener("abort", stopping);
  log(`item ${id}: claimed as run ${lease.fence}, ${lease.item.title}`);
  try {
    const result = await job(lease);
    lease.signal.throwIfAborted();
    await lease.end("done", { result });
    log(`item ${id}: done`);
  } catch (error) {
    const why = lease.signal.aborted ? lease.signal.reason : error;
    try {
      if (why instanceof LeaseLost) {
        await lease.drop();
        log(`item ${id}: lease lost, stopped. ${why.message}`);
      } else if (why instanceof CancelRequested || why instanceof Stopping) {
        await lease.end("release");
        log(`item ${id}: given back`);
      } else {
        await lease.end("fail", { error: String(why) });
        log(`item ${id}: failed. ${why}`);
      }
    } catch (late) {
      if (!(late instanceof LeaseLost)) throw late;
      log(`item ${id}: lease lost, not reported. ${late.message}`);
    }
  } finally {
    stop.removeEventListener("abort", stopping);
  }
}
