"""Converts rows to values and back, for both databases. Column order is that of `ITEM_COLUMNS`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeVar

from interlock.core.claims import Agent, Pool
from interlock.core.handles import Handle
from interlock.core.model import (
    SPEC_FIELDS,
    STATE_FIELDS,
    Event,
    EventKind,
    Gate,
    Item,
    ItemId,
    Mode,
    ModeRule,
    Policy,
    Reason,
    RetryLane,
    RunRecord,
    SenderKind,
    Spec,
    State,
    Streak,
    Unread,
)
from interlock.core.overtaking import AgentPresence
from interlock.core.plans.model import EdgeState, OnCancel, PlanStatus, When
from interlock.core.states import ItemStatus, RunStatus
from interlock.store.port import StoredMessage

Row = TypeVar("Row")
#: The most text in one statement, except for a single larger row.
PORTION_CHARS = 1 << 20
#: A column can only be added at the end: the newest of the spec are after those of the state, and still newer
#: ones of the state are last.
_NEWER, _NEWEST = 2, 5
ITEM_COLUMNS = (
    SPEC_FIELDS[:-_NEWER] + STATE_FIELDS[:-_NEWEST] + SPEC_FIELDS[-_NEWER:] + STATE_FIELDS[-_NEWEST:]
)
ITEM_WIDTH = len(ITEM_COLUMNS)
_POLICY = {p.value: p for p in Policy}
_RETRY_LANE = {r.value: r for r in RetryLane}
_STATUS = {s.value: s for s in ItemStatus}
_RUN_STATUS = {s.value: s for s in RunStatus}
_KIND = {k.value: k for k in EventKind}
_RUN_FROM, _RUN_TO = STATE_FIELDS.index("releases"), STATE_FIELDS.index("absorbed_by")
#: The state's fields of a run, its releases and its cancel request, all empty.
_NO_RUN = State(status=ItemStatus.COMPLETED)[_RUN_FROM:_RUN_TO]
_end_values = itemgetter(
    *map(
        STATE_FIELDS.index,
        ("status", "attempt", "absorbed_by", "message_count", "delivered", "seen", "ended_us", "reason"),
    )
)
_to_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode  # `dumps` would make one a call
#: A named tuple from its type and all its values. Its constructor is slower, and batches create thousands.
new_tuple: Any = tuple.__new__
_STATE_AT, _NEWEST_AT = len(SPEC_FIELDS) - _NEWER, ITEM_WIDTH - _NEWEST
_NEWER_AT = _NEWEST_AT - _NEWER
_POLICY_AT, _LABELS_AT, _RETRY_LANE_AT, _STATUS_AT, _CANCEL_AT, _FRONT_AT, _GATED_AT, _BLOCKED_AT = (
    ITEM_COLUMNS.index(name)
    for name in ("policy", "labels", "retry_lane", "status", "cancel_into", "front", "gated", "blocked")
)


def listed(column: Any) -> tuple[Any, ...]:
    """A list in a column. SQLite returns it as JSON."""
    return tuple(json.loads(column) if isinstance(column, str) else column)


def item_from_row(row: Sequence[Any]) -> Item:
    """An item from a row that begins with all its columns."""
    values = list(row)
    values[_POLICY_AT] = _POLICY[values[_POLICY_AT]]
    values[_LABELS_AT] = listed(values[_LABELS_AT]) if values[_LABELS_AT] else ()
    values[_RETRY_LANE_AT] = _RETRY_LANE[values[_RETRY_LANE_AT]]
    values[_STATUS_AT] = _STATUS[values[_STATUS_AT]]
    values[_CANCEL_AT] = _STATUS[values[_CANCEL_AT]] if values[_CANCEL_AT] else None
    values[_FRONT_AT] = bool(values[_FRONT_AT])
    values[_GATED_AT] = bool(values[_GATED_AT])
    values[_BLOCKED_AT] = bool(values[_BLOCKED_AT])
    spec: Spec = new_tuple(Spec, (*values[:_STATE_AT], *values[_NEWER_AT:_NEWEST_AT]))
    state: State = new_tuple(State, (*values[_STATE_AT:_NEWER_AT], *values[_NEWEST_AT:ITEM_WIDTH]))
    item: Item = new_tuple(Item, (spec, state))
    return item


def item_row(item: Item, labels: str | None) -> tuple[Any, ...]:
    """All columns of an item, with its labels in the database's form."""
    spec, state = item
    start = (*spec[:_LABELS_AT], labels, *spec[_LABELS_AT + 1 : -_NEWER])
    return (*start, *state[:-_NEWEST], *spec[-_NEWER:], *state[-_NEWEST:])


