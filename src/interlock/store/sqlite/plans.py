"""Plans in an SQLite store: what is read of them, for people and for the rules, and what is written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import apsw

from interlock.core.ledger import Decision
from interlock.core.model import Item, ItemId, PlanId
from interlock.core.plans.model import Edge, Plan, Revision, Task
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
from interlock.store.sqlite.reads import SqliteReads


class SqlitePlans(SqliteReads):
    """The part of the store that knows plans."""

    # -- for people -------------------------------------------------------------------------------

    def plan(self, plan: PlanId) -> Plan | None:
        return next(map(plan_from_row, self._rows("plan", {"plan": plan})), None)

    def plans(self, *, ended: bool, limit: int) -> list[Plan]:
        return [plan_from_row(r) for r in self._rows("plans", {"ended": ended, "limit": limit})]

    def tasks(self, plan: PlanId, *, removed: bool = False) -> list[tuple[Task, Item]]:
        rows = self._rows("tasks_of_plan", {"plan": plan, "removed": removed})
        return [(task_from_row(r[:TASK_WIDTH]), self._item(r[TASK_WIDTH:])) for r in rows]

    def edges(self, plan: PlanId) -> list[Edge]:
        return [edge_from_row(r) for r in self._rows("edges_of_plan", {"plan": plan})]

    def revisions(self, plan: PlanId, after: int, limit: int) -> list[Revision]:
        rows = self._rows("revisions", {"plan": plan, "after": after, "limit": limit})
        return [revision_from_row(r) for r in rows]

    def completions(self, plan: PlanId, after: int) -> list[StoredCompletion]:
        rows = self._rows("completions", {"plan": plan, "after": after})
        return [StoredCompletion(completion_from_row(r[:6]), *r[6:]) for r in rows]

    def work_us(self, plan: PlanId) -> dict[ItemId, int]:
        return dict(self._rows("work_of_plan", {"plan": plan}))

    def stopping(self, limit: int) -> list[ItemId]:
        return [r[0] for r in self._rows("stopping", {"limit": limit})]

    # -- for the rules ----------------------------------------------------------------------------

    def _asking(self, db: apsw.Connection, name: str, **params: Any) -> list[Any]:
        """A statement whose lists go in as JSON."""
        plain = {k: json.dumps(v) if isinstance(v, list) else v for k, v in params.items()}
        return list(db.execute(self.sql[name], plain))

    def _edit_facts(self, db: apsw.Connection, load: Load, parts: Parts) -> dict[str, Any]:
        """What only an edit, or a new plan, has to know."""
        if not load.agents:
            return {}
        labels = {key: tuple(json.loads(text)) for key, text in self._asking(db, "agent_labels")}
        if load.edit is None:
            return {"agents": labels}
        plan, base = load.edit.plan, load.edit.base
        rows = self._asking(db, "revisions", plan=plan, after=base, limit=-1)
        updated = [t.item for t in parts.plans[plan].tasks.values() if t.key in load.edit.updated]
        return {
            "agents": labels,
            "revisions": tuple(revision_from_row(r) for r in rows),
            "payloads": dict(self._asking(db, "payloads", items=updated)) if updated else {},
        }

    def _write_new_plans(self, db: apsw.Connection, decision: Decision) -> None:
        """Before the items: they refer to their plan and their lanes."""
        if decision.lanes:
            db.execute(self.sql["add_lanes"], {"lanes": json.dumps(decision.lanes)})
        new = [c.plan for c in decision.plans if c.before is None]
        if new:
            db.executemany(self.sql["insert_plan"], new)

    def _write_plans(self, db: apsw.Connection, decision: Decision) -> None:
        """After the items: tasks refer to them."""

        def write(name: str, rows: Sequence[Sequence[Any]]) -> None:
            if rows:
                db.executemany(self.sql[name], rows)

        changed = [decision.after[i] for i in dict.fromkeys(decision.respecified)]
        write(
            "update_spec",
            [spec_row(i, json.dumps(i.spec.labels) if i.spec.labels else None) for i in changed],
        )
        payloads = decision.changed_payloads
        write("set_payload", [(i, text) for i, text in payloads if text is not None])
        write("drop_payload", [(i,) for i, text in payloads if text is None])
        for plan in decision.plans:
            write("update_task", plan.tasks)  # before the new ones: one that is removed makes its key free
            write("insert_task", plan.new_tasks)
            write("delete_edge", plan.lost_edges)
            write("insert_edge", plan.new_edges)
            write("update_edge", plan.edges)
            write("insert_completion", plan.completions)
            write("insert_revision", plan.revisions)
        write("update_plan", [c.plan for c in decision.plans])
