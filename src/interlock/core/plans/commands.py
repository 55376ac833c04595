"""What can be asked of plans, and what the rules answer."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.core.model import ItemId, PlanId, RunId
from interlock.core.plans.model import Graph, Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePlan:
    """A new plan. Its id and those of its tasks were taken before, and a ticket for each task."""

    id: PlanId
    name: str
    project: str
    editor: str | None
    edit_deadline_s: float
    graph: Graph
    ids: tuple[ItemId, ...]
    tickets: tuple[int, ...]
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPlan:
    """An edit: of the run that the open cycle waits for, or of an operator while none is open."""

    plan: PlanId
    base: int
    operations: tuple[Operation, ...]
    #: For the tasks it adds, in their order.
    ids: tuple[ItemId, ...] = ()
    tickets: tuple[int, ...] = ()
    run: RunId | None = None
    #: The item of that run.
    item: ItemId | None = None
    #: Up to which completion it answers; null means all that there were when its run started.
    through: int | None = None
    by: str | None = None
    why: str = ""
    #: The snapshot has the whole plan, and every task may get another rank.
    renumber: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PausePlan:
    """Stop giving out tasks, or go on if `paused_why` is null. Runs go on."""

    plan: PlanId
    paused_why: str | None
    why: str = ""
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetEditDeadline:
    """How long an editor may take; a cycle that is open has its deadline moved too."""

    plan: PlanId
    edit_deadline_s: float
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelPlan:
    """End a plan: nothing is given out any more and the edit cycle closes. Its tasks are cancelled apart."""

    plan: PlanId
    why: str
    by: str | None = None


PlanCommand = CreatePlan | EditPlan | PausePlan | SetEditDeadline | CancelPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """The answer to `EditPlan`: what changed, or every reason why nothing did, and under which code."""

    revision: int
    rebased: bool = False
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    touched: tuple[ItemId, ...] = ()
    code: str = ""
    reasons: tuple[str, ...] = ()
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMoved:
    """The answer to the operator's commands on plans."""

    changed: bool
    refusal: str = ""
