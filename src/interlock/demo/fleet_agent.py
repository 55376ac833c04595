"""An agent of the demo fleet: a process that claims, works, asks and fails, or edits plans.

It only pretends to work, but its claims, leases, heartbeats, questions and edits are real. The payload of an
item says how long the work takes, what to ask, and how many attempts fail. When standard input ends, the
server has ended, and so does this process.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import interlock
from interlock.client import Interlock, Lease
from interlock.core.errors import InterlockError, LeaseLost
from interlock.core.plans.model import EDIT_TYPE, AddEdge, AddTask, EdgeSpec, EditOperation, TaskSpec
from interlock.demo.agents import report
from interlock.service.demo import EDITOR, LABEL, TYPE

#: A lease is short, so that a crash is seen soon.
LEASE_S = 15.0
NAP_S, BEAT_S, EDIT_S = 0.5, 5.0, 6.0
#: Edits beyond this many revisions change nothing.
REVISIONS_MAX = 4


class FleetAgent:
    """One process with an agent's name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._worker = f"{name}-{os.getpid()}"
        self._edits = name == EDITOR
        self._runs, self._changed = 0, threading.Event()

    def work(self, il: Interlock) -> None:
        """Claim and work until this process is killed."""
        threading.Thread(target=self._beat, args=(il,), name="presence", daemon=True).start()
        types, labels = [EDIT_TYPE] if self._edits else [TYPE], [LABEL]
        report(state="idle")
        while True:
            try:
                with il.next(
                    self._name, types=types, labels=labels, lease_s=LEASE_S, worker=self._worker
                ) as lease:
                    if lease is not None:
                        report(state="working", item=lease.item.id, run=lease.fence)
                        self._count(1)
                        self._edit(il, lease) if self._edits else self._attempt(lease)
                if lease is None:
                    time.sleep(NAP_S)
            except (AssertionError, InterlockError) as error:  # the client has reported a failure
                sys.stderr.write(f"{self._name}: {error}\n")
                time.sleep(NAP_S)
            self._count(0)
            report(state="idle")

    def _count(self, runs: int) -> None:
        """Report at once how many runs this worker has."""
        if runs != self._runs:
            self._runs = runs
            self._changed.set()

    def _beat(self, il: Interlock) -> None:
        """Be seen as a live worker."""
        while True:
            self._changed.clear()
            try:
                il.service.see_worker(
                    self._worker,
                    host=socket.gethostname(),
                    pid=os.getpid(),
                    folder=str(Path.cwd()),
                    agent=self._name,
                    slots=1,
                    runs=self._runs,
                )
            except InterlockError as error:
                sys.stderr.write(f"{self._name}: {error}\n")
            self._changed.wait(BEAT_S)

    def _attempt(self, lease: Lease) -> None:
        payload = lease.payload
        answered = len(lease.messages) > 1  # the first came with the item
        self._spend(lease, float(payload.get("work_s", 8.0)))
        if lease.cancel_requested:
            lease.release()
        elif (question := payload.get("asks")) and not answered:
            lease.ask(question)
        elif lease.item.attempt <= payload.get("failures", 0):
            raise AssertionError("expected 3 rows, got 2\n  tests/test_import.py:41")
        else:
            lease.inbox()
            lease.done({"summary": "A demo: nothing was changed."})

    def _spend(self, lease: Lease, span_s: float) -> None:
        end_s = time.monotonic() + span_s
        while time.monotonic() < end_s and not lease.cancel_requested:
            if lease.lost:
                raise LeaseLost("The lease was lost.")
            time.sleep(min(NAP_S, max(0.0, end_s - time.monotonic())))

    def _edit(self, il: Interlock, lease: Lease) -> None:
        """Answer the ends of tasks, at first with one more task each."""
        self._spend(lease, EDIT_S)
        batch = il.service.plan_batch(lease.handle)
        operations, why = _next_task(batch.revision, [each.key for each in batch.completions])
        il.service.edit_plan(
            batch.plan, base=batch.revision, operations=operations, run=lease.handle, why=why
        )
        with suppress(LeaseLost):  # the edit has ended the run, if it answered every end
            lease.done()


def _next_task(revision: int, ended: Sequence[str]) -> tuple[list[EditOperation], str]:
    if revision >= REVISIONS_MAX:
        return [], "Nothing else came up."
    key = f"fix-{revision}"
    found = AddTask(
        task=TaskSpec(
            key=key,
            title=f"Fix what {ended[-1]} found",
            agent="demo-bert",
            type=TYPE,
            labels=(LABEL,),
            payload='{"work_s": 9}',
        )
    )
    return [found, AddEdge(edge=EdgeSpec(source=key, target="release"))], f"{ended[-1]} found a defect."


def listen() -> None:
    """Read standard input. When it ends, this process exits."""
    for _ in sys.stdin:
        pass
    os._exit(0)


def main(name: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the fleet ends its agents itself
    threading.Thread(target=listen, name="standard-input", daemon=True).start()
    with interlock.connect() as il:
        FleetAgent(name).work(il)


if __name__ == "__main__":
    main(sys.argv[1])
