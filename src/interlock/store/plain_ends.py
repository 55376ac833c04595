"""The short way to write ends of runs on PostgreSQL: by the process that claimed, on what it remembers.

It decides before any item is locked. So everything is written in one statement, which locks the rows and
writes nothing unless all of them, those that end and those that follow, are still in the versions decided on.
That is only done for plain ends and promotions: nothing else needs more than these rows, and no deadline is
counted from a clock that was read before the wait for a row. `Changed` sends all others the long way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.core.ledger import Decision
from interlock.core.model import Event, Item, ItemId, RunRecord
from interlock.core.plan_model import plan_of_lane
from interlock.store.postgres_database import Connection
from interlock.store.rows import (
    OVER_FIELDS,
    all_same,
    array,
    columns,
    ends_bare,
    event_row,
    over_columns,
    over_values,
    promoted_columns,
    was_promoted,
)
from interlock.store.statements import Statements

#: Items, each with the version of its row.
Read = Sequence[tuple[Item, int]]
#: What `settle_alike` takes once for all: of the items, of their runs, and of the lines of history.
_ALIKE = (
    *OVER_FIELDS,
    *(f"run_{name}" for name in RunRecord._fields[2:]),
    *(f"event_{name}" for name in Event._fields),
)
_EVENT_ITEM = Event._fields.index("item")  # the run stands behind it


class Changed(Exception):
    """What a process remembers of its claim is not all there is to know: everything has to be read."""


def stands_alone(item: Item) -> bool:
    """Whether the end of its run concerns nobody but those who come next on its lane."""
    spec, state = item
    if spec.plan is not None or spec.observed_lane is not None:
        return False
    if state.absorbed_by is not None or item.has_unread:
        return False
    return spec.lane is None or plan_of_lane(spec.lane) is None


def write(
    conn: Connection, sql: Statements, decision: Decision, first_seq: int, known: Read, heads: Read
) -> None:
    """Write a decision about items that are known and about those behind them, or raise `Changed`."""
    over, promoted, runs, events = decision.settled, decision.raised, decision.runs, decision.events
    before = {item.spec.id: (item, version) for item, version in (*heads, *known)}
    if not _is_plain(decision, known, before):
        raise Changed
    must_be = (
        array([before[item.spec.id][1] for item in over]),
        array([before[item.spec.id][0].state.run for item in over]),
    )
    if _alike(decision):
        # All as text: the driver would prepare the statement anew for every size of a number.
        values = (*over_values(over[0].state), *runs[0][2:], *event_row(events[0]))
        once = {name: None if v is None else str(v) for name, v in zip(_ALIKE, values, strict=True)}
        each = {
            "over": array([item.spec.id for item in over]),
            "over_versions": must_be[0],
            "over_runs": must_be[1],
            "items": array([run.item for run in runs]),
            "runs": array([run.run for run in runs]),
            "count": str(len(runs)),
            "first_seq": str(first_seq),
        }
        written = conn.execute(sql["settle_alike"], {**once, **each})
    else:
        params: list[Any] = [*over_columns(over), *must_be]
        expected = [len(over)]
        if promoted:
            versions = array([before[item.spec.id][1] for item in promoted])
            params += [*promoted_columns(promoted), versions, len(over)]
            expected.append(len(promoted))
        lines = [(first_seq + n, *event_row(event)) for n, event in enumerate(events)]
        params += [*columns(runs, len(runs[0])), *expected, *columns(lines, len(lines[0])), *expected]
        parts = {"over", "unchanged", "promoted", "heirs"} if promoted else {"over", "unchanged"}
        written = conn.execute(sql.variant("settle", frozenset(parts)), params)
    if written.rowcount != len(events):
        raise Changed


def _is_plain(decision: Decision, known: Read, before: dict[ItemId, tuple[Item, int]]) -> bool:
    """Whether all that is known ends, and nothing else happens but that others are promoted."""
    more = decision.born or decision.messages or decision.moves or decision.plans
    if more or len(decision.settled) != len(known):
        return False
    return all(ends_bare(item.state) for item in decision.settled) and all(
        was_promoted(before[item.spec.id][0], item) for item in decision.raised
    )


def _alike(decision: Decision) -> bool:
    """Whether the items end with one run and one line of history each, the same but for item and run."""
    over, runs, events = decision.settled, decision.runs, decision.events
    if decision.raised or not len(over) == len(runs) == len(events):
        return False
    return (
        all_same([item.state for item in over])
        and all_same([run[2:] for run in runs])
        and all_same([event[:_EVENT_ITEM] for event in events])
        and all_same([event[_EVENT_ITEM + 2 :] for event in events])
        and [event[_EVENT_ITEM : _EVENT_ITEM + 2] for event in events] == [run[1::-1] for run in runs]
    )
