"""The transition tables of items and runs, and the checks that enforce them.

* An item moves only along `ITEM_MOVES`, a run only along `RUN_MOVES`; any other move raises and
  changes nothing.
* `completed`, `superseded` and `coalesced` are final. Only an explicit retry leaves `failed` and
  `cancelled`: of the item, or of a task that it depends on.
* Unstarted, an item goes back to `waiting` only by an edit, of its time or of the dependencies of a task, or
  when its question times out.
* A lane has at most one *active* item (`pending` or `in_progress`): its owner.

The diagram in the documentation is generated from these tables.
"""

from __future__ import annotations

from enum import StrEnum

from interlock.core.errors import IllegalTransition


class ItemStatus(StrEnum):
    WAITING = "waiting"
    DEFERRED = "deferred"
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"
    COALESCED = "coalesced"


class RunStatus(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    RELEASED = "released"


S, R = ItemStatus, RunStatus  # the tables read better short

ACTIVE = frozenset({S.PENDING, S.IN_PROGRESS})
TERMINAL = frozenset({S.COMPLETED, S.FAILED, S.CANCELLED, S.SUPERSEDED, S.COALESCED})
UNSTARTED = frozenset({S.WAITING, S.DEFERRED, S.PENDING})

BIRTHS = frozenset({S.WAITING, S.DEFERRED, S.PENDING, S.COALESCED, S.CANCELLED})

ITEM_MOVES: dict[ItemStatus, frozenset[ItemStatus]] = {
    S.WAITING: frozenset({S.DEFERRED, S.PENDING, S.CANCELLED, S.SUPERSEDED}),
    S.DEFERRED: frozenset({S.PENDING, S.WAITING, S.CANCELLED, S.SUPERSEDED}),
    S.PENDING: frozenset({S.IN_PROGRESS, S.DEFERRED, S.WAITING, S.CANCELLED, S.SUPERSEDED}),
    S.IN_PROGRESS: frozenset({S.PENDING, S.WAITING, S.COMPLETED, S.FAILED, S.CANCELLED, S.SUPERSEDED}),
    S.FAILED: frozenset({S.PENDING, S.DEFERRED, S.SUPERSEDED}),
    S.CANCELLED: frozenset({S.PENDING, S.DEFERRED, S.WAITING, S.SUPERSEDED}),
    S.COMPLETED: frozenset(),
    S.SUPERSEDED: frozenset(),
    S.COALESCED: frozenset(),
}

RUN_MOVES: dict[RunStatus, frozenset[RunStatus]] = {
    R.RUNNING: frozenset({R.SUCCEEDED, R.FAILED, R.CANCELLED, R.TIMED_OUT, R.LOST, R.RELEASED}),
    R.SUCCEEDED: frozenset(),
    R.FAILED: frozenset(),
    R.CANCELLED: frozenset(),
    R.TIMED_OUT: frozenset(),
    R.LOST: frozenset(),
    R.RELEASED: frozenset(),
}


def check_item_move(item_id: int, before: ItemStatus, after: ItemStatus) -> None:
    """Raise unless an item may go from `before` to `after`. Staying is always allowed."""
    if before is not after and after not in ITEM_MOVES[before]:
        raise IllegalTransition(
            f"Item {item_id} cannot go from {before} to {after}.",
            "This is a defect in Interlock; nothing was changed. Please report it.",
        )


def check_run_move(run: int, before: RunStatus, after: RunStatus) -> None:
    """Raise unless a run may go from `before` to `after`."""
    if after not in RUN_MOVES[before]:
        raise IllegalTransition(
            f"Run {run} cannot go from {before} to {after}.",
            "This is a defect in Interlock; nothing was changed. Please report it.",
        )
