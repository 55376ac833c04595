"""One agent of the demo: a separate process that takes work from the store and finishes it.

It only pretends to work (it waits where a coding agent would think), but the coordination is real: it claims,
renews, reads its inbox, finishes and fails through `interlock.connect()` like any other program. The item's
payload sets how long an attempt takes and how many attempts fail.

Between its steps it checks whether its lease was lost, as a good agent does. After the order `blindly` it
does not check: a paused process cannot know, and the store must refuse its writes.

It reports to the demo on standard output, one JSON object per line. A line on standard input, `finish` or
`blindly`, orders it to finish its run. When standard input ends, the demo has ended and this process exits.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import uuid
from typing import Any

import interlock
from interlock.client import Interlock, Lease
from interlock.core.errors import LeaseLost, StoreBusy, StoreUnavailable

STEPS = ("reading", "coding", "testing", "pushing")
READING_MAX_S = 0.6
BRISK_S = 0.2
NAP_S = 0.1
#: How long an agent waits for an order after a pause before it gives up its lost run.
AWAKE_S = 0.5


class TestsFailed(Exception):
    """The simulated work failed, as its payload requested."""


class DemoAgent:
    """One process with an agent's name. Several processes may share the name."""

    def __init__(self, name: str, kind: str, label: str) -> None:
        self._name, self._kind, self._label = name, kind, label
        self._hurry = threading.Event()
        self._blindly = False

    def listen(self) -> None:
        """Read orders from standard input. When it ends, this process exits."""
        for line in sys.stdin:
            self._blindly = line.strip() == "blindly"
            self._hurry.set()
        os._exit(0)

    def work(self, il: Interlock) -> None:
        """Claim and work on one item after another until this process is killed."""
        worker = f"{self._name}-{os.getpid()}"
        report(state="idle")
        while True:
            try:
                with il.next(self._name, types=[self._kind], labels=[self._label], worker=worker) as lease:
                    if lease is not None:
                        self._attempt(lease)
                if lease is None:
                    time.sleep(NAP_S)
                    continue
            except LeaseLost as lost:
                report(state="refused", sentence=lost.sentence)
            except TestsFailed:
                pass  # the client has reported the failure
            except (StoreBusy, StoreUnavailable) as error:
                sys.stderr.write(f"{error}\n")
                time.sleep(NAP_S)
            self._hurry.clear()
            self._blindly = False
            report(state="idle")

    def _attempt(self, lease: Lease) -> None:
        run = {"item": lease.item.id, "run": lease.fence}
        read = {message.n: message.text for message in lease.messages}
        for step in STEPS:
            report(state="working", doing=step, **run)
            span_s = lease.payload["work_s"] / len(STEPS)
            self._spend(lease, min(span_s, READING_MAX_S) if step == STEPS[0] else span_s)
            if lease.cancel_requested:
                lease.release()
                report(state="released", **run)
                return
            if not self._blindly:
                read |= {message.n: message.text for message in lease.inbox()}
        if lease.item.attempt <= lease.payload["failures"]:
            raise TestsFailed("3 of 212 tests fail")
        nonce = uuid.uuid4().hex
        report(state="finishing", nonce=nonce, **run)
        lease.done({"nonce": nonce, "read": [read[n] for n in sorted(read)]})
        report(state="acknowledged", nonce=nonce, **run)

    def _spend(self, lease: Lease, span_s: float) -> None:
        """Simulate work for a while, or until ordered to finish."""
        end_s = time.monotonic() + span_s
        while not self._hurry.wait(min(NAP_S, max(end_s - time.monotonic(), 0))):
            if lease.lost and not self._hurry.wait(AWAKE_S):
                raise LeaseLost("The lease was lost.")
            if lease.cancel_requested or time.monotonic() >= end_s:
                return
        if not self._blindly:
            time.sleep(min(BRISK_S, span_s))


def report(**fact: Any) -> None:
    """Send one line to the demo. Without a reader, this process exits."""
    try:
        sys.stdout.write(json.dumps(fact) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(0)


def main(name: str, kind: str, label: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the demo ends its agents itself
    agent = DemoAgent(name, kind, label)
    threading.Thread(target=agent.listen, name="standard-input", daemon=True).start()
    with interlock.connect() as il:
        agent.work(il)


if __name__ == "__main__":
    main(*sys.argv[1:])
