"""Rows to values and back, the same for both databases. Column order is field order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from interlock.core.model import (
    SPEC_FIELDS,
    STATE_FIELDS,
    Event,
    EventKind,
    Item,
    Policy,
    Reason,
    RetryLane,
    RunRecord,
    Spec,
    State,
)
from interlock.core.states import ItemStatus, RunStatus
from interlock.store.port import StoredMessage

ITEM_COLUMNS = SPEC_FIELDS + STATE_FIELDS
_POLICY = {p.value: p for p in Policy}
_RETRY_LANE = {r.value: r for r in RetryLane}
_STATUS = {s.value: s for s in ItemStatus}
_RUN_STATUS = {s.value: s for s in RunStatus}
_KIND = {k.value: k for k in EventKind}


def item_from_row(row: Sequence[Any]) -> Item:
    """An item from a row of all its columns; labels come as a list, or as none."""
    return Item(
        Spec(
            id=row[0],
            project=row[1],
            type=row[2],
            title=row[3],
            agent_key=row[4],
            policy=_POLICY[row[5]],
            priority=row[6],
            position=row[7],
            ticket=row[8],
            sort_key=row[9],
            lane=row[10],
            observed_lane=row[11],
            labels=tuple(row[12] or ()),
            lease_s=row[13],
            timeout_s=row[14],
            max_attempts=row[15],
            retry_lane=_RETRY_LANE[row[16]],
            created_us=row[17],
        ),
        State(
            status=_STATUS[row[18]],
            attempt=row[19],
            releases=row[20],
            due_us=row[21],
            run=row[22],
            run_agent=row[23],
            run_worker=row[24],
            run_started_us=row[25],
            run_lease_s=row[26],
            lease_until_us=row[27],
            revoke_us=row[28],
            cancel_into=_STATUS[row[29]] if row[29] else None,
            cancel_why=row[30],
            absorbed_by=row[31],
            message_count=row[32],
            delivered=row[33],
            seen=row[34],
            front=bool(row[35]),
            promoted_from=row[36],
            first_claimed_us=row[37],
            ended_us=row[38],
            reason=row[39],
        ),
    )


def spec_row(spec: Spec) -> tuple[Any, ...]:
    """The columns of a spec. Labels stay a list; none where there are none."""
    return (
        spec.id,
        spec.project,
        spec.type,
        spec.title,
        spec.agent_key,
        spec.policy,
        spec.priority,
        spec.position,
        spec.ticket,
        spec.sort_key,
        spec.lane,
        spec.observed_lane,
        list(spec.labels) or None,
        spec.lease_s,
        spec.timeout_s,
        spec.max_attempts,
        spec.retry_lane,
        spec.created_us,
    )


def state_row(state: State) -> tuple[Any, ...]:
    """The columns of a state."""
    return (
        state.status,
        state.attempt,
        state.releases,
        state.due_us,
        state.run,
        state.run_agent,
        state.run_worker,
        state.run_started_us,
        state.run_lease_s,
        state.lease_until_us,
        state.revoke_us,
        state.cancel_into,
        state.cancel_why,
        state.absorbed_by,
        state.message_count,
        state.delivered,
        state.seen,
        state.front,
        state.promoted_from,
        state.first_claimed_us,
        state.ended_us,
        state.reason,
    )


def run_row(run: RunRecord) -> tuple[Any, ...]:
    """The columns of an ended run."""
    return (
        run.run,
        run.item,
        run.attempt,
        run.agent,
        run.worker,
        run.started_us,
        run.ended_us,
        run.status,
        run.reason,
        run.result,
        run.error,
    )


def run_from_row(row: Sequence[Any]) -> RunRecord:
    """An ended run from a row of all its columns."""
    return RunRecord(
        run=row[0],
        item=row[1],
        attempt=row[2],
        agent=row[3],
        worker=row[4],
        started_us=row[5],
        ended_us=row[6],
        status=_RUN_STATUS[row[7]],
        reason=row[8],
        result=row[9],
        error=row[10],
    )


def event_row(event: Event) -> tuple[Any, ...]:
    """The columns of an event but for its number. Absent details are left out of `data`."""
    data = {k: v for k, v in event.data.items() if v is not None}
    return (
        event.at_us,
        event.kind,
        event.reason,
        event.project,
        event.item,
        event.run,
        event.lane,
        event.agent,
        event.span_us,
        json.dumps(data, separators=(",", ":"), ensure_ascii=False) if data else None,
    )


def event_from_row(row: Sequence[Any]) -> Event:
    """An event from its columns after the number."""
    return Event(
        at_us=row[0],
        kind=_KIND[row[1]],
        reason=row[2],
        project=row[3],
        item=row[4],
        run=row[5],
        lane=row[6],
        agent=row[7],
        span_us=row[8],
        data=json.loads(row[9]) if row[9] else {},
    )


def stored_message(row: Sequence[Any]) -> StoredMessage:
    """A message from a row of the `messages` statement."""
    return StoredMessage(
        item=row[0], n=row[1], text=row[2], author=row[3], origin=row[4], at_us=row[5], payload=row[6]
    )


def spans(rows: Iterable[Sequence[Any]]) -> dict[str, list[int]]:
    """Spans of the window by what they measure, sorted."""
    lock_us: list[int] = []
    to_claim_us: list[int] = []
    for kind, span_us in rows:
        (to_claim_us if kind == "run.started" else lock_us).append(span_us)
    return {"lock_us": sorted(lock_us), "to_claim_us": sorted(to_claim_us)}


def first_since(low: int, high: int, since_us: int, probe: Callable[[int], Sequence[int]]) -> int:
    """The first event number at or after a time, by halving: event times grow with their numbers."""
    while low < high:
        middle = (low + high) // 2
        seq, at_us = probe(middle)
        if at_us >= since_us:
            high = middle
        else:
            low = seq + 1
    return low


def columns(rows: Sequence[Sequence[Any]]) -> list[str]:
    """Rows turned into one PostgreSQL array literal a column, for set-based statements.

    The driver's own array dumper took a third of a finish. A column without a value becomes an empty
    array, which `unnest` fills up with nulls.
    """
    return [_array(column) for column in zip(*rows, strict=True)]


def _array(column: Sequence[Any]) -> str:
    if column.count(None) == len(column):
        return "{}"
    return "{" + ",".join([_ELEMENTS[type(v)](v) if v is not None else "NULL" for v in column]) + "}"


@lru_cache(maxsize=4096)
def _quoted_short(text: str) -> str:
    return _quoted(text)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _text(value: str) -> str:
    return _quoted_short(value) if len(value) < 64 else _quoted(value)


_ELEMENTS: dict[type, Callable[[Any], str]] = {
    int: str,
    float: repr,
    bool: lambda v: "t" if v else "f",
    str: _text,
    **dict.fromkeys((ItemStatus, RunStatus, Policy, RetryLane, EventKind, Reason), _text),
}
