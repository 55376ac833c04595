"""The two documents of a lane in git, its owner and its queue: their values and their JSON.

The *owner* document holds the run and its lease; only the run itself and a handover write it. The *queue*
document holds the items, their messages and the line. Arrivals write only the queue, so they never disturb
the owner's renewals and pushes. The lease of a running item is therefore not in it. Both name the run; a
pair that names different runs is unreadable.

A document that Interlock cannot have written raises `UnreadableState`, and the lane counts as held. Data that
older versions do not know is written in a newer format, so that they refuse it too.
"""

from __future__ import annotations

import math
import types
import typing
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from hashlib import sha256
from typing import Any

from interlock.core.errors import InterlockError, UnreadableState
from interlock.core.model import (
    NO_STREAK,
    Gate,
    Item,
    ItemId,
    NewMessage,
    RunId,
    RunRecord,
    Spec,
    State,
    Streak,
)
from interlock.core.names import agent_key, lane_key
from interlock.core.row import NamedTuple
from interlock.core.states import ItemStatus
from interlock.git.plumbing import lane_ref_id
from interlock.process.reaction import PostedReaction
from interlock.process.workplace import ActionsRun

#: The newest format. A document is written in the oldest format that can express it.
FORMAT = 2
#: `item number = (lane bits << COUNT_BITS) + count`: numbers of two lanes differ without a common sequence.
#: They stay below 2^53, so that every JSON reader keeps them exactly.
COUNT_BITS, LANE_BITS = 21, 32

NO_RUN = RunId(0)

#: The fields of a queue that share one conversion: numbers and lists.
_NUMBERS, _LISTS = ("last_run", "last_count", "last_ticket"), ("messages", "ended", "keys")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class OwnerRun(NamedTuple):
    """The run that owns a lane. Its times are by the holder's clock, for people: no rule uses them."""

    run: RunId
    item: ItemId
    #: Digest of the handle, so that reading the document does not give the right to write as the run.
    handle: str
    run_agent: str
    run_worker: str | None
    run_started_us: int
    #: Without a lease the run is external, and has a `due_us` only if its item has a timeout.
    run_lease_s: float | None
    lease_until_us: int | None
    due_us: int | None
    delivered: int
    seen: int
    #: Set with the first renewal that saw a request to stop.
    revoke_us: int | None = None
    actions: ActionsRun | None = None
    sign: PostedReaction | None = None

    @property
    def external(self) -> bool:
        """Whether the work is done outside: no process renews the run, and it has no lease to expire."""
        return self.run_lease_s is None


#: The fields of a running item that are in the owner document; in the queue they have their defaults.
LEASE_FIELDS = tuple(name for name in OwnerRun._fields if name in State._fields and name != "run")
_TIMES = frozenset(name for name in OwnerRun._fields if name.endswith("_us"))


class ShorteningRefusal(NamedTuple):
    """The server refused to shorten the chains of a lane: their number of commits, and its message."""

    commits: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The owner of a lane. `last_run` is the highest run number so far; the next run gets a greater one."""

    last_run: RunId = NO_RUN
    run: OwnerRun | None = None
    kept: ShorteningRefusal | None = None
    #: The reaction of the previous run on GitHub. If that run died, the reaction is still there.
    before: PostedReaction | None = None

    @property
    def format(self) -> int:
        """The oldest format that can express this owner."""
        return 2 if self.run is not None and self.run.external else 1


class GateRun(NamedTuple):
    """A run of a series. The handle distinguishes runs with the same number: if a person deletes the refs of
    a lane, its runs are counted from 1 again."""

    run: RunId
    handle: str


class DedupeKey(NamedTuple):
    """A dedupe key and the first item that was added with it."""

    project: str
    key: str
    item: ItemId
    expires_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The items of a lane: all unfinished ones, and the last ones that ended."""

    last_run: RunId = NO_RUN
    last_count: int = 0
    last_ticket: int = 0
    items: Mapping[ItemId, Item] = field(default_factory=dict)
    payloads: Mapping[ItemId, str] = field(default_factory=dict)
    messages: tuple[NewMessage, ...] = ()
    ended: tuple[RunRecord, ...] = ()
    keys: tuple[DedupeKey, ...] = ()
    streak: Streak = NO_STREAK
    #: The lane's gate. If it is open, also the run of the series that it is open for.
    gate: Gate | None = None
    gate_run: GateRun | None = None
    #: Counters of the lane by their names, such as `conflicts`.
    counts: Mapping[str, int] = field(default_factory=dict)
    #: The digests of the handles of observed runs. These runs do not hold the lane, so the owner document
    #: has none of them, and their leases are here.
    handles: Mapping[RunId, str] = field(default_factory=dict)

    @property
    def format(self) -> int:
        """The oldest format that can express this queue. An older version would start items that a gate
        blocks, and treat observed runs as owners."""
        observed = any(i.spec.lane is None for i in self.items.values())
        return 2 if observed or self.gate is not None else 1


