"""Both transition tables, and nothing else that moves a state.

Rules kept here:

* An item moves only along `ITEM_MOVES`, a run only along `RUN_MOVES`; any other move raises and
  changes nothing.
* `completed`, `superseded` and `coalesced` are final. `failed` and `cancelled` are left only by an
  explicit retry.
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


I, R = ItemStatus, RunStatus  # noqa: E741  (the tables read better short)

ACTIVE = frozenset({I.PENDING, I.IN_PROGRESS})
TERMINAL = frozenset({I.COMPLETED, I.FAILED, I.CANCELLED, I.SUPERSEDED, I.COALESCED})
UNSTARTED = frozenset({I.WAITING, I.DEFERRED, I.PENDING})

BIRTHS = frozenset({I.WAITING, I.DEFERRED, I.PENDING, I.COALESCED})

ITEM_MOVES: dict[ItemStatus, frozenset[ItemStatus]] = {
    I.WAITING: frozenset({I.DEFERRED, I.PENDING, I.CANCELLED, I.SUPERSEDED}),
    I.DEFERRED: frozenset({I.PENDING, I.CANCELLED, I.SUPERSEDED}),
    I.PENDING: frozenset({I.IN_PROGRESS, I.DEFERRED, I.CANCELLED, I.SUPERSEDED}),
    I.IN_PROGRESS: frozenset({I.PENDING, I.WAITING, I.COMPLETED, I.FAILED, I.CANCELLED, I.SUPERSEDED}),
    I.FAILED: frozenset({I.PENDING, I.DEFERRED, I.SUPERSEDED}),
    I.CANCELLED: frozenset({I.PENDING, I.DEFERRED, I.SUPERSEDED}),
    I.COMPLETED: frozenset(),
    I.SUPERSEDED: frozenset(),
    I.COALESCED: frozenset(),
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
