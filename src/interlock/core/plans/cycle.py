"""Edit cycles, and the end of a plan.

A plan with an editor stops giving out tasks when one has ended, until the editor has answered: the cycle.
What asks the editor is an item, and its run is the fence: an edit is accepted only from that item's current
run.

===================================  ============================================================
the item that asks                   the cycle
===================================  ============================================================
completed, all ends answered         closes
completed, later ends unanswered     stays open, with a new item and the oldest end's deadline
failed for good, cancelled           closes; the ends wait for the next batch; it counts as failed
past the deadline, swept or not      closes likewise; it counts as timed out
===================================  ============================================================
"""

from __future__ import annotations

import json
from typing import Any

from interlock.core.commands import Ended, Finish
from interlock.core.ending import end_run, expire, finish
from interlock.core.lanes import cancel_unstarted, reenter
from interlock.core.ledger import Ledger
from interlock.core.model import (
    UNPOSITIONED,
    EventKind,
    Item,
    ItemId,
    Policy,
    Reason,
    RetryLane,
    Spec,
    State,
)
from interlock.core.names import PRIORITY_MAX, TITLE_MAX_CHARS
from interlock.core.plans.book import Book
from interlock.core.plans.dependents import follow_tasks, judge, stand
from interlock.core.plans.model import EDIT_TYPE, Plan, PlanStatus, plan_of_lane
from interlock.core.states import ItemStatus, RunStatus
from interlock.core.timing import to_us


def follow(ledger: Ledger) -> None:
    """After the commands of a transaction: whatever follows for the plans that it touched."""
    for book in ledger.books.values():
        follow_tasks(ledger, book)
        _follow_edit(ledger, book)
        if book.completions and book.plan.cycle_us is None:
            _open(ledger, book)
        _follow_end(ledger, book)


def expire_in_plan(ledger: Ledger, item: Item) -> tuple[ItemId, ...]:
    """`expire` for an item of a plan: a task that waits for a look, or the item that asks for an edit."""
    book = book_of(ledger, item)
    if book is None:
        return expire(ledger, item)
    if item.spec.plan is None:
        return _expire_edit(ledger, book, item)
    task = book.tasks[item.id]
    if item.status is not ItemStatus.WAITING or item.parked or not item.overdue(ledger.now_us):
        return expire(ledger, item)
    if task.broken:
        judge(ledger, book, item, task)
        return ()
    if task.unmet:
        ledger.change(item, due_us=None)
        return ()
    return reenter(ledger, item, Reason.PREDECESSORS_MET)


def book_of(ledger: Ledger, item: Item) -> Book | None:
    """The plan that an item is a task of, or whose editor it asks."""
    plan = item.spec.plan
    if plan is None and item.spec.type == EDIT_TYPE and item.spec.lane is not None:
        plan = plan_of_lane(item.spec.lane)
    return ledger.books.get(plan) if plan is not None else None


def _expire_edit(ledger: Ledger, book: Book, item: Item) -> tuple[ItemId, ...]:
    deadline_us = book.plan.deadline_us
    if book.plan.edit_item != item.id or deadline_us is None or deadline_us > ledger.now_us:
        return expire(ledger, item)
    return end_edit(ledger, item, Reason.EDIT_CYCLE_EXPIRED)


def end_late_edit(ledger: Ledger, book: Book) -> None:
    """Close a cycle whose deadline has passed, though no sweep has come by yet, before anything is decided
    on what its editor says."""
    plan = book.plan
    item = ledger.items.get(plan.edit_item) if plan.edit_item is not None else None
    if item is None or plan.deadline_us is None or plan.deadline_us > ledger.now_us:
        return
    end_edit(ledger, item, Reason.EDIT_CYCLE_EXPIRED)
    _follow_edit(ledger, book)
    _follow_end(ledger, book)


def finish_in_plan(ledger: Ledger, command: Finish) -> Ended:
    """`finish` where plans are touched: what the editor of one says after its deadline is refused."""
    item = ledger.items.get(command.item)
    book = book_of(ledger, item) if item is not None and item.spec.type == EDIT_TYPE else None
    if book is not None and book.plan.edit_item == command.item:
        end_late_edit(ledger, book)
    return finish(ledger, command)


def end_edit(ledger: Ledger, item: Item, reason: Reason, why: str | None = None) -> tuple[ItemId, ...]:
    """Take the edit from whoever has it; the item that asks for it ends."""
    if item.status is ItemStatus.IN_PROGRESS:
        item = ledger.change(item, cancel_into=ItemStatus.CANCELLED, cancel_why=reason)
        return end_run(ledger, item, RunStatus.CANCELLED, reason, why=why)
    return cancel_unstarted(ledger, item, reason, cancel_why=why, why=why)


def _follow_edit(ledger: Ledger, book: Book) -> None:
    """The item that asks for the edit may have ended."""
    plan = book.plan
    item = ledger.items.get(plan.edit_item) if plan.edit_item is not None else None
    if item is None or not item.terminal:
        return
    plan = plan._replace(edit_item=None)
    if item.status is not ItemStatus.COMPLETED:
        expired = item.state.reason == Reason.EDIT_CYCLE_EXPIRED
        book.plan = plan._replace(
            edits_timed_out=plan.edits_timed_out + expired, edits_failed=plan.edits_failed + (not expired)
        )
        cancelled = Reason.OPERATOR if item.status is ItemStatus.CANCELLED else Reason.EDIT_FAILED
        _close(ledger, book, Reason.EDIT_CYCLE_EXPIRED if expired else cancelled)
        return
    through = _answered_through(ledger, book, item)
    book.unanswered = [(n, at_us) for n, at_us in book.unanswered if n > through]
    book.plan = plan._replace(answered_n=through, edits_completed=plan.edits_completed + 1)
    if book.unanswered and plan.status is PlanStatus.RUNNING:
        _ask(ledger, book, item.spec.ticket, since_us=book.unanswered[0][1])
    else:
        _close(ledger, book, Reason.EDIT_ANSWERED)


