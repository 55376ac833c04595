"""Edit cycles, and the end of a plan.

When a task of a plan with an editor ends, no task of the plan is claimed until the editor has answered: that
span is the cycle. An item of type `plan.edit` asks the editor, and its run is the fence: an edit is accepted
only from that item's current run.

===================================  ============================================================
the item that asks                   the cycle
===================================  ============================================================
completed, all ends answered         closes
completed, later ends unanswered     stays open, with a new item and the oldest end's deadline
failed for good, cancelled           closes, counted as failed; the ends join the next batch
past the deadline, swept or not      closes, counted as timed out; the ends join the next batch
===================================  ============================================================
"""

from __future__ import annotations

import json

from interlock.core.endings import end_run, expire
from interlock.core.lanes import cancel_unstarted, reenter
from interlock.core.ledger import Ledger
from interlock.core.model import EventKind, Item, ItemId, NewItem, Reason, RetryLane, State
from interlock.core.names import PRIORITY_MAX, TITLE_MAX_CHARS
from interlock.core.plans.dependents import cancel_unreachable, update_dependents, update_unstarted
from interlock.core.plans.model import EDIT_TYPE, Plan, PlanStatus, plan_of_lane
from interlock.core.plans.plan_ledger import PlanLedger
from interlock.core.states import ItemStatus, RunStatus
from interlock.core.timing import to_us


def update_plans(ledger: Ledger) -> None:
    """After the commands of a transaction: apply what follows for the plans that it touched."""
    for plan_ledger in ledger.plan_ledgers.values():
        update_dependents(ledger, plan_ledger)
        _after_edit(ledger, plan_ledger)
        if plan_ledger.completions and plan_ledger.plan.cycle_us is None:
            _open(ledger, plan_ledger)
        _update_status(ledger, plan_ledger)


def plan_ledger_of(ledger: Ledger, item: Item) -> PlanLedger | None:
    """The plan of a task or of an edit request; null for all other items."""
    plan = item.spec.plan
    if plan is None and item.spec.type == EDIT_TYPE and item.spec.lane is not None:
        plan = plan_of_lane(item.spec.lane)
    return ledger.plan_ledgers.get(plan) if plan is not None else None


def expire_in_plan(ledger: Ledger, plan_ledger: PlanLedger, item: Item) -> tuple[ItemId, ...]:
    """`expire` for an item of a plan: one that asks for an edit, or a task that is due."""
    if item.id == plan_ledger.plan.edit_item:
        late = _past_deadline(ledger, plan_ledger)
        return end_edit(ledger, item, Reason.EDIT_CYCLE_EXPIRED) if late else expire(ledger, item)
    task = plan_ledger.tasks.get(item.id)
    waiting = item.status is ItemStatus.WAITING and not item.parked and item.overdue(ledger.now_us)
    if task is None or not waiting:
        return expire(ledger, item)
    if task.broken:
        cancel_unreachable(ledger, plan_ledger, item, task)
        return ()
    if task.unmet:
        ledger.change(item, due_us=None)
        return ()
    return reenter(ledger, item, Reason.PREDECESSORS_MET)


def close_late_cycle(ledger: Ledger, plan_ledger: PlanLedger) -> None:
    """Close a cycle whose deadline has passed, if no sweep has done so yet."""
    item = edit_item(ledger, plan_ledger.plan)
    if item is not None and _past_deadline(ledger, plan_ledger):
        end_edit(ledger, item, Reason.EDIT_CYCLE_EXPIRED)
        _after_edit(ledger, plan_ledger)
        _update_status(ledger, plan_ledger)


def edit_item(ledger: Ledger, plan: Plan) -> Item | None:
    """The item that asks for the edit, while a cycle is open."""
    return ledger.items.get(plan.edit_item) if plan.edit_item is not None else None


def _past_deadline(ledger: Ledger, plan_ledger: PlanLedger) -> bool:
    deadline_us = plan_ledger.plan.deadline_us
    return deadline_us is not None and deadline_us <= ledger.now_us


def end_edit(ledger: Ledger, item: Item, reason: Reason, why: str | None = None) -> tuple[ItemId, ...]:
    """End the item that asks for an edit, and its run if it has one."""
    if item.status is ItemStatus.IN_PROGRESS:
        item = ledger.change(item, cancel_into=ItemStatus.CANCELLED, cancel_why=reason)
        return end_run(ledger, item, RunStatus.CANCELLED, reason, why=why)
    return cancel_unstarted(ledger, item, reason, cancel_why=why, why=why)


def _after_edit(ledger: Ledger, plan_ledger: PlanLedger) -> None:
    """If the item that asks for the edit has ended, close the cycle or ask for the next edit."""
    plan = plan_ledger.plan
    item = edit_item(ledger, plan)
    if item is None or not item.terminal:
        return
    plan = plan._replace(edit_item=None)
    if item.status is not ItemStatus.COMPLETED:
        expired = item.state.reason == Reason.EDIT_CYCLE_EXPIRED
        plan_ledger.plan = plan._replace(
            edits_timed_out=plan.edits_timed_out + expired, edits_failed=plan.edits_failed + (not expired)
        )
        cancelled = Reason.OPERATOR if item.status is ItemStatus.CANCELLED else Reason.EDIT_FAILED
        _close(ledger, plan_ledger, Reason.EDIT_CYCLE_EXPIRED if expired else cancelled)
        return
    through = _answered_through(ledger, plan_ledger, item)
    plan_ledger.unanswered = [(n, at_us) for n, at_us in plan_ledger.unanswered if n > through]
    plan_ledger.plan = plan._replace(answered_n=through, edits_completed=plan.edits_completed + 1)
    if plan_ledger.unanswered and plan.status is PlanStatus.RUNNING:
        _ask(ledger, plan_ledger, item.spec.ticket, since_us=plan_ledger.unanswered[0][1])
    else:
        _close(ledger, plan_ledger, Reason.EDIT_ANSWERED)


