"""What became of items in a span of time, from the events of that span.

Of each item, the last event that ended or reopened it decides. So an item that failed, was retried and
completed has finished, and one that failed and was retried since has no outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from interlock.core.model import EventKind
from interlock.core.record import Record
from interlock.core.row import NamedTuple
from interlock.core.states import ItemStatus


class RecapEvent(NamedTuple):
    """The parts of an event that a recap needs."""

    seq: int
    at_us: int
    kind: str
    reason: str
    item: int
    run: int | None
    agent: str | None
    #: How long the run took; of a start, how long the item had waited for its first one.
    span_us: int | None
    #: The status of the item after a run that did not succeed.
    item_status: str | None
    #: The item that took its place.
    by_item: int | None


class RecapCount(StrEnum):
    """What a recap counts."""

    FINISHED = "finished"
    FAILED = "failed"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"
    #: Runs that failed, timed out or lost their lease, while their item was not given up.
    RETRIES = "retries"
    RUNS = "runs"


class Recap(Record):
    """The outcomes of a span of time: the newest of each kind, and how many there are."""

    finished: tuple[RecapEvent, ...]
    failed: tuple[RecapEvent, ...]
    superseded: tuple[RecapEvent, ...]
    #: The starts of the items that had waited longest, the longest first.
    waits: tuple[RecapEvent, ...]
    counts: Mapping[str, int]


_FAILURES = frozenset({EventKind.RUN_FAILED, EventKind.RUN_TIMED_OUT, EventKind.RUN_LOST})
_OUTCOMES: Mapping[str, RecapCount | None] = {
    EventKind.RUN_SUCCEEDED: RecapCount.FINISHED,
    EventKind.ITEM_SUPERSEDED: RecapCount.SUPERSEDED,
    EventKind.ITEM_CANCELLED: RecapCount.CANCELLED,
    EventKind.ITEM_RETRIED: None,
}
_BY_STATUS: Mapping[str | None, RecapCount] = {
    ItemStatus.FAILED: RecapCount.FAILED,
    ItemStatus.CANCELLED: RecapCount.CANCELLED,
}
#: The events that it is made from.
KINDS = frozenset({*_OUTCOMES, *_FAILURES, EventKind.RUN_STARTED, EventKind.RUN_CANCELLED})


def recap(newest_first: Iterable[RecapEvent], limit: int) -> Recap:
    """The recap of some events, with at most `limit` of each kind."""
    decided: set[int] = set()
    found: dict[RecapCount, list[RecapEvent]] = {}
    waits: list[RecapEvent] = []
    retries = runs = 0
    for event in newest_first:
        if event.kind == EventKind.RUN_STARTED:
            runs += 1
            if event.span_us is not None:
                waits.append(event)
            continue
        outcome = _BY_STATUS.get(event.item_status) if event.item_status else _OUTCOMES.get(event.kind)
        if event.kind in _FAILURES and outcome is None:
            retries += 1
        if event.item in decided or (outcome is None and event.kind != EventKind.ITEM_RETRIED):
            continue
        decided.add(event.item)
        if outcome is not None:
            found.setdefault(outcome, []).append(event)
    waits.sort(key=lambda event: (-(event.span_us or 0), event.seq))
    counts = {each: len(found.get(each, ())) for each in RecapCount}
    counts |= {RecapCount.RETRIES: retries, RecapCount.RUNS: runs}
    return Recap(
        finished=tuple(found.get(RecapCount.FINISHED, ())[:limit]),
        failed=tuple(found.get(RecapCount.FAILED, ())[:limit]),
        superseded=tuple(found.get(RecapCount.SUPERSEDED, ())[:limit]),
        waits=tuple(waits[:limit]),
        counts={each.value: n for each, n in counts.items()},
    )
