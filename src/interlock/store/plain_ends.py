"""The short way to write successes on PostgreSQL: by the process that claimed, on what it remembers.

Runs that end alike are decided once. The rules decide on one of them, with whoever follows on its lane; the
others differ from it in nothing that the rules look at but names, and their end is written in the same words.

That is before any item is locked. So each group is written in one statement, which locks the rows and writes
nothing unless all of them, those that end and those that follow, are still in the versions decided on. Only
plain ends and promotions are written so: nothing else needs more than these rows, and no deadline is counted
from a clock that was read before the wait for a row. `Changed` sends all others the long way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, NamedTuple

from interlock.core.commands import Ended, Finish
from interlock.core.decide import decide
from interlock.core.ledger import Decision, Snapshot
from interlock.core.model import STATE_FIELDS, Event, Item, ItemId, RunRecord
from interlock.core.plan_model import plan_of_lane
from interlock.core.timing import Timing
from interlock.store.bulk import in_bulk
from interlock.store.postgres_database import Connection
from interlock.store.rows import OVER_FIELDS, all_same, array, ends_bare, event_row, over_values, was_promoted
from interlock.store.statements import Statements

#: Groups are few in practice; where they are not, reading everything is cheaper.
GROUPS_AT_MOST = 8
#: What `settle_alike` takes once for all: of the items, of their runs, and of the lines of history.
_ONCE = (
    *OVER_FIELDS,
    *(f"run_{name}" for name in RunRecord._fields[2:]),
    *(f"event_{name}" for name in Event._fields),
)
_EVENT_ITEM = Event._fields.index("item")  # run, lane, agent, span and data stand behind it
#: A state but for the runs that it names.
_state_but_names = itemgetter(
    *(n for n, name in enumerate(STATE_FIELDS) if name not in ("run", "promoted_from"))
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
def grouped(
    known: Sequence[Version], reports: Sequence[Finish], heads: Mapping[str | None, Version]
) -> list[list[End]]:
    """The runs that are reported, those that end alike together; or `Changed`, if there is more to it."""
    items = {kept[0].spec.id: kept for kept in known}
    if len(reports) != len(items):
        raise Changed
    nobody = (None, None)
    ends = [
        End._make((report, *(kept := items[report.item]), *heads.get(kept[0].spec.lane, nobody)))
        for report in reports
    ]
    groups: dict[tuple[object, ...], list[End]] = {}
    for end in ends:
        spec, state = end.item
        kind = (spec.project, state.attempt, state.message_count, end.heir is None)
        groups.setdefault(kind, []).append(end)
    if len(groups) > GROUPS_AT_MOST or not all(map(_alike, groups.values())):
        raise Changed
    return list(groups.values())


def _alike(ends: Sequence[End]) -> bool:
    """Whether reports of live runs differ only in names and results, and who follows in nothing that a
    promotion looks at but names."""
    states = [end.item.state for end in ends]
    reports = [end.report for end in ends]
    heirs = [end.heir for end in ends if end.heir is not None]
    return (
        [state.run for state in states] == [report.run for report in reports]
        and all_same([_state_but_names(state) for state in states])
        and all_same([report[2:_RESULT_AT] for report in reports])
        and all_same([report[_RESULT_AT + 1 : _JITTER_AT] for report in reports])
        and all_same([(heir.spec.project, heir.spec.claim_within_s) for heir in heirs])
    )


def decided(ends: Sequence[End], now_us: int, timing: Timing) -> Decision:
    """What the rules say about the first of those that end alike; `Changed` unless that is what
    `settle_alike` can say of all."""
    (run, item_id, *_), item, _, heir, _ = ends[0]
    items = {i.spec.id: i for i in (item, heir) if i is not None}
    decision = decide(Snapshot(items=items), [ends[0].report], now_us, timing)
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
        said = {"from_run": run, "to_item": heir.spec.id, "agent_key": agent}
        promised = [(heir.spec.id, run, lane, agent, None, said)]
    names = event[_EVENT_ITEM : _EVENT_ITEM + 3]
    if names != (item_id, run, lane) or [t[_EVENT_ITEM:] for t in transfers] != promised:
        raise Changed
    return decision


def write(conn: Connection, sql: Statements, decision: Decision, ends: Sequence[End], first_seq: int) -> None:
    """Write for all that end alike what was decided on the first of them, or raise `Changed`."""
    (over,), (run,), (event, *transfer) = decision.settled, decision.runs, decision.events
    values = (*over_values(over.state), *run[2:], *event_row(event))
    once = dict(zip(_ONCE, values, strict=True))
    reports, items, versions, heirs, heir_versions = zip(*ends, strict=True)
    each: dict[str, Any] = {
        "items": array([report.item for report in reports]),
        "versions": array(versions),
        "runs": array([report.run for report in reports]),
        "lanes": array([item.spec.lane for item in items]),
        "results": array([report.result for report in reports]),
        "count": len(ends),
        "first_seq": first_seq,
    }
    if transfer:
        _, once["heir_kind"], once["heir_reason"], once["heir_project"], *_ = transfer[0]
        each["heirs"] = array([heir.spec.id for heir in heirs])
        each["heir_versions"] = array(heir_versions)
        each["heir_agents"] = array([heir.spec.agent_key for heir in heirs])
    # All as text: the driver would prepare the statement anew for every size of a number.
    params = {name: None if value is None else str(value) for name, value in {**once, **each}.items()}
    statement = sql.variant("settle_alike", frozenset({"heirs"} if transfer else ()))
    if conn.execute(statement, params).rowcount != len(ends) * len(decision.events):
        raise Changed


@in_bulk
def spread(
    decisions: Sequence[Decision], groups: Sequence[Sequence[End]], reports: Sequence[Finish]
) -> Decision:
    """One decision that answers for all; what it writes is told of the first one only."""
    after: dict[ItemId, Item] = {}
    answers: dict[ItemId, Ended] = {}
    for decision, ends in zip(decisions, groups, strict=True):
        state, status = decision.settled[0].state, decision.answers[0].status
        for (run, item_id, *_), item, _, heir, _ in ends:
            after[item_id] = Item(item.spec, state)
            promoted = (heir.spec.id,) if heir is not None else ()
            answers[item_id] = Ended(run, item_id, status, None, promoted)
    return replace(
        decisions[0],
        answers=[answers[report.item] for report in reports],
        after=after,
        wakes=any(decision.wakes for decision in decisions),
    )
