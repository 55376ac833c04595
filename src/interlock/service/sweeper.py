"""The sweeper: whatever time alone must move. Level-triggered, bounded, safe to run many times at once.

It reads what looks due without a lock and lets the rules decide again under lock, so a second sweeper
that saw the same rows finds nothing left to do. It never discards: an item of an unknown type or agent
is offered again like any other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from interlock.core.commands import Cancel, Expire, Repair
from interlock.core.errors import InterlockError
from interlock.core.ledger import Decision
from interlock.core.model import ItemId, Reason
from interlock.core.plans.model import PLAN_CANCELLED
from interlock.core.record import MutableRecord
from interlock.core.states import ItemStatus
from interlock.store.port import Load, Store

BATCH = 200
#: How many lines a sweep looks at for one that lost its owner.
LINES = 200
#: How long one call goes on at most; the next claim or sweep does the rest.
PATIENCE_S = 5.0


#: Reasons for which time alone ends an item that never ran.
_ENDED_UNSTARTED = frozenset({Reason.UNCLAIMED, Reason.UNREACHABLE})


class Swept(MutableRecord):
    """What a sweep did."""

    expired: int = 0
    reentered: int = 0
    promoted: int = 0
    forgotten_keys: int = 0
    #: The lane behind which the next sweep looks for stranded ones.
    onward: str = ""

    @property
    def anything(self) -> bool:
        return bool(self.expired or self.reentered or self.promoted)


def _for_a_while() -> Iterator[None]:
    until_s = time.monotonic() + PATIENCE_S
    yield
    while time.monotonic() < until_s:
        yield


def move_due(store: Store, swept: Swept) -> None:
    """Move every item whose time has come: leases, run timeouts, graces, edit deadlines and times to claim
    that are over, retries and schedules that are due, and tasks whose predecessors have ended."""
    for _ in _for_a_while():
        due = store.due(BATCH)
        if not due:
            return
        decision = _expire(store, due)
        moved = 0
        ended = len(decision.runs)
        told = {event.item for event in decision.events}
        for answer in decision.answers:
            if not answer.changed or answer.item not in told:  # else its time to be claimed began anew
                continue
            moved += 1
            swept.promoted += len(answer.promoted)
            ended += decision.after[answer.item].state.reason in _ENDED_UNSTARTED
        named = set(due)
        behind = sum(i.state.reason == Reason.UNREACHABLE and i.id not in named for i in decision.settled)
        swept.expired += ended + behind
        swept.reentered += moved - ended
        stuck = not any(answer.changed for answer in decision.answers)
        if stuck or (len(due) < BATCH and not decision.due_now):
            return


def _expire(store: Store, due: list[ItemId]) -> Decision:
    return store.transact(Load(items=tuple(due)), lambda _: [Expire(item=i) for i in due])


def move_due_tasks(store: Store, decision: Decision) -> None:
    """Let the tasks that a transaction made due enter their lanes, or end as unreachable, in transactions of
    their own. The next claim or sweep moves what is left after a while, or when this process dies."""
    due = decision.due_now
    for _ in _for_a_while():
        if not due:
            return
        due = [*due[BATCH:], *_expire(store, due[:BATCH]).due_now]


def stop_cancelled(store: Store) -> None:
    """Cancel the open tasks of cancelled plans; running ones are asked to stop."""
    for _ in _for_a_while():
        tasks = store.stopping(BATCH)
        if not tasks:
            return
        move_due_tasks(store, _cancel(store, tasks))


def _cancel(store: Store, tasks: list[ItemId]) -> Decision:
    commands = [Cancel(item=i, why=PLAN_CANCELLED) for i in tasks]
    return store.transact(Load(items=tuple(sorted(tasks))), lambda _: commands)


def promote_stranded(store: Store, swept: Swept, after: str = "") -> str:
    """Promote the first of every line that lost its owner, among the next `LINES` lanes behind `after`.

    Gives the lane where the next sweep goes on: a sweep looks at a bounded number of lines, and one after
    the other they look at all.
    """
    lanes, onward = store.stranded(after, LINES)
    if lanes:
        decision = store.transact(Load(lanes=tuple(lanes)), lambda _: [Repair(lane=name) for name in lanes])
        swept.promoted += sum(i.status is ItemStatus.PENDING for i in decision.raised)
    return onward


def sweep(store: Store, after: str = "") -> Swept:
    """One full sweep; `after` is where the last one stopped looking for stranded lanes."""
    swept = Swept()
    stop_cancelled(store)
    move_due(store, swept)
    swept.onward = promote_stranded(store, swept, after)
    swept.forgotten_keys = store.forget_keys(BATCH * 5)
    return swept


class Sweeper:
    """A background thread that sweeps every so often until it is stopped."""

    def __init__(self, store: Store, every_s: float = 1.0) -> None:
        self._store = store
        self._every_s = every_s
        #: Why the last sweep did not come through, if it did not.
        self.failed: InterlockError | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="interlock-sweeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _loop(self) -> None:
        after = ""
        while not self._stopped.wait(self._every_s):
            try:
                after = sweep(self._store, after).onward
                self.failed = None
            except InterlockError as error:
                # The store may be restarting or busy. Nothing is lost by sweeping later; all would be
                # lost by never sweeping again.
                self.failed = error
