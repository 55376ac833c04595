"""Converts rows of plans to values and back, for both databases. Columns are in the order of the fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.core.plans.model import (
    Completion,
    Edge,
    EdgeState,
    Need,
    OnCancel,
    Plan,
    PlanStatus,
    Revision,
    Task,
    When,
)
from interlock.core.states import ItemStatus

#: More rows than a table has.
NO_LIMIT = 2**31 - 1
PLAN_WIDTH, TASK_WIDTH = len(Plan._fields), len(Task._fields)
_STATUS_AT = Plan._fields.index("status")


def plan_from_row(row: Sequence[Any]) -> Plan:
    return Plan._make((*row[:_STATUS_AT], PlanStatus(row[_STATUS_AT]), *row[_STATUS_AT + 1 :]))


def task_from_row(row: Sequence[Any]) -> Task:
    return Task._make(row)._replace(doomed=bool(row[6]))


def edge_from_row(row: Sequence[Any]) -> Edge:
    source, target, plan, when, on_cancel, state = row
    return Edge(source, target, plan, When(when), OnCancel(on_cancel), EdgeState(state))


def need_from_row(row: Sequence[Any]) -> Need:
    key, status, lost, *edge = row
    return Need(key, ItemStatus(status), bool(lost), edge_from_row(edge))


def completion_from_row(row: Sequence[Any]) -> Completion:
    return Completion._make(row)._replace(status=ItemStatus(row[4]))


def revision_from_row(row: Sequence[Any]) -> Revision:
    return Revision._make(row)
