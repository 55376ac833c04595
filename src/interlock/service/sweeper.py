"""The sweeper: moves everything that is due. Level-triggered, bounded, safe to run concurrently.

It reads due rows without a lock, and the rules decide again under the lock. So a second sweeper that saw the
same rows finds nothing to do. It never discards an item: one of an unknown type or agent is offered again
like any other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from interlock.core.commands import Cancel, Expire, Repair
from interlock.core.ledger import LedgerChanges
from interlock.core.model import ItemId, Reason
from interlock.core.plans.model import PLAN_CANCELLED
from interlock.core.record import MutableRecord
from interlock.core.states import ItemStatus
from interlock.store.port import Load, Store

BATCH = 200
#: The number of lines that a sweep checks for a lost owner.
LINES = 200
#: The time limit of one call. The next claim or sweep does the rest.
PATIENCE_S = 5.0


#: Reasons for which time alone ends an item that never ran.
_ENDED_UNSTARTED = frozenset({Reason.UNCLAIMED, Reason.UNREACHABLE})


class Swept(MutableRecord):
    """What a sweep did."""

    expired: int = 0
    reentered: int = 0
    promoted: int = 0
    forgotten_keys: int = 0
    #: The next sweep looks for stranded lanes after this one.
    onward: str = ""


def _for_a_while() -> Iterator[None]:
    until_s = time.monotonic() + PATIENCE_S
    yield
    while time.monotonic() < until_s:
        yield


def move_due(store: Store, swept: Swept) -> None:
    """Move every due item: expired leases, run timeouts, graces, edit deadlines and times to claim; due
    retries and schedules; tasks whose predecessors have ended."""
    for _ in _for_a_while():
        due = store.due(BATCH)
        if not due:
            return
        decision = _expire(store, due)
        moved = 0
        ended = len(decision.runs)
        told = {event.item for event in decision.events}
        for answer in decision.answers:
            if not answer.changed or answer.item not in told:  # else its time to be claimed started again
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


def _expire(store: Store, due: list[ItemId]) -> LedgerChanges:
    return store.transact(Load(items=tuple(due)), lambda _: [Expire(item=i) for i in due])


def move_due_tasks(store: Store, decision: LedgerChanges) -> None:
    """Let the tasks that a transaction made due enter their lanes or end as unreachable, in separate
    transactions. This takes a bounded time; the next claim or sweep moves the rest, also if this process
    dies."""
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


def _cancel(store: Store, tasks: list[ItemId]) -> LedgerChanges:
    commands = [Cancel(item=i, why=PLAN_CANCELLED) for i in tasks]
    return store.transact(Load(items=tuple(sorted(tasks))), lambda _: commands)


def promote_stranded(store: Store, swept: Swept, after: str = "") -> str:
    """Promote the first of every line that lost its owner, among the next `LINES` lanes after `after`.

    Gives the lane where the next sweep continues: each sweep checks a bounded number of lines, and successive
    sweeps check all.
    """
    lanes, onward = store.stranded(after, LINES)
    if lanes:
        decision = store.transact(Load(lanes=tuple(lanes)), lambda _: [Repair(lane=name) for name in lanes])
        swept.promoted += sum(i.status is ItemStatus.PENDING for i in decision.raised)
    return onward


def sweep(store: Store, after: str = "") -> Swept:
    """One full sweep. The search for stranded lanes continues after `after`."""
    swept = Swept()
    stop_cancelled(store)
    move_due(store, swept)
    swept.onward = promote_stranded(store, swept, after)
    swept.forgotten_keys = store.forget_keys(BATCH * 5)
    return swept