def lane_bits(ref_id: str) -> int:
    """The part of an item's number that identifies its lane."""
    return int.from_bytes(sha256(ref_id.encode()).digest()[: LANE_BITS // 8])


# -- writing ----------------------------------------------------------------------------------------


def owner_document(lane: str, owner: Owner, lines: tuple[str, ...]) -> dict[str, Any]:
    """The owner as JSON. Times are readable, exact to the microsecond."""
    run = None
    if owner.run is not None:
        run = {name: value for name, value in owner.run._asdict().items() if value is not None}
        for name in run.keys() & _TIMES:
            run[name] = _written_time(run[name])
        for name in ("actions", "sign"):
            if name in run:
                run[name] = run[name]._asdict()
    notes = {"kept": owner.kept, "before": owner.before}
    return {
        "format": owner.format,
        "lane": lane,
        "last_run": owner.last_run,
        "run": run,
        **{name: note._asdict() for name, note in notes.items() if note is not None},
        "happened": [*lines],
    }


def queue_document(lane: str, queue: Queue, lines: tuple[str, ...]) -> dict[str, Any]:
    """The queue as JSON, without fields that have their default value."""
    return {
        "format": queue.format,
        "lane": lane,
        **{name: getattr(queue, name) for name in _NUMBERS},
        "items": [_written(i.spec, but=("lane",)) | _written(_unleased(i)) for i in queue.items.values()],
        "payloads": {str(item): text for item, text in queue.payloads.items()},
        **{name: [_written(value) for value in getattr(queue, name)] for name in _LISTS},
        **({"streak": _written(queue.streak)} if queue.streak.wakes else {}),
        **({"gate": _written(queue.gate)} if queue.gate is not None else {}),
        **({"gate_run": queue.gate_run._asdict()} if queue.gate_run is not None else {}),
        **({"counts": queue.counts} if queue.counts else {}),
        **({"handles": {str(run): handle for run, handle in queue.handles.items()}} if queue.handles else {}),
        "happened": [*lines],
    }


def _unleased(item: Item) -> State:
    if item.status is not ItemStatus.IN_PROGRESS or item.spec.lane is None:
        return item.state
    unleased: dict[str, Any] = {name: State._field_defaults[name] for name in LEASE_FIELDS}
    return item.state._replace(**unleased)


def _written(value: Any, but: tuple[str, ...] = ()) -> dict[str, Any]:
    defaults = value._field_defaults
    return {
        name: item
        for name, item in value._asdict().items()
        if name not in but and item is not None and (name not in defaults or item != defaults[name])
    }


def _written_time(at_us: int) -> str:
    return (_EPOCH + timedelta(microseconds=at_us)).isoformat(timespec="microseconds").replace("+00:00", "Z")


# -- reading ----------------------------------------------------------------------------------------


def read_owner(ref_id: str, document: Mapping[str, Any]) -> tuple[str, Owner]:
    """The lane's name and its owner."""
    with _exactly("owner", ref_id):
        lane = _read_head(ref_id, document)
        run = document["run"]
        if run is not None:
            run = dict(run)
            for name in run.keys() & _TIMES:
                run[name] = _read_time(run[name])
            run = _read(OwnerRun, run)
        kept = _read(ShorteningRefusal, document["kept"]) if "kept" in document else None
        before = _read(PostedReaction, document["before"]) if "before" in document else None
        last_run = RunId(_typed(int, document["last_run"]))
        owner = Owner(last_run=last_run, run=run, kept=kept, before=before)
        _require(run is None or run.run <= owner.last_run, "a run above the last number")
        _require(run is None or agent_key(run.run_agent) == run.run_agent != "", "no agent")
        if run is not None:
            _require((run.lease_until_us is None) is run.external, "half a lease")
            _require(run.external or run.due_us is not None, "no deadline")
            _require(run.actions is None or not run.external, "a workflow of an external run")
        _require(document["format"] == owner.format, "a run of another format")
        return lane, owner


def read_queue(ref_id: str, document: Mapping[str, Any]) -> tuple[str, Queue]:
    """The lane's name and its queue."""
    with _exactly("queue", ref_id):
        lane = _read_head(ref_id, document)
        items = [_read_item(lane, entry) for entry in _typed(list, document["items"])]
        kinds = _fields(Queue)
        queue = Queue(
            items={item.id: item for item in items},
            payloads={ItemId(int(i)): _typed(str, text) for i, text in document["payloads"].items()},
            **{name: _typed(kinds[name], document[name]) for name in (*_NUMBERS, *_LISTS)},
            streak=_read(Streak, document.get("streak", {})),
            gate=_read(Gate, document["gate"]) if "gate" in document else None,
            gate_run=_read(GateRun, document["gate_run"]) if "gate_run" in document else None,
            handles={
                RunId(int(run)): _typed(str, handle) for run, handle in document.get("handles", {}).items()
            },
            counts={name: _typed(int, n) for name, n in _typed(dict, document.get("counts", {})).items()},
        )
        gate = queue.gate
        _require(document["format"] == queue.format, "a gate of another format")
        _require(gate is None or lane_key(gate.series) == gate.series, "no name of a series")
        _require((gate is not None and gate.open) is (queue.gate_run is not None), "a gate without a run")
        first = lane_bits(ref_id) << COUNT_BITS
        _require(len(items) == len(queue.items), "an item twice")
        _require(all(first < i.id <= first + queue.last_count for i in items), "an item of another lane")
        _require(sum(i.active for i in items if i.spec.lane) <= 1, "two owners")
        _require(all(i.spec.observed_lane in (None, lane) for i in items), "an observed item of another lane")
        observed = [i.state for i in items if i.status is ItemStatus.IN_PROGRESS and i.spec.lane is None]
        _require({s.run for s in observed} == queue.handles.keys(), "an observed run without a handle")
        _require(all(s.run_agent and s.run_started_us for s in observed), "an observed run without a start")
        counts = Counter(m.item for m in queue.messages)
        _require(all(i.terminal or counts[i.id] == i.state.message_count for i in items), "a message missing")
        _require(counts.keys() <= queue.items.keys(), "a message of an unknown item")
        return lane, queue


def check_pair(ref_id: str, owner: Owner, queue: Queue) -> None:
    """Raise unless both documents name the same run, or no run."""
    running = [i for i in queue.items.values() if i.status is ItemStatus.IN_PROGRESS and i.spec.lane]
    named = [(i.state.run, i.id) for i in running]
    with _exactly("owner and queue", ref_id):
        _require(owner.last_run == queue.last_run, "different last numbers")
        _require(named == ([(owner.run.run, owner.run.item)] if owner.run else []), "different runs")


def _read_head(ref_id: str, document: Mapping[str, Any]) -> str:
    _require(
        1 <= _typed(int, document["format"]) <= FORMAT,
        f"format {document['format']}, which is newer than this",
    )
    lane = _typed(str, document["lane"])
    _require(lane_ref_id(lane) == ref_id, "another lane's name")
    return str(lane)


def _read_item(lane: str, entry: Mapping[str, Any]) -> Item:
    specs = {name: value for name, value in entry.items() if name in Spec._fields}
    states = {name: value for name, value in entry.items() if name not in Spec._fields}
    on_lane = None if "observed_lane" in entry else lane
    return Item(_read(Spec, specs | {"lane": on_lane}), _read(State, states))


def _read(kind: Any, entry: Mapping[str, Any]) -> Any:
    """A named tuple from its fields; refuses unknown fields and other types, fills in defaults."""
    fields = _fields(kind)
    _require(entry.keys() <= fields.keys(), "an unknown field")
    absent: dict[str, Any] = {name: None for name in fields if name not in kind._field_defaults}
    values = {**absent, **kind._field_defaults, **entry}
    return kind(**{name: _typed(fields[name], value) for name, value in values.items()})


@cache
def _fields(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _typed(kind: Any, value: Any) -> Any:
    """The value as exactly this type. Enums and tuples are built from their JSON forms."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return None if value is None else _typed(typing.get_args(kind)[0], value)
    kind = getattr(kind, "__supertype__", kind)
    if typing.get_origin(kind) is tuple:
        return tuple(_typed(typing.get_args(kind)[0], entry) for entry in value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if isinstance(value, dict) and hasattr(kind, "_fields"):
        return _read(kind, value)
    if kind is float and type(value) is int:
        value = float(value)
    _require(type(value) is kind, f"{str(value)[:40]!r} in a wrong place")
    if kind in (int, float):
        _require(math.isfinite(value) and abs(value) < 1 << 63, "a number out of range")
    return value


def _read_time(text: Any) -> int:
    return (datetime.fromisoformat(_typed(str, text)) - _EPOCH) // timedelta(microseconds=1)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


#: The exceptions of reading a document that Interlock did not write.
_BROKEN = (InterlockError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


@contextmanager
def _exactly(what: str, ref_id: str) -> Iterator[None]:
    """Turn every error of reading a document into `UnreadableState`."""
    try:
        yield
    except UnreadableState:
        raise
    except _BROKEN as error:
        raise unreadable(ref_id, f"its {what} has {error}") from None


def unreadable(ref_id: str, why: str) -> UnreadableState:
    """The error for a lane with documents that Interlock did not write."""
    return UnreadableState(
        f"The state of the lane {ref_id} cannot be read: {why}. It counts as held.",
        mend_hint("LANE"),
    )


def mend_hint(lane: str) -> str:
    """The command that repairs an unreadable lane."""
    return f"See its history with git log; `interlock lanes mend {lane} --reason TEXT` rebuilds it."
