"""The short way to write successes on PostgreSQL: by the process that claimed, on what it remembers.

Runs that end alike are decided once. The rules decide on one of them, and on one whom somebody follows on
its lane; the others differ from these in nothing that the rules look at but names, and are written in the
same words.

That is before any item is locked. So all is written in one statement, which locks the rows in order of their
numbers and writes nothing unless all of them, those that end and those that follow, are still in the versions
decided on. Only plain ends and promotions are written so: nothing else needs more than these rows, and no
deadline is counted from a clock that was read before the wait for a row. `Changed` sends all others the long
way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, NamedTuple

from interlock.core.commands import Ended, Finish
from interlock.core.decide import decide
from interlock.core.ledger import Decision, Snapshot
from interlock.core.model import STATE_FIELDS, Event, Item, RunRecord
from interlock.core.plans.model import plan_of_lane
from interlock.core.timing import Timing
from interlock.store.bulk import in_bulk
from interlock.store.postgres.database import Connection
from interlock.store.rows import (
    OVER_FIELDS,
    all_same,
    array,
    ends_bare,
    event_row,
    new_tuple,
    over_values,
    was_promoted,
)
from interlock.store.statements import Statements

#: What `settle_alike` takes once for all: of the items, of their runs, and of the lines of history.
_ONCE = (
    *OVER_FIELDS,
    *(f"run_{name}" for name in RunRecord._fields[2:]),
    *(f"event_{name}" for name in Event._fields),
)
#: The item, the run and the lane of a line of history stand from here to there.
_EVENT_ITEM, _EVENT_AGENT = Event._fields.index("item"), Event._fields.index("agent")
#: A state but for the runs that it names, and for how the item came to be ready.
_state_but_names = itemgetter(
    *(n for n, name in enumerate(STATE_FIELDS) if name not in ("run", "promoted_from", "reason"))
)
_RESULT_AT = Finish._fields.index("result")
_JITTER_AT = Finish._fields.index("jitter")

#: An item, with the version of its row.
Version = tuple[Item, int]


class Changed(Exception):
    """What a process remembers of its claim is not all there is to know: everything has to be read."""


class End(NamedTuple):
    """One run that succeeded, and who follows on its lane."""

    report: Finish
    item: Item
    version: int
    heir: Item | None
    heir_version: int | None


def stands_alone(item: Item) -> bool:
    """Whether the end of its run concerns nobody but the first of the line on its lane."""
    spec, state = item
    if spec.plan is not None or spec.observed_lane is not None:
        return False
    if state.absorbed_by is not None or item.has_unread:
        return False
    return spec.lane is None or plan_of_lane(spec.lane) is None


@in_bulk
def paired(
    known: Sequence[Version], reports: Sequence[Finish], heads: Mapping[str | None, Version]
) -> list[End]:
    """What is reported of items that are known, in their order, and who follows; `Changed` unless all of them
    end alike."""
    said = {report.item: report for report in reports}
    if len(reports) != len(known) or len(said) != len(known):
        raise Changed
    nobody = (None, None)
    ends: list[End] = [
        new_tuple(End, (said[item.spec.id], item, version, *heads.get(item.spec.lane, nobody)))
        for item, version in known
    ]
    if not _alike(ends):
        raise Changed
    return ends


def _alike(ends: Sequence[End]) -> bool:
    """Whether reports of live runs differ only in names and results, and who follows in nothing that a
    promotion looks at but names."""
    states = [end.item.state for end in ends]
    reports = [end.report for end in ends]
    heirs = [end.heir for end in ends if end.heir is not None]
    return (
        [state.run for state in states] == [report.run for report in reports]
        and all_same([_state_but_names(state) for state in states])
        and all_same([end.item.spec.project for end in ends])
        and all_same([report[2:_RESULT_AT] for report in reports])
        and all_same([report[_RESULT_AT + 1 : _JITTER_AT] for report in reports])
        and all_same([(heir.spec.project, heir.spec.claim_within_s) for heir in heirs])
    )


def decided(ends: Sequence[End], now_us: int, timing: Timing) -> Decision:
    """What the rules say about one whom somebody follows, or about any if there is none; `Changed` unless
    that is what `settle_alike` can say of all."""
    followed = next((end for end in ends if end.heir is not None), None)
    last = next((end for end in ends if end.heir is None), None)
    decisions = [_plain(end, now_us, timing) for end in (followed, last) if end is not None]
    if not all_same([_said_of_all(decision) for decision in decisions]):
        raise Changed
    return decisions[0]


def _plain(end: End, now_us: int, timing: Timing) -> Decision:
    (run, item_id, *_), item, _, heir, _ = end
    items = {i.spec.id: i for i in (item, heir) if i is not None}
    decision = decide(Snapshot(items=items), [end.report], now_us, timing)
    more = decision.born or decision.messages or decision.moves or decision.plans
    if more or len(decision.settled) != 1 or not ends_bare(decision.settled[0].state):
        raise Changed
    lane = item.spec.lane
    event, *transfers = decision.events
    promised: list[tuple[Any, ...]] = []
    if heir is not None:
        if len(decision.raised) != 1 or not was_promoted(heir, decision.raised[0]):
            raise Changed
        agent = heir.spec.agent_key
        told = {"from_run": run, "to_item": heir.spec.id, "agent_key": agent}
        promised = [(heir.spec.id, run, lane, agent, None, told)]
    names = event[_EVENT_ITEM:_EVENT_AGENT]
    if names != (item_id, run, lane) or [t[_EVENT_ITEM:] for t in transfers] != promised:
        raise Changed
    return decision


def _said_of_all(decision: Decision) -> tuple[Any, ...]:
    """What a decision about one says of all: all but names and the result."""
    (over,), (run,), (event, *_) = decision.settled, decision.runs, decision.events
    once = (*over_values(over.state), *run._replace(result=None)[2:])
    return (*once, *event_row(event._replace(item=None, run=None, lane=None)))


def write(conn: Connection, sql: Statements, decision: Decision, ends: Sequence[End], first_seq: int) -> None:
    """Write for all that end alike what was decided on one of them, or raise `Changed`."""
    once = dict(zip(_ONCE, _said_of_all(decision), strict=True))
    reports, items, versions, heirs, heir_versions = zip(*ends, strict=True)
    followers = [heir for heir in heirs if heir is not None]
    each: dict[str, Any] = {
        "items": array([report.item for report in reports]),
        "versions": array(versions),
        "runs": array([report.run for report in reports]),
        "lanes": array([item.spec.lane for item in items]),
        "results": array([report.result for report in reports]),
        "count": len(ends),
        "first_seq": first_seq,
    }
    if followers:
        _, once["heir_kind"], once["heir_reason"], once["heir_project"], *_ = decision.events[1]
        each["heirs"] = array([heir and heir.spec.id for heir in heirs])
        each["heir_versions"] = array(heir_versions)
        each["heir_agents"] = array([heir and heir.spec.agent_key for heir in heirs])
        each["heir_count"] = len(followers)
    # All as text: the driver would prepare the statement anew for every size of a number.
    params = {name: None if value is None else str(value) for name, value in {**once, **each}.items()}
    statement = sql.variant("settle_alike", frozenset({"heirs"} if followers else ()))
    if conn.execute(statement, params).rowcount != len(ends) + len(followers):
        raise Changed


@in_bulk
def spread(decision: Decision, ends: Sequence[End], reports: Sequence[Finish]) -> Decision:
    """A decision that answers for all; what it writes is told of one only."""
    state, status = decision.settled[0].state, decision.answers[0].status
    heirs = {end.item.spec.id: (end.heir.spec.id,) for end in ends if end.heir is not None}
    return replace(
        decision,
        answers=[
            new_tuple(Ended, (r.run, r.item, status, None, heirs.get(r.item, ()), None)) for r in reports
        ],
        after={item.spec.id: new_tuple(Item, (item.spec, state)) for _, item, *_ in ends},
    )
