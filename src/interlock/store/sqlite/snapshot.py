"""What a transaction on an SQLite store reads before the rules decide."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from interlock.core.ledger import Snapshot
from interlock.core.model import AHEAD_MAX, Item, ItemId, RunId, RunRecord
from interlock.core.plans.model import plan_lane, plan_of_lane
from interlock.core.timing import DEDUPE_KEPT_S, to_us
from interlock.store.plan_parts import Parts, read_parts, tasks_of_edit
from interlock.store.port import Load
from interlock.store.rows import run_from_row, unclaimed
from interlock.store.sqlite.database import SqliteDatabase
from interlock.store.sqlite.reads import SqliteReads, item_of_row

SeenKeys = Mapping[tuple[str, str], ItemId]


def take_keys(database: SqliteDatabase, load: Load, ids: Sequence[ItemId], now_us: int) -> SeenKeys:
    """Give each new dedupe key to its arrival; returns the known ones with the item that has them."""
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


def read(reads: SqliteReads, load: Load, seen_keys: SeenKeys) -> Snapshot:
    """All that the rules may need to know about what is named in `load`."""
    ask = reads.database.rows
    named = list(load.items)
    if load.edit is not None:
        named += [t.item for t in tasks_of_edit(ask, load.edit)]
    if made := (*load.lanes, *load.task_lanes):
        ask("add_lanes", lanes=made)
    lanes_of_named = [r[0] for r in ask("lanes_of_items", items=named)]
    lanes = sorted({*load.lanes, *lanes_of_named, *map(plan_lane, load.plans)})
    plans = [p for p in map(plan_of_lane, lanes) if p is not None]
    parts = read_parts(ask, plans, load) if plans else Parts(plans={})
    # As many of a line as items may leave its lane here: each may promote one.
    heads = max(Counter(lanes_of_named).values(), default=1)
    targets = [*named, *seen_keys.values(), *parts.items]
    rows = ask("load_items", items=targets, lanes=lanes, heads=heads, names=load.names)
    items = {i.id: i for i in map(item_of_row, rows)}
    most = AHEAD_MAX + load.arrivals
    lines = [row for lane in load.lanes for row in ask("load_lines", lane=lane, limit=most)]
    return Snapshot(
        items=items,
        lines={lane: (count, tuple(json.loads(positions or "[]"))) for lane, count, positions in lines},
        unread=reads.unread(items),
        **reads.remembered(lanes),
        held_back=_held_back(reads, items),
        presence=reads.presence(load.presence) if load.presence else {},
        busy_gate=_busy_gate(reads, load),
        seen_keys=seen_keys,
        ended_runs=_ended_runs(reads.database, load, items),
        modes=reads.modes() if load.lanes else (),
        plans={plan: part.whole() for plan, part in parts.plans.items()},
        **_edit_facts(reads, load, parts),
    )


def _held_back(reads: SqliteReads, items: Mapping[ItemId, Item]) -> frozenset[ItemId]:
    timed = [i for i in items.values() if i.state.claim_by_us is not None]
    if not timed:
        return frozenset()
    late = unclaimed({i.id: i for i in timed}, reads.now_us())
    return frozenset(row[0] for row in reads.database.rows("held_back", items=late)) if late else frozenset()


def _busy_gate(reads: SqliteReads, load: Load) -> str | None:
    if load.gate is None:
        return None
    lane, series = load.gate
    return next((row[0] for row in reads.database.rows("busy_gate", lane=lane, series=series)), None)


def _ended_runs(database: SqliteDatabase, load: Load, items: Mapping[ItemId, Item]) -> dict[RunId, RunRecord]:
    live = {i.state.run for i in items.values()}
    late = [r for r in load.runs if r not in live]
    return {r.run: r for r in map(run_from_row, database.rows("load_runs", runs=late))} if late else {}


def _edit_facts(reads: SqliteReads, load: Load, parts: Parts) -> dict[str, Any]:
    """What only an edit, or a new plan, must know."""
    if not load.agents:
        return {}
    labels = {key: tuple(json.loads(text)) for key, text in reads.database.rows("agent_labels")}
    if load.edit is None:
        return {"agents": labels}
    plan, base = load.edit.plan, load.edit.base
    updated = [t.item for t in parts.plans[plan].tasks.values() if t.key in load.edit.updated]
    return {
        "agents": labels,
        "revisions": tuple(reads.revisions(plan, after=base, limit=-1)),
        "payloads": reads.payloads(updated),
    }
