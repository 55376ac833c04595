"""The plans: how far each one is, who edits it, and what holds it back."""

from __future__ import annotations

from typing import Any

from interlock.core.errors import InvalidInput
from interlock.core.plans.model import PlanStatus
from interlock.dashboard.rendering import url
from interlock.dashboard.visit import Page, Visit

ROWS = 50


async def plans(visit: Visit) -> Page:
    """Plans, the newest first, with the filters of the address."""
    status, before = visit.query.get("status", ""), visit.query_number("before")
    if status and status not in list(PlanStatus):
        raise InvalidInput(f"There is no status {status[:80]!r} of plans.", f"Use {', '.join(PlanStatus)}.")
    given = {name: visit.query.get(name, "").strip() for name in ("project", "editor")}
    wanted: dict[str, Any] = {name: value for name, value in given.items() if value}
    if status:
        wanted["statuses"] = [status]
    if before is not None:
        wanted["before"] = before
    found = await visit.call("plans", ended=status != PlanStatus.RUNNING, limit=ROWS + 1, **wanted)
    shown = found[:ROWS]
    following = url("/plans", status=status, **given, before=shown[-1]["id"]) if len(found) > ROWS else ""
    values = {
        "plans": [{**plan, **progress(plan)} for plan in shown],
        "statuses": [("", "any"), *((each.value, each.value.replace("_", " ")) for each in PlanStatus)],
        "status": status,
        "given": given,
        "filtered": bool(status or given["project"] or given["editor"]),
        "next_url": following,
        "first_page": before is None,
    }
    return Page("plans.html", values, "Plans", "plans")


def progress(plan: dict[str, Any]) -> dict[str, Any]:
    """The parts of a plan's tasks in percent, each with its start, for a bar."""
    total = plan.get("task_count", plan["tasks"])
    stopped = max(0, total - plan["completed"] - plan["failed"] - plan["open_tasks"])
    parts, start = [], 0.0
    for kind, count in (("good", plan["completed"]), ("bad", plan["failed"]), ("quiet", stopped)):
        width = round(100 * count / total, 2) if total else 0.0
        if width:
            parts.append({"kind": kind, "start": round(start, 2), "width": width})
        start += width
    return {"total": total, "stopped": stopped, "parts": parts}
