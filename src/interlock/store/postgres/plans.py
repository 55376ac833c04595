"""Plans in a PostgreSQL transaction: which gates it locks, what an edit must know, and what is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from interlock.core.ledger import Decision
from interlock.core.plans.model import Plan, PlanStatus
from interlock.store.plan_parts import Ask, Parts
from interlock.store.plan_rows import revision_from_row
from interlock.store.port import Load
from interlock.store.postgres.statement import Connection
from interlock.store.rows import array, columns
from interlock.store.statements import Statements

NO_LIMIT = 2**31 - 1
#: From so many new tasks on, the server is told to forget its plans. It remembers how it looks up what a row
#: refers to; a plan from the days when the table was small reads the whole table for each row.
MANY = 1_000


class KeyTaken(psycopg.errors.SerializationFailure):
    """A key that an edit names got another task before its lane was locked; the attempt is repeated."""


def lock_gates(ask: Ask, parts: Parts, load: Load) -> tuple[int, int, int] | None:
    """Lock the gates that this transaction may open or close; clock, its offset and first event number after
    that."""
    editors = {k for k, part in parts.plans.items() if part.plan.editor is not None}
    changing = sorted(editors.union(load.plans).intersection(parts.plans))
    if not changing:
        return None
    now_us, offset_us, first_seq = ask("lock_gates", plans=changing)[0]
    return now_us, offset_us, first_seq


def edit_facts(ask: Ask, load: Load, parts: Parts) -> dict[str, Any]:
    """What only an edit, or a new plan, has to know."""
    if not load.agents:
        return {}
    labels = {key: tuple(names) for key, names in ask("agent_labels")}
    if load.edit is None:
        return {"agents": labels}
    plan, base = load.edit.plan, load.edit.base
    rows = ask("revisions", plan=plan, after=base, limit=NO_LIMIT)
    updated = [t.item for t in parts.plans[plan].tasks.values() if t.key in load.edit.updated]
    payloads: Any = ask("payloads", items=updated) if updated else []
    return {
        "agents": labels,
        "revisions": tuple(revision_from_row(r) for r in rows),
        "payloads": dict(payloads),
    }


def write_new(conn: Connection, sql: Statements, decision: Decision) -> None:
    """Before the items: they refer to their plan. Nobody else makes a new plan's lane."""
    if len(decision.born) >= MANY:
        conn.execute("DISCARD PLANS")
    new = [c.plan for c in decision.plans if c.before is None]
    if new:
        conn.execute(sql["add_lanes"], {"lanes": array([plan.lane for plan in new])})
    _write(conn, sql, "insert_plans", new)


def write(conn: Connection, sql: Statements, decision: Decision) -> None:
    """After the items: tasks refer to them. What a claim meets is written last."""
    payloads = dict(decision.changed_payloads)
    _write(conn, sql, "set_payloads", [(i, text) for i, text in payloads.items() if text is not None])
    _write(conn, sql, "drop_payloads", [(i,) for i, text in payloads.items() if text is None])
    for plan in decision.plans:
        _write(conn, sql, "update_tasks", plan.tasks)  # first: one that is removed makes its key free
        _write(conn, sql, "insert_tasks", plan.new_tasks)
        _write(conn, sql, "delete_edges", plan.lost_edges)
        _write(conn, sql, "insert_edges", plan.new_edges)
        _write(conn, sql, "update_edges", plan.edges)
        _write(conn, sql, "insert_completions", plan.completions)
        _write(conn, sql, "insert_revisions", plan.revisions)
    _write(conn, sql, "update_plans", [c.plan for c in decision.plans if c.before is not None])
    gates = [
        (c.plan.id, _gives_out(c.plan))
        for c in decision.plans
        if c.before is None or _gives_out(c.before) is not _gives_out(c.plan)
    ]
    _write(conn, sql, "open_gates", gates)


def _write(conn: Connection, sql: Statements, name: str, rows: Sequence[Sequence[Any]]) -> None:
    if rows:
        conn.execute(sql[name], columns(rows, len(rows[0])))


def _gives_out(plan: Plan) -> bool:
    return plan.status is PlanStatus.RUNNING and plan.cycle_us is None and plan.paused_why is None
