"""Reads the snapshot of a transaction on an SQLite store, before the rules decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from interlock.core.ledger import Snapshot
from interlock.core.model import AHEAD_MAX, Item, ItemId, RunId, RunRecord, Unread
from interlock.core.overtaking import AgentPresence
from interlock.core.plans.model import plan_lane, plan_of_lane
from interlock.core.timing import DEDUPE_KEPT_S, to_us
from interlock.store.plan_parts import Parts, edit_facts, read_parts, tasks_of_edit
from interlock.store.port import Load
from interlock.store.rows import (
    item_from_row,
    listed,
    modes_from_rows,
    presence_from_rows,
    questions_from_rows,
    remembered,
    run_from_row,
    unclaimed,
    unread_message,
)
from interlock.store.sqlite.database import SqliteDatabase

SeenKeys = Mapping[tuple[str, str], ItemId]


def take_keys(database: SqliteDatabase, load: Load, ids: Sequence[ItemId], now_us: int) -> SeenKeys:
    """Assign each new dedupe key to its arrival; returns the known ones with their items."""
    seen: dict[tuple[str, str], ItemId] = {}
    mine: set[ItemId] = set()
    for key, item in zip(load.keys, ids, strict=False):
        if key is None:
            continue
        first: ItemId = database.value(
            "take_key",
            project=key[0],
            key=key[1],
            item=item,
            now_us=now_us,
            expires_us=now_us + to_us(DEDUPE_KEPT_S),
        )
        mine.add(item)
        if first not in mine:
            seen[key] = first
    return seen


def read(database: SqliteDatabase, load: Load, seen_keys: SeenKeys) -> Snapshot:
    """Read everything that the rules may need about the names in `load`."""
    ask = database.rows
    named = list(load.items)
    if load.edit is not None:
        named += [t.item for t in tasks_of_edit(ask, load.edit)]
    if made := (*load.lanes, *load.task_lanes):
        ask("add_lanes", lanes=made)
    lanes_of_named = [r[0] for r in ask("lanes_of_items", items=named)]
    lanes = sorted({*load.lanes, *lanes_of_named, *map(plan_lane, load.plans)})
    plans = [p for p in map(plan_of_lane, lanes) if p is not None]
    parts = read_parts(ask, plans, load) if plans else Parts(plans={})
    # As many items of a line as may leave its lane here, as each may promote one.
    heads = max(Counter(lanes_of_named).values(), default=1)
    targets = [*named, *seen_keys.values(), *parts.items]
    rows = ask("load_items", items=targets, lanes=lanes, heads=heads, names=load.names)
    items = {i.id: i for i in map(item_from_row, rows)}
    most = AHEAD_MAX + load.arrivals
    lines = [row for lane in load.lanes for row in ask("load_lines", lane=lane, limit=most)]
    return Snapshot(
        items=items,
        lines={lane: (count, listed(positions) if positions else ()) for lane, count, positions in lines},
        unread=_unread(database, items),
        **_remembered(database, lanes),
        held_back=_held_back(database, items),
        presence=_presence(database, load.presence) if load.presence else {},
        busy_gate=_busy_gate(database, load),
        seen_keys=seen_keys,
        questions=_questions(database, items),
        ended_runs=_ended_runs(database, load, items),
        modes=modes_from_rows(ask("modes")) if load.lanes else (),
        plans={plan: part.whole() for plan, part in parts.plans.items()},
        **edit_facts(ask, load, parts),
    )


def look(database: SqliteDatabase, item: ItemId) -> Snapshot:
    """The current state of an item and its lane, without a lock."""
    lanes = [row[0] for row in database.rows("lanes_of_items", items=[item])]
    rows = database.rows("load_items", items=[item], lanes=lanes, heads=1, names=())
    items = {i.id: i for i in map(item_from_row, rows)}
    return Snapshot(items=items, unread=_unread(database, items), **_remembered(database, lanes))


def _remembered(database: SqliteDatabase, lanes: Sequence[str]) -> dict[str, Any]:
    return remembered(database.rows("load_lanes", lanes=lanes) if lanes else ())


def _unread(database: SqliteDatabase, items: Mapping[ItemId, Item]) -> dict[ItemId, tuple[Unread, ...]]:
    """The messages that the rules may have to move: see `Snapshot.unread`."""
    talked_to = [i.id for i in items.values() if i.has_unread or (i.comes_back and i.state.message_count)]
    unread: dict[ItemId, tuple[Unread, ...]] = {}
    for item, *message in database.rows("load_unread", items=talked_to) if talked_to else ():
        unread[item] = (*unread.get(item, ()), unread_message(message))
    return unread


def _questions(database: SqliteDatabase, items: Mapping[ItemId, Item]) -> dict[ItemId, str]:
    live = [i.id for i in items.values() if i.asking_live]
    return questions_from_rows(database.rows("load_questions", items=live)) if live else {}


def _presence(database: SqliteDatabase, agents: Sequence[str]) -> dict[str, AgentPresence]:
    return presence_from_rows(database.rows("presence", agents=agents, now_us=database.now_us()))


def _held_back(database: SqliteDatabase, items: Mapping[ItemId, Item]) -> frozenset[ItemId]:
    timed = [i for i in items.values() if i.state.claim_by_us is not None]
    if not timed:
        return frozenset()
    late = unclaimed({i.id: i for i in timed}, database.now_us())
    return frozenset(row[0] for row in database.rows("held_back", items=late)) if late else frozenset()


def _busy_gate(database: SqliteDatabase, load: Load) -> str | None:
    if load.gate is None:
        return None
    lane, series = load.gate
    return next((row[0] for row in database.rows("busy_gate", lane=lane, series=series)), None)


def _ended_runs(database: SqliteDatabase, load: Load, items: Mapping[ItemId, Item]) -> dict[RunId, RunRecord]:
    live = {i.state.run for i in items.values()}
    late = [r for r in load.runs if r not in live]
    return {r.run: r for r in map(run_from_row, database.rows("load_runs", runs=late))} if late else {}