def unanswerable(plan: Plan, through: int | None) -> str:
    """Why an edit cannot answer through this completion: it is answered already, or has not happened."""
    if through is None or plan.answered_n < through <= plan.last_n:
        return ""
    return f"Plan {plan.id} has completions {plan.answered_n + 1} to {plan.last_n} to answer, not {through}."


def _answered_through(ledger: Ledger, plan_ledger: PlanLedger, item: Item) -> int:
    """The completion that the edit names, else the last one when its run started."""
    answered_n = plan_ledger.plan.answered_n
    if plan_ledger.through is not None:
        return plan_ledger.through
    before = ledger.before(item.id)
    started_us = before.state.run_started_us if before is not None else None
    known = [n for n, at_us in plan_ledger.unanswered if started_us is not None and at_us <= started_us]
    return max(known, default=answered_n)


def _open(ledger: Ledger, plan_ledger: PlanLedger) -> None:
    first = plan_ledger.completions[0]
    plan_ledger.plan = plan_ledger.plan._replace(cycle_us=ledger.now_us, cycles=plan_ledger.plan.cycles + 1)
    for task in list(plan_ledger.tasks.values()):
        if task.broken and task.item in ledger.items:  # it waits, as the editor may save it
            update_unstarted(ledger, plan_ledger, task.item)
    ledger.plan_event(EventKind.PLAN_CYCLE_OPENED, plan_ledger.plan, task=first.key, n=first.n)
    _ask(ledger, plan_ledger, ledger.items[first.item].spec.ticket, since_us=ledger.now_us)


def _ask(ledger: Ledger, plan_ledger: PlanLedger, ticket: int, *, since_us: int) -> None:
    """Add the item that asks the editor. It has the highest priority, as a whole plan waits for it."""
    plan = plan_ledger.plan
    assert plan.editor is not None
    new = NewItem(
        title=f"Edit plan {plan.id}: {plan.name}"[:TITLE_MAX_CHARS],
        project=plan.project,
        type=EDIT_TYPE,
        agent=plan.editor,
        priority=PRIORITY_MAX,
        retry_lane=RetryLane.KEEP,
    )
    status = ItemStatus.DEFERRED if ledger.owner(plan.lane) else ItemStatus.PENDING
    item = ledger.add(
        ledger.spec(new, ledger.spare_id(), ticket, lane=plan.lane),
        State(status=status, reason=Reason.EDIT_OWED),
        json.dumps({"plan": plan.id, "name": plan.name}),
    )
    deadline_us = since_us + to_us(plan.edit_deadline_s)
    plan_ledger.plan = plan._replace(edit_item=item.id, deadline_us=deadline_us)
    ledger.event(EventKind.ITEM_ADDED, item, Reason.EDIT_OWED, status=item.status, plan=plan.id)


def _close(ledger: Ledger, plan_ledger: PlanLedger, reason: Reason) -> None:
    plan = plan_ledger.plan
    assert plan.cycle_us is not None
    open_us = ledger.now_us - plan.cycle_us
    plan_ledger.plan = plan._replace(cycle_us=None, deadline_us=None, lock_us=plan.lock_us + open_us)
    ledger.plan_event(
        EventKind.PLAN_CYCLE_CLOSED,
        plan,
        reason,
        span_us=open_us,
        revision=plan.revision,
        through=plan.answered_n,
    )
    for task in list(plan_ledger.tasks.values()):
        if task.doomed:
            update_unstarted(ledger, plan_ledger, task.item)


def _update_status(ledger: Ledger, plan_ledger: PlanLedger) -> None:
    """End a plan without open tasks and without a cycle; reopen an ended plan if a retry brought a task
    back."""
    plan = plan_ledger.plan
    over = plan.open_tasks == 0 and plan.cycle_us is None
    if over and plan.ended_us is None:
        status = plan.status
        if status is PlanStatus.RUNNING:
            status = PlanStatus.COMPLETED
            if plan.failed:
                status = PlanStatus.PARTIALLY_FAILED if plan.completed else PlanStatus.FAILED
        plan_ledger.plan = plan._replace(status=status, ended_us=ledger.now_us)
        ledger.plan_event(
            EventKind.PLAN_ENDED,
            plan,
            status,
            span_us=ledger.now_us - plan.created_us,
            completed=plan.completed,
            failed=plan.failed,
        )
    elif plan.open_tasks and plan.ended_us is not None:
        plan_ledger.plan = plan._replace(status=PlanStatus.RUNNING, ended_us=None)
        ledger.plan_event(EventKind.PLAN_REOPENED, plan, Reason.OPERATOR)
