"""The commands on plans, and the answer to an edit."""

from __future__ import annotations

from interlock.core.cures import Cure
from interlock.core.model import ItemId, PlanId, RunId
from interlock.core.plans.model import EditOperation, Graph
from interlock.core.record import Record


class CreatePlan(Record):
    """Create a plan. Its id, and an id and a ticket for each task, were taken before the transaction."""

    id: PlanId
    name: str
    project: str
    editor: str | None
    edit_deadline_s: float
    graph: Graph
    ids: tuple[ItemId, ...]
    tickets: tuple[int, ...]
    by: str | None = None


class EditPlan(Record):
    """Edit a plan: as the run that the open cycle waits for, or as an operator while no cycle is open."""

    plan: PlanId
    base: int
    operations: tuple[EditOperation, ...]
    #: One of each for every task that it adds, in their order.
    ids: tuple[ItemId, ...] = ()
    tickets: tuple[int, ...] = ()
    run: RunId | None = None
    #: The item of that run, and the bits in its handle.
    item: ItemId | None = None
    bits: int | None = None
    #: The last completion that it answers; null means the last one when its run started.
    through: int | None = None
    by: str | None = None
    why: str = ""
    #: The snapshot has the whole plan, and every task may get a new rank.
    renumber: bool = False


class PausePlan(Record):
    """Start no more tasks, or start them again. Running tasks continue."""

    plan: PlanId
    paused: bool
    why: str
    by: str | None = None


class SetEditDeadline(Record):
    """Set how long an editor may take; the deadline of an open cycle moves along."""

    plan: PlanId
    edit_deadline_s: float
    by: str | None = None


class CancelPlan(Record):
    """End a plan: no more tasks start and the cycle closes. Its tasks are cancelled afterwards."""

    plan: PlanId
    why: str
    by: str | None = None


PlanCommand = CreatePlan | EditPlan | PausePlan | SetEditDeadline | CancelPlan


class Edited(Record):
    """The answer to `EditPlan`: what changed, or the code and every reason of a refusal."""

    revision: int
    rebased: bool = False
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    touched: tuple[ItemId, ...] = ()
    code: str = ""
    reasons: tuple[str, ...] = ()
    hint: str = ""
    cures: tuple[Cure, ...] = ()