def state_row(item: Item) -> tuple[Any, ...]:
    """The parameters of `update_item`: the id, the whole state, and the attempts that a retry granted."""
    return (item.spec.id, *item.state, item.spec.max_attempts)


def spec_row(item: Item, labels: str | None) -> tuple[Any, ...]:
    """The parameters of `update_spec`, with the labels in the database's form."""
    spec = item.spec
    return (
        spec.id,
        spec.type,
        spec.title,
        spec.agent_key,
        spec.priority,
        spec.position,
        spec.sort_key,
        labels,
        spec.lease_s,
        spec.timeout_s,
        spec.max_attempts,
        spec.retry_lane,
    )


def gate_row(lane: str, gate: Gate | None, exempt: Any) -> tuple[Any, ...]:
    """The parameters of `set_gate`, with the exempt types in the database's form."""
    return (lane, *((None,) * 4 if gate is None else (gate.series, gate.open, exempt, gate.at_us)))


def pool_from_row(row: Sequence[Any]) -> Pool:
    name, most, running, agents = row
    return Pool(name=name, max_concurrency=most, running=running, agents=listed(agents))


def agent_from_row(row: Sequence[Any]) -> Agent:
    """An agent from its columns, with or without its counts. An ended quota limit counts as none."""
    running, pending, pool_max, pool_running, *waiting = row[11:] or (0, 0, None, 0)
    deferred, oldest_us = waiting or (0, None)
    return Agent(
        key=row[0],
        name=row[1],
        max_concurrency=row[2],
        types=listed(row[3]),
        labels=listed(row[4]),
        paused_why=row[5],
        seen_us=row[6],
        wall_us=row[7],
        wall_why=row[8] if row[7] is not None else None,
        pool=row[9],
        overtake_after_s=row[10],
        pool_max=pool_max,
        pool_running=pool_running or 0,
        running=running,
        pending=pending,
        deferred=deferred,
        oldest_us=oldest_us,
    )


def modes_from_rows(rows: Iterable[Sequence[Any]]) -> tuple[ModeRule, ...]:
    return tuple(ModeRule(scope=scope, value=value, mode=Mode(mode)) for scope, value, mode in rows)


def unclaimed(items: Mapping[ItemId, Item], now_us: int) -> list[ItemId]:
    """The items whose time limit for a claim has expired."""
    return [i for i, item in items.items() if item.state.claim_by_us is not None and item.overdue(now_us)]


def presence_from_rows(rows: Iterable[Sequence[Any]]) -> dict[str, AgentPresence]:
    """The presence of agents, by key."""
    return {
        key: AgentPresence(seen_us=seen, worker_us=worker, running=bool(running), overtake_after_s=after_s)
        for key, seen, worker, running, after_s in rows
    }


def gate_from_row(row: Sequence[Any]) -> Gate:
    series, is_open, exempt, at_us = row
    return Gate(series, bool(is_open), listed(exempt), at_us)


