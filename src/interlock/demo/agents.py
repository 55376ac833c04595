"""One agent of the demo: a process of its own that takes work from the store and finishes it.

The work is pretended (it waits where a coding agent would think), the coordination is not: the process
claims, renews, reads its inbox, finishes and fails through `interlock.connect()` like any other program.
How long an attempt takes and whether it fails stands in the item's payload.

It looks between its steps whether its lease is lost, as a good agent does. One that was told to end "blindly"
does not look: a process that was paused cannot know, and it is the store that must refuse.

What it does is told to the demo as one JSON object a line on standard output. A line on standard input tells
it to come to an end, `finish` or `blindly`; the end of standard input means that the demo is gone, and so is
this process.
"""

from __future__ import annotations

import argparse
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
#: Whoever wakes up from a pause first hears what was said meanwhile.
AWAKE_S = 0.5


class TestsFailed(Exception):
    """The pretended work went wrong, as its payload asked."""


class Agent:
    """One process under an agent's name. Several may share the name."""

    def __init__(self, name: str, kind: str, label: str) -> None:
        self._name = name
        self._kind = kind
        self._label = label
        self._hurry = threading.Event()
        self._blindly = False

    def listen(self) -> None:
        """Watch standard input until it ends, and this process with it."""
        for line in sys.stdin:
            self._blindly = line.strip() == "blindly"
            self._hurry.set()
        os._exit(0)

    def work(self, il: Interlock) -> None:
        """Take one item after the other, until the process is ended from outside."""
        tell(state="idle")
        while True:
            try:
                if not self._take_one(il):
                    time.sleep(NAP_S)
                    continue
            except LeaseLost as lost:
                tell(state="refused", sentence=lost.sentence)
            except TestsFailed:
                pass  # the client has reported the failure
            except (StoreBusy, StoreUnavailable) as error:
                sys.stderr.write(f"{error}\n")
                time.sleep(NAP_S)
            self._hurry.clear()
            self._blindly = False
            tell(state="idle")

    def _take_one(self, il: Interlock) -> bool:
        worker = f"{self._name}-{os.getpid()}"
        with il.next(self._name, types=[self._kind], labels=[self._label], worker=worker) as lease:
            if lease is None:
                return False
            self._attempt(lease)
        return True

    def _attempt(self, lease: Lease) -> None:
        read = {message.n: message.text for message in lease.messages}
        for step in STEPS:
            tell(state="working", doing=step, item=lease.item.id, run=lease.fence)
            self._spend(lease, _step_s(lease, step))
            if lease.cancel_requested:
                lease.release()
                tell(state="released", item=lease.item.id, run=lease.fence)
                return
            if not self._blindly:
                read |= {message.n: message.text for message in lease.inbox()}
        if lease.item.attempt <= lease.payload.get("failures", 0):
            raise TestsFailed("3 of 212 tests fail")
        result = {"nonce": uuid.uuid4().hex, "read": [read[n] for n in sorted(read)]}
        tell(state="finishing", item=lease.item.id, run=lease.fence, nonce=result["nonce"])
        lease.done(result)
        tell(state="acknowledged", item=lease.item.id, run=lease.fence, nonce=result["nonce"])

    def _spend(self, lease: Lease, span_s: float) -> None:
        """Pretend to work for a while, or until told to come to an end."""
        end_s = time.monotonic() + span_s
        while not self._hurry.wait(min(NAP_S, max(end_s - time.monotonic(), 0))):
            if lease.lost and not self._hurry.wait(AWAKE_S):
                raise LeaseLost("The lease was lost.")
            if lease.cancel_requested or time.monotonic() >= end_s:
                return
        if not self._blindly:
            time.sleep(min(BRISK_S, span_s))


def _step_s(lease: Lease, step: str) -> float:
    """How long a step of this attempt takes; the last number holds for all further attempts."""
    spans: list[float] = lease.payload["work_s"]
    share_s = spans[min(lease.item.attempt, len(spans)) - 1] / len(STEPS)
    return min(share_s, READING_MAX_S) if step == STEPS[0] else share_s


def tell(**fact: Any) -> None:
    """One line to the demo. If nobody reads any more, there is nothing left to do here."""
    try:
        sys.stdout.write(json.dumps(fact) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="interlock.demo.agents")
    for option in ("--agent", "--type", "--label"):
        parser.add_argument(option, required=True)
    chosen = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the demo ends its agents itself
    agent = Agent(chosen.agent, chosen.type, chosen.label)
    threading.Thread(target=agent.listen, name="standard-input", daemon=True).start()
    with interlock.connect() as il:
        agent.work(il)


if __name__ == "__main__":
    main()
