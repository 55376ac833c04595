"""Plans in a PostgreSQL transaction: locks, facts for edits, and writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from interlock.core.ledger import LedgerChanges
from interlock.core.plans.model import Plan, PlanStatus
from interlock.store.plan_parts import Ask, Parts
from interlock.store.port import Load
from interlock.store.postgres.statement import StatementConnection
from interlock.store.rows import array, columns
from interlock.store.statements import Statements

#: With this many new tasks, the server is told to discard its cached plans. It caches the look-up of a row's
#: references, and a plan from when the table was small reads the whole table for each row.
MANY = 1_000


class KeyTaken(psycopg.errors.SerializationFailure):
    """A key in an edit got another task before its lane was locked. The attempt is repeated."""


def lock_plans(ask: Ask, parts: Parts, load: Load) -> tuple[int, int, int] | None:
    """Lock the plans that this transaction may open or close; gives the later clock, its offset and the first
    event number."""
    editors = {k for k, part in parts.plans.items() if part.plan.editor is not None}
    changing = sorted(editors.union(load.plans).intersection(parts.plans))
    if not changing:
        return None
    now_us, offset_us, first_seq = ask("lock_gates", plans=changing)[0]
    return now_us, offset_us, first_seq


def write_new(conn: StatementConnection, sql: Statements, decision: LedgerChanges) -> None:
    """Write new plans before the items, which refer to them. No other transaction creates a new plan's
    lane."""
    if len(decision.born) >= MANY:
        conn.execute("DISCARD PLANS")
    new = [c.plan for c in decision.plans if c.before is None]
    if new:
        conn.execute(sql["add_lanes"], {"lanes": array([plan.lane for plan in new])})
    _write(conn, sql, "insert_plans", new)


def write(conn: StatementConnection, sql: Statements, decision: LedgerChanges) -> None:
    """Write plans after the items, as tasks refer to those. Rows that a claim meets are written last."""
    payloads = dict(decision.changed_payloads)
    _write(conn, sql, "set_payloads", [(i, text) for i, text in payloads.items() if text is not None])
    _write(conn, sql, "drop_payloads", [(i,) for i, text in payloads.items() if text is None])
    for plan in decision.plans:
        _write(conn, sql, "update_tasks", plan.tasks)  # first, as a removed task frees its key
        _write(conn, sql, "insert_tasks", plan.new_tasks)
        _write(conn, sql, "delete_edges", plan.lost_edges)
        _write(conn, sql, "insert_edges", plan.new_edges)
        _write(conn, sql, "update_edges", plan.edges)
        _write(conn, sql, "insert_completions", plan.completions)
        _write(conn, sql, "insert_revisions", plan.revisions)
    _write(conn, sql, "update_plans", [c.plan for c in decision.plans if c.before is not None])
    opened = [
        (c.plan.id, _gives_out(c.plan))
        for c in decision.plans
        if c.before is None or _gives_out(c.before) is not _gives_out(c.plan)
    ]
    _write(conn, sql, "open_gates", opened)


def _write(conn: StatementConnection, sql: Statements, name: str, rows: Sequence[Sequence[Any]]) -> None:
    if rows:
        conn.execute(sql[name], columns(rows, len(rows[0])))


def _gives_out(plan: Plan) -> bool:
    return plan.status is PlanStatus.RUNNING and plan.cycle_us is None and plan.paused_why is None
