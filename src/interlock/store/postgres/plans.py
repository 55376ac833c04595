"""Plans in a PostgreSQL store: what is read of them, for people and for the rules, and what is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from interlock.core.ledger import Decision
from interlock.core.model import Item, ItemId, PlanId
from interlock.core.plans.model import Edge, Plan, PlanStatus, Revision, Task
from interlock.store.plan_parts import Parts
from interlock.store.plan_rows import (
    TASK_WIDTH,
    completion_from_row,
    edge_from_row,
    plan_from_row,
    revision_from_row,
    spec_row,
    task_from_row,
)
from interlock.store.port import Load, StoredCompletion
from interlock.store.postgres.database import Connection
from interlock.store.postgres.reads import PostgresReads
from interlock.store.rows import array, columns, item_from_row

_NO_LIMIT = 2**31 - 1


class PostgresPlans(PostgresReads):
    """The part of the store that knows plans."""

    # -- for people -------------------------------------------------------------------------------

    def plan(self, plan: PlanId) -> Plan | None:
        return next(map(plan_from_row, self._rows("plan", plan=plan)), None)

    def plans(self, *, ended: bool, limit: int) -> list[Plan]:
        return [plan_from_row(r) for r in self._rows("plans", ended=ended, limit=limit)]

    def tasks(self, plan: PlanId, *, removed: bool = False) -> list[tuple[Task, Item]]:
        rows = self._rows("tasks_of_plan", plan=plan, removed=removed)
        return [(task_from_row(r[:TASK_WIDTH]), item_from_row(r[TASK_WIDTH:])) for r in rows]

    def edges(self, plan: PlanId) -> list[Edge]:
        return [edge_from_row(r) for r in self._rows("edges_of_plan", plan=plan)]

    def revisions(self, plan: PlanId, after: int, limit: int) -> list[Revision]:
        rows = self._rows("revisions", plan=plan, after=after, limit=min(limit, _NO_LIMIT))
        return [revision_from_row(r) for r in rows]

    def completions(self, plan: PlanId, after: int) -> list[StoredCompletion]:
        rows = self._rows("completions", plan=plan, after=after)
        return [StoredCompletion(completion_from_row(r[:6]), *r[6:]) for r in rows]

    def work_us(self, plan: PlanId) -> dict[ItemId, int]:
        return {r[0]: r[1] for r in self._rows("work_of_plan", plan=plan)}

    def stopping(self, limit: int) -> list[ItemId]:
        return [r[0] for r in self._rows("stopping", limit=limit)]

    # -- for the rules ----------------------------------------------------------------------------

    def _asking(self, conn: Connection, name: str, **params: Any) -> list[tuple[Any, ...]]:
        """A statement whose lists go in as arrays."""
        plain = {k: array(v) if isinstance(v, list) else v for k, v in params.items()}
        return conn.execute(self.sql[name], plain, binary=True).fetchall()

    def _lock_gates(self, conn: Connection, parts: Parts, load: Load) -> int | None:
        """Lock the gates that this transaction may open or close, and read the clock, last of all."""
        editors = {k for k, part in parts.plans.items() if part.plan.editor is not None}
        turned = sorted(editors.union(load.plans).intersection(parts.plans))
        if not turned:
            return None
        return int(max(r[0] for r in self._asking(conn, "lock_gates", plans=turned)))

    def _edit_facts(self, conn: Connection, load: Load, parts: Parts) -> dict[str, Any]:
        """What only an edit, or a new plan, has to know."""
        if not load.agents:
            return {}
        labels = {key: tuple(names) for key, names in self._asking(conn, "agent_labels")}
        if load.edit is None:
            return {"agents": labels}
        plan, base = load.edit.plan, load.edit.base
        rows = self._asking(conn, "revisions", plan=plan, after=base, limit=_NO_LIMIT)
        updated = [t.item for t in parts.plans[plan].tasks.values() if t.key in load.edit.updated]
        payloads = self._asking(conn, "payloads", items=updated) if updated else []
        return {
            "agents": labels,
            "revisions": tuple(revision_from_row(r) for r in rows),
            "payloads": dict(payloads),
        }

    def _write_new_plans(self, conn: Connection, decision: Decision) -> None:
        """Before the items: they refer to their plan and their lanes."""
        if decision.lanes:
            conn.execute(self.sql["add_lanes"], {"lanes": array(sorted(set(decision.lanes)))})
        self._write(conn, "insert_plans", [c.plan for c in decision.plans if c.before is None])

    def _write_plans(self, conn: Connection, decision: Decision) -> None:
        """After the items: tasks refer to them. What a claim meets is written last."""
        changed = [decision.after[i] for i in dict.fromkeys(decision.respecified)]
        payloads = dict(decision.changed_payloads)
        self._write(conn, "update_specs", [spec_row(i, " ".join(i.spec.labels) or None) for i in changed])
        self._write(conn, "set_payloads", [(i, text) for i, text in payloads.items() if text is not None])
        self._write(conn, "drop_payloads", [(i,) for i, text in payloads.items() if text is None])
        for plan in decision.plans:
            self._write(conn, "update_tasks", plan.tasks)  # first: one that is removed makes its key free
            self._write(conn, "insert_tasks", plan.new_tasks)
            self._write(conn, "delete_edges", plan.lost_edges)
            self._write(conn, "insert_edges", plan.new_edges)
            self._write(conn, "update_edges", plan.edges)
            self._write(conn, "insert_completions", plan.completions)
            self._write(conn, "insert_revisions", plan.revisions)
        self._write(conn, "update_plans", [c.plan for c in decision.plans if c.before is not None])
        new = [c for c in decision.plans if c.before is None]
        turned = [c for c in decision.plans if c.before and _gives_out(c.before) is not _gives_out(c.plan)]
        self._write(conn, "open_gates", [(c.plan.id, _gives_out(c.plan)) for c in (*new, *turned)])

    def _write(self, conn: Connection, name: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            conn.execute(self.sql[name], columns(rows, len(rows[0])))


class Moved(psycopg.errors.SerializationFailure):
    """A key that an edit names got another task before its lane was locked; the attempt is repeated."""


def _gives_out(plan: Plan) -> bool:
    return plan.status is PlanStatus.RUNNING and plan.cycle_us is None and plan.paused_why is None
