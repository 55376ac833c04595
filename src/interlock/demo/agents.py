"""One agent of the demo: a process of its own that takes work from the store and finishes it.

The work is pretended (it waits where a coding agent would think), the coordination is not: the process
claims, renews, reads its inbox, finishes and fails through `interlock.connect()` like any other program.
How long an attempt takes and whether it fails stands in the item's payload.

It never asks whether it still holds its lease. That is the point: a process that was paused does not know,
and it is the store that must refuse.

What it does is told to the demo as one JSON object a line on standard output. A line on standard input means
"finish at once"; the end of standard input means that the demo is gone, and so is this process.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import uuid
from typing import Any

import interlock
from interlock.client import Interlock, Lease
from interlock.core.errors import LeaseLost, StoreBusy, StoreUnavailable

STEPS = ("reading", "writing code", "testing", "pushing")
READING_MAX_S = 0.6
NAP_S = 0.1


class TestsFailed(Exception):
    """The pretended work went wrong, as its payload asked."""


class Agent:
    """One process under an agent's name. Several may share the name."""

    def __init__(self, name: str, kind: str, label: str) -> None:
        self._name = name
        self._kind = kind
        self._label = label
        self._hurry = threading.Event()

    def listen(self) -> None:
        """Watch standard input until it ends, and this process with it."""
        for _ in sys.stdin:
            self._hurry.set()
        os._exit(0)

    def work(self, il: Interlock) -> None:
        """Take one item after the other, until the process is ended from outside."""
        tell(state="idle")
        while True:
            try:
                if not self._take_one(il):
                    self._hurry.wait(NAP_S)
                    continue
            except LeaseLost as lost:
                tell(state="refused", sentence=lost.sentence)
            except TestsFailed:
                pass  # the client has reported the failure
            except (StoreBusy, StoreUnavailable) as error:
                sys.stderr.write(f"{error}\n")
                self._hurry.wait(NAP_S)
            self._hurry.clear()
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
            self._hurry.wait(_step_s(lease, step))
            if lease.cancel_requested:
                lease.release()
                tell(state="released", item=lease.item.id, run=lease.fence)
                return
            if not self._hurry.is_set():
                read |= {message.n: message.text for message in lease.inbox()}
        if lease.item.attempt <= lease.payload.get("failures", 0):
            raise TestsFailed("3 of 212 tests fail")
        result = {"nonce": uuid.uuid4().hex, "read": [read[n] for n in sorted(read)]}
        tell(state="finishing", item=lease.item.id, run=lease.fence, nonce=result["nonce"])
        lease.done(result)
        tell(state="acknowledged", item=lease.item.id, run=lease.fence, nonce=result["nonce"])


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
