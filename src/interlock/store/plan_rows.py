"""Rows of plans to values and back, the same for both databases. Columns are in the order of the fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.core.model import Item
from interlock.core.plans.model import (
    Completion,
    Edge,
    EdgeState,
    OnCancel,
    Plan,
    PlanStatus,
    Revision,
    Task,
    When,
)
from interlock.core.states import ItemStatus

PLAN_WIDTH, TASK_WIDTH = len(Plan._fields), len(Task._fields)
_STATUS_AT = Plan._fields.index("status")


def plan_from_row(row: Sequence[Any]) -> Plan:
    return Plan._make((*row[:_STATUS_AT], PlanStatus(row[_STATUS_AT]), *row[_STATUS_AT + 1 :]))


def task_from_row(row: Sequence[Any]) -> Task:
    return Task._make(row)._replace(doomed=bool(row[6]))


def edge_from_row(row: Sequence[Any]) -> Edge:
    source, target, plan, when, on_cancel, state = row
    return Edge(source, target, plan, When(when), OnCancel(on_cancel), EdgeState(state))


def completion_from_row(row: Sequence[Any]) -> Completion:
    return Completion._make(row)._replace(status=ItemStatus(row[4]))


def revision_from_row(row: Sequence[Any]) -> Revision:
    return Revision._make(row)


def spec_row(item: Item, labels: str | None) -> tuple[Any, ...]:
    """What `update_spec` takes, with the labels in the form the database keeps."""
    spec = item.spec
    return (
        spec.id,
        spec.type,
        spec.title,
        spec.agent_key,
        spec.priority,
        spec.sort_key,
        labels,
        spec.lease_s,
        spec.timeout_s,
        spec.max_attempts,
        spec.retry_lane,
    )