def unanswerable(plan: Plan, through: int | None) -> str:
    """Why no edit answers through this completion: there is none yet, or it has been answered."""
    if through is None or plan.answered_n < through <= plan.last_n:
        return ""
    there = f"completions {plan.answered_n + 1} to {plan.last_n} to answer"
    return f"Plan {plan.id} has {there}, so nothing answers through {through}."


def _answered_through(ledger: Ledger, book: Book, item: Item) -> int:
    """What an edit named, or, where its run just said done, whatever there was when the run started."""
    answered_n = book.plan.answered_n
    if book.through is not None:
        return book.through
    before = ledger.before(item.id)
    started_us = before.state.run_started_us if before is not None else None
    known = [n for n, at_us in book.unanswered if started_us is not None and at_us <= started_us]
    return max(known, default=answered_n)


def _open(ledger: Ledger, book: Book) -> None:
    first = book.completions[0]
    book.plan = book.plan._replace(cycle_us=ledger.now_us, cycles=book.plan.cycles + 1)
    for task in list(book.tasks.values()):
        stand_doomed(ledger, book, task.item)
    _log(ledger, EventKind.PLAN_CYCLE_OPENED, book.plan, "", task=first.key, n=first.n)
    _ask(ledger, book, ledger.items[first.item].spec.ticket, since_us=ledger.now_us)


def stand_doomed(ledger: Ledger, book: Book, target: ItemId) -> None:
    """A task that can never start as things are waits for what the editor does about it."""
    if book.tasks[target].broken and target in ledger.items:
        stand(ledger, book, target)


def _ask(ledger: Ledger, book: Book, ticket: int, *, since_us: int) -> None:
    """Bear the item that asks the editor. It goes first: a whole plan waits for it."""
    plan = book.plan
    assert plan.editor is not None
    lane = plan.lane
    state = State(status=ItemStatus.DEFERRED if ledger.owner(lane) else ItemStatus.PENDING)
    item = ledger.bear(
        Spec(
            id=ledger.spare_id(),
            project=plan.project,
            type=EDIT_TYPE,
            title=f"Edit plan {plan.id}: {plan.name}"[:TITLE_MAX_CHARS],
            agent_key=plan.editor,
            policy=Policy.QUEUE,
            priority=PRIORITY_MAX,
            position=UNPOSITIONED,
            ticket=ticket,
            sort_key=ledger.sort_key(PRIORITY_MAX, ticket),
            lane=lane,
            observed_lane=None,
            labels=(),
            lease_s=None,
            timeout_s=None,
            max_attempts=3,
            retry_lane=RetryLane.KEEP,
            created_us=ledger.now_us,
        ),
        state._replace(reason=Reason.EDIT_OWED),
        json.dumps({"plan": plan.id, "name": plan.name}),
    )
    deadline_us = since_us + to_us(plan.edit_deadline_s)
    book.plan = plan._replace(edit_item=item.id, deadline_us=deadline_us)
    ledger.event(EventKind.ITEM_ADDED, item, Reason.EDIT_OWED, status=item.status, plan=plan.id)


def _close(ledger: Ledger, book: Book, reason: Reason) -> None:
    plan = book.plan
    assert plan.cycle_us is not None
    open_us = ledger.now_us - plan.cycle_us
    book.plan = plan._replace(cycle_us=None, deadline_us=None, lock_us=plan.lock_us + open_us)
    _log(
        ledger,
        EventKind.PLAN_CYCLE_CLOSED,
        plan,
        reason,
        span_us=open_us,
        revision=plan.revision,
        through=plan.answered_n,
    )
    for task in list(book.tasks.values()):
        if task.doomed:
            stand(ledger, book, task.item)


def _follow_end(ledger: Ledger, book: Book) -> None:
    """A plan ends when nothing in it is left to happen, and goes on when a retry brings a task back."""
    plan = book.plan
    over = plan.open_tasks == 0 and plan.cycle_us is None
    if over and plan.ended_us is None:
        status = plan.status
        if status is PlanStatus.RUNNING:
            status = PlanStatus.COMPLETED
            if plan.failed:
                status = PlanStatus.PARTIALLY_FAILED if plan.completed else PlanStatus.FAILED
        book.plan = plan._replace(status=status, ended_us=ledger.now_us)
        _log(
            ledger,
            EventKind.PLAN_ENDED,
            plan,
            status,
            span_us=ledger.now_us - plan.created_us,
            completed=plan.completed,
            failed=plan.failed,
        )
    elif plan.open_tasks and plan.ended_us is not None:
        book.plan = plan._replace(status=PlanStatus.RUNNING, ended_us=None)
        _log(ledger, EventKind.PLAN_REOPENED, plan, Reason.OPERATOR)


def _log(
    ledger: Ledger, kind: EventKind, plan: Plan, reason: str, *, span_us: int | None = None, **data: Any
) -> None:
    ledger.plan_event(kind, plan, reason, span_us=span_us, **data)