def remembered(lanes: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """The lanes' stored data about their runs, under the names of a snapshot."""
    return {
        "streaks": {lane: Streak(wakes, run) for lane, wakes, run, *_ in lanes if wakes},
        "last_agents": {lane: agent for lane, _, _, agent, *_ in lanes if agent is not None},
        "gates": {lane: gate_from_row(gate) for lane, _, _, _, *gate, _ in lanes if gate[0] is not None},
        "blocked": frozenset(lane for lane, *_, blocked in lanes if blocked),
    }


def ends_bare(state: State) -> bool:
    """Whether an item has ended without data of a run, so that `end_row` covers its whole state."""
    return state.ended_us is not None and state[_RUN_FROM:_RUN_TO] == _NO_RUN and state.promoted_from is None


def end_row(item: Item) -> tuple[Any, ...]:
    """The parameters of `end_items`: the id, the fields that differ between bare ends, and granted
    attempts."""
    return (item.spec.id, *_end_values(item.state), item.spec.max_attempts)


def run_from_row(row: Sequence[Any]) -> RunRecord:
    """An ended run from a row of all its columns."""
    return RunRecord._make(row)._replace(status=_RUN_STATUS[row[7]])


def by_handle(records: Iterable[RunRecord]) -> dict[Handle, RunRecord]:
    """Ended runs by their handles. Runs from before handles were stored have none."""
    return {Handle(r.run, r.item, r.bits): r for r in records if r.bits is not None}


def event_row(event: Event) -> tuple[Any, ...]:
    """The columns of an event except its number. Absent details are left out of `data`."""
    if not event.data:
        return (*event[:-1], None)
    data = {k: v for k, v in event.data.items() if v is not None}
    return (*event[:-1], _to_json(data) if data else None)


def event_rows(events: Iterable[Event]) -> str:
    """The parameters of `insert_events`: the columns of events after their time, as JSON."""
    return _to_json([event_row(event)[1:] for event in events])


def event_from_row(row: Sequence[Any]) -> Event:
    """An event from its columns after the number."""
    return Event._make((row[0], _KIND.get(row[1], row[1]), *row[2:9], json.loads(row[9]) if row[9] else {}))


def stored_message(row: Sequence[Any]) -> StoredMessage:
    """A message from a row of the `messages` statement."""
    item, n, text, author, origin, at_us, payload, sender, agent, reason, url, said = row
    return StoredMessage(
        item=item,
        n=n,
        text=text,
        author=author,
        origin=origin,
        at_us=at_us,
        payload=payload,
        sender=SenderKind(sender),
        agent=agent,
        reason=reason,
        url=url,
        said=said,
    )


def questions_from_rows(rows: Iterable[Sequence[Any]]) -> dict[ItemId, str]:
    """The open questions of items, from the events that asked them."""
    return {ItemId(item): str(json.loads(data)["question"]) for item, data in rows if data is not None}


def unread_message(row: Sequence[Any]) -> Unread:
    """The data of an unread message for the rules. Its numbers may be texts."""
    n, ticket, sender, agent = row
    return Unread(int(n), int(ticket), SenderKind(sender), agent)


def spans(rows: Iterable[Sequence[Any]]) -> dict[str, list[int]]:
    """The spans of the window by their measure, sorted."""
    lock_us: list[int] = []
    to_claim_us: list[int] = []
    for kind, span_us in rows:
        # A clock that was set back between two events gives no negative span.
        (to_claim_us if kind == "run.started" else lock_us).append(max(0, span_us))
    return {"lock_us": sorted(lock_us), "to_claim_us": sorted(to_claim_us)}


def first_since(low: int, high: int, since_us: int, probe: Callable[[int], Sequence[int]]) -> int:
    """The first event number at or after a time, by bisection: event times grow with their numbers."""
    while low < high:
        middle = (low + high) // 2
        seq, at_us = probe(middle)
        if at_us >= since_us:
            high = middle
        else:
            low = seq + 1
    return low if probe(high)[1] >= since_us else high + 1


def columns(rows: Sequence[Sequence[Any]], width: int) -> list[str]:
    """One PostgreSQL array literal for each column of some rows, for set-based statements.

    The driver's own array dumper took a third of the time of a finish. A column without a value becomes an
    empty array, which `unnest` fills with nulls.
    """
    return [array(column) for column in zip(*rows, strict=True)] if rows else ["{}"] * width


def portions(rows: Sequence[Row], chars: Callable[[Row], int]) -> Iterator[Sequence[Row]]:
    """Split rows into portions of at most `PORTION_CHARS` characters of text, or of one row."""
    start = size = 0
    for n, row in enumerate(rows):
        more = chars(row)
        if size + more > PORTION_CHARS and n > start:
            yield rows[start:n]
            start, size = n, 0
        size += more
    yield rows[start:]


def all_same(values: Sequence[Any]) -> bool:
    """Whether all values equal the first, also if there are none."""
    return not values or values.count(values[0]) == len(values)


def array(column: Sequence[Any]) -> str:
    """One PostgreSQL array literal."""
    if not column:
        return "{}"
    first = column[0]
    if all_same(column):
        return "{" + ",".join([_element(first)] * len(column)) + "}" if first is not None else "{}"
    kinds = set(map(type, column))
    if kinds == {int}:
        return "{" + ",".join(map(str, column)) + "}"
    # A number must not be found under an equal number of another type.
    of = _LITERALS.__getitem__ if kinds <= _TEXTS else _element
    return "{" + ",".join(map(of, column)) + "}"


class _Literals(dict[str | None, str]):
    """Caches texts as array elements. The short texts of a batch are mostly the same few."""

    def __missing__(self, text: str | None) -> str:
        if text is None:
            return "NULL"
        literal = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
        if len(text) < 64:
            if len(self) >= 4096:
                self.clear()
            self[text] = literal
        return literal


def _element(value: Any) -> str:
    kind = type(value)
    return _LITERALS[value] if kind in _TEXTS else _NUMBERS[kind](value)


_LITERALS = _Literals()
_TEXTS: frozenset[type] = frozenset(
    (
        *(str, type(None)),
        *(ItemStatus, RunStatus, Policy, RetryLane, EventKind, Reason, SenderKind),
        *(PlanStatus, EdgeState, When, OnCancel),
    )
)
_NUMBERS: dict[type, Callable[[Any], str]] = {int: str, float: repr, bool: lambda v: "t" if v else "f"}
