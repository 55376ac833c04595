"""Commands on plans: create, edit, pause or resume, move the edit deadline, cancel."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, assert_never

from interlock.core.commands import Moved
from interlock.core.ending import end_run, ended_run, explain_loss
from interlock.core.errors import (
    CycleExpired,
    EditRefused,
    Held,
    InvalidPlan,
    PlanEnded,
    StaleRevision,
)
from interlock.core.lanes import cancel_unstarted
from interlock.core.ledger import Ledger
from interlock.core.model import US_PER_S, EventKind, ItemId, Reason, RunId, State
from interlock.core.plans.book import Book, PlanPart
from interlock.core.plans.checking import as_item, check_editor
from interlock.core.plans.commands import (
    CancelPlan,
    CreatePlan,
    Edited,
    EditPlan,
    PausePlan,
    PlanCommand,
    SetEditDeadline,
)
from interlock.core.plans.cycle import close_late_cycle, edit_item, end_edit, unanswerable
from interlock.core.plans.dependents import place
from interlock.core.plans.edit import Draft
from interlock.core.plans.history import conflicts, record
from interlock.core.plans.model import (
    AddEdge,
    AddTask,
    Plan,
    PlanStatus,
    Revision,
    Task,
    TaskSpec,
)
from interlock.core.states import ItemStatus, RunStatus
from interlock.core.timing import span, to_us

#: How many keys an event names at most; the revision has them all.
KEYS_IN_EVENT = 100


def operate(ledger: Ledger, command: PlanCommand) -> Edited | Moved:
    """Apply one command to a plan."""
    match command:
        case CreatePlan():
            return create(ledger, command)
        case EditPlan():
            return edit(ledger, command)
        case PausePlan():
            return pause(ledger, command)
        case SetEditDeadline():
            return set_edit_deadline(ledger, command)
        case CancelPlan():
            return cancel_plan(ledger, command)
        case other:
            assert_never(other)


def create(ledger: Ledger, command: CreatePlan) -> Edited:
    """Create a plan, or raise `InvalidPlan` with everything that is wrong with its graph."""
    agents = ledger.snapshot.agents
    plan = Plan(
        id=command.id,
        project=command.project,
        name=command.name,
        editor=command.editor,
        edit_deadline_s=command.edit_deadline_s,
        status=PlanStatus.RUNNING,
        created_us=ledger.now_us,
        revision=0,
    )
    book = Book(PlanPart(plan=plan), new=True)
    draft = Draft(ledger.items, book, agents, command.ids)
    check_editor(command.editor or "", agents, draft.reasons.append)
    draft.apply_all(
        [*(AddTask(task=t) for t in command.graph.tasks), *(AddEdge(edge=e) for e in command.graph.edges)]
    )
    if not command.graph.tasks:
        draft.reasons.append("The plan has no task.")
    if draft.reasons:
        several = f"The plan has {len(draft.reasons):,} mistakes."
        raise InvalidPlan(
            draft.reasons[0] if len(draft.reasons) == 1 else several,
            "Nothing was changed; correct the plan.",
            reasons=tuple(draft.reasons),
        )
    ledger.books[plan.id] = book
    _apply(ledger, book, draft, command.tickets)
    book.revisions.append(Revision(plan.id, 1, 0, ledger.now_us, command.by, None, "", None))
    ledger.plan_event(
        EventKind.PLAN_CREATED,
        plan,
        name=plan.name,
        by=command.by,
        tasks=book.plan.tasks,
        edges=book.plan.edges,
    )
    return Edited(revision=1, added=tuple(t.key for t in draft.added.values()), touched=tuple(draft.added))


def edit(ledger: Ledger, command: EditPlan) -> Edited:
    """Apply an edit as a whole, or refuse it with every reason and only count the refusal."""
    book = ledger.books[command.plan]
    close_late_cycle(ledger, book)
    refused = _may_edit(ledger, book, command) or _rebase(ledger, book, command)
    draft = Draft(ledger.items, book, ledger.snapshot.agents, command.ids, renumber=command.renumber)
    if refused is None:
        draft.apply_all(command.operations)
        if draft.reasons:
            hint = "Nothing was changed; correct the edit and send it again."
            refused = _refusal(book, EditRefused.code, draft.reasons, hint)
    if refused is not None:
        return _refuse(ledger, book, command, refused)
    rebased = command.base < book.plan.revision
    operations = record(ledger, book, draft, ledger.snapshot.payloads)
    answer = _accept(ledger, book, command, draft, operations, rebased=rebased)
    if command.item is not None:
        book.through = command.through
        end_run(ledger, ledger.items[command.item], RunStatus.SUCCEEDED, Reason.REPORTED)
    return answer


def _may_edit(ledger: Ledger, book: Book, command: EditPlan) -> Edited | None:
    plan = book.plan
    if command.item is not None and command.run is not None:
        lost = _lost(ledger, book, command.item, command.run, command.bits)
        wrong = unanswerable(plan, command.through)
        hint = "`interlock plan batch HANDLE` shows the last completion to answer."
        return lost or (_refusal(book, EditRefused.code, [wrong], hint) if wrong else None)
    if plan.ended_us is not None or plan.status is not PlanStatus.RUNNING:
        sentence = f"Plan {plan.id} has ended as {plan.status}."
        return _refusal(book, PlanEnded.code, [sentence], "Retry one of its tasks to reopen it.")
    if plan.cycle_us is not None:
        item = edit_item(ledger, plan)
        who = f"run {item.state.run} of {item.state.run_agent}" if item and item.state.run else plan.editor
        left_us = max(0, (plan.deadline_us or ledger.now_us) - ledger.now_us)
        sentence = (
            f"Plan {plan.id} waits for an edit of {who} (item {plan.edit_item}), "
            f"for {span(round(left_us / US_PER_S))} at most; others can edit it after that."
        )
        hint = f"Try again then, or `interlock cancel {plan.edit_item} --reason TEXT` to go on without it."
        return _refusal(book, Held.code, [sentence], hint)
    return None


def _lost(ledger: Ledger, book: Book, item_id: ItemId, run: RunId, bits: int | None) -> Edited | None:
    """Refuse a run that is not the current run of the item that asks for the edit."""
    item = ledger.items.get(item_id)
    if item is not None and item.is_run_of(run, bits) and book.plan.edit_item == item_id:
        return None
    refusal = explain_loss(run, ended_run(ledger, run, bits), item)
    return _refusal(book, refusal.code, [refusal.sentence], refusal.hint)


def _rebase(ledger: Ledger, book: Book, command: EditPlan) -> Edited | None:
    plan = book.plan
    if not 1 <= command.base <= plan.revision:
        sentence = f"Plan {plan.id} has no revision {command.base}; it is at {plan.revision}."
        return _refusal(book, EditRefused.code, [sentence], "Pass the revision that the edit was made for.")
    found = conflicts(command.operations, ledger.snapshot.revisions)
    if not found:
        return None
    hint = f"Read revision {plan.revision} and make the edit for it."
    return _refusal(book, StaleRevision.code, found, hint)


def _refusal(book: Book, code: str, reasons: Sequence[str], hint: str) -> Edited:
    return Edited(revision=book.plan.revision, code=code, reasons=tuple(reasons), hint=hint)


def _refuse(ledger: Ledger, book: Book, command: EditPlan, refused: Edited) -> Edited:
    plan = book.plan
    late = refused.code == CycleExpired.code  # counted already, as timed out
    book.plan = plan._replace(edits_refused=plan.edits_refused + (not late))
    ledger.plan_event(
        EventKind.PLAN_EDIT_REFUSED,
        plan,
        refused.code,
        by=command.by,
        by_run=command.run,
        base=command.base,
        revision=plan.revision,
        reasons=list(refused.reasons[:20]),
    )
    return refused


def _accept(
    ledger: Ledger, book: Book, command: EditPlan, draft: Draft, operations: Sequence[Any], *, rebased: bool
) -> Edited:
    if not operations:
        return Edited(revision=book.plan.revision, rebased=False)
    touched = _apply(ledger, book, draft, command.tickets)
    plan = book.plan
    book.plan = plan._replace(
        edits_rebased=plan.edits_rebased + rebased,
        # An editor's edit counts when its run ends, as an answer without a change does.
        edits_completed=plan.edits_completed + (command.item is None),
    )
    text = json.dumps(operations, separators=(",", ":"), ensure_ascii=False)
    book.revisions.append(
        Revision(
            plan.id, plan.revision, command.base, ledger.now_us, command.by, command.run, command.why, text
        )
    )
    added = tuple(t.key for t in draft.added.values())
    removed = tuple(t.key for t in draft.removed.values())
    updated = tuple(book.tasks[i].key for i in draft.updated)
    ledger.plan_event(
        EventKind.PLAN_MODIFIED,
        plan,
        "",
        revision=plan.revision,
        base=command.base,
        by=command.by,
        by_run=command.run,
        why=command.why or None,
        operations=len(operations),
        added=added[:KEYS_IN_EVENT],
        removed=removed[:KEYS_IN_EVENT],
        updated=updated[:KEYS_IN_EVENT],
    )
    return Edited(
        revision=plan.revision,
        rebased=rebased,
        added=added,
        removed=removed,
        updated=updated,
        touched=tuple(touched),
    )


def _apply(ledger: Ledger, book: Book, draft: Draft, tickets: Sequence[int]) -> list[ItemId]:
    """Write a draft without objections into the ledger; gives the tasks whose status may change."""
    plan = book.plan
    revision = plan.revision + 1
    book.plan = plan._replace(
        revision=revision,
        tasks=plan.tasks + len(draft.added) - len(draft.removed),
        edges=plan.edges + len(draft.new_edges) - len(draft.lost_edges),
        open_tasks=plan.open_tasks + len(draft.added),
    )
    moved = dict.fromkeys(draft.added)
    for item, spec in draft.added.items():
        rank = draft.ranks[item]
        book.put_task(Task(item, plan.id, spec.key, rank, added_revision=revision))
    for item, rank in draft.ranks.items():
        if item not in draft.added:
            book.put_task(book.tasks[item]._replace(rank=rank))
    for edge in draft.lost_edges.values():
        book.remove_edge(edge)
        moved[edge.target] = None
    for edge in (*draft.changed_edges.values(), *draft.new_edges.values()):
        book.put_edge(edge)
        moved[edge.target] = None
    for item in draft.removed:
        moved.pop(item, None)
        _remove(ledger, book, item, revision)
    for item, changes in draft.updated.items():
        _update(ledger, item, changes)
    for (item, spec), ticket in zip(draft.added.items(), tickets, strict=False):
        _add(ledger, book, item, spec, ticket)
    for item in moved:
        place(ledger, book, item)
    return list(moved)


def _add(ledger: Ledger, book: Book, item_id: ItemId, task: TaskSpec, ticket: int) -> None:
    plan = book.plan
    free = book.tasks[item_id].ready and task.lane is None
    item = ledger.add(
        ledger.spec(as_item(task, plan.project), item_id, ticket, lane=task.lane, plan=plan.id),
        State(
            status=ItemStatus.PENDING if free else ItemStatus.WAITING,
            reason=Reason.PLANNED if free else Reason.PREDECESSORS_OPEN,
        ),
        task.payload,
    )
    ledger.event(EventKind.ITEM_ADDED, item, Reason.PLANNED, status=item.status, plan=plan.id, task=task.key)


def _remove(ledger: Ledger, book: Book, item_id: ItemId, revision: int) -> None:
    task, item = book.tasks[item_id], ledger.items[item_id]
    book.put_task(task._replace(removed_revision=revision, doomed=False))
    cancel_unstarted(ledger, item, Reason.REMOVED_BY_EDIT, task=task.key, revision=revision)


def _update(ledger: Ledger, item_id: ItemId, changes: dict[str, Any]) -> None:
    item = ledger.items[item_id]
    changes = dict(changes)
    if "payload" in changes:
        ledger.out.changed_payloads.append((item_id, changes.pop("payload")))
    if "agent" in changes:
        changes["agent_key"] = changes.pop("agent")
    if "priority" in changes:
        changes["sort_key"] = ledger.sort_key(changes["priority"], item.spec.ticket)
    if changes:
        ledger.respec(item, **changes)
        ledger.out.respecified.append(item_id)


def pause(ledger: Ledger, command: PausePlan) -> Moved:
    """Pause a plan, or resume it: a paused plan gives out no tasks."""
    book = ledger.books[command.plan]
    if book.plan.ended_us is not None:
        return _ended(book.plan)
    book.plan = book.plan._replace(paused_why=command.why if command.paused else None)
    kind = EventKind.PLAN_PAUSED if command.paused else EventKind.PLAN_RESUMED
    ledger.plan_event(kind, book.plan, Reason.OPERATOR, why=command.why or None, by=command.by)
    return Moved(item=None, changed=True)


def set_edit_deadline(ledger: Ledger, command: SetEditDeadline) -> Moved:
    """Change how long a plan's editor may take; the deadline of an open cycle moves along."""
    book = ledger.books[command.plan]
    plan = book.plan
    deadline_us = plan.deadline_us
    if deadline_us is not None:
        deadline_us += to_us(command.edit_deadline_s) - to_us(plan.edit_deadline_s)
    book.plan = plan._replace(edit_deadline_s=command.edit_deadline_s, deadline_us=deadline_us)
    seconds = command.edit_deadline_s
    ledger.plan_event(
        EventKind.PLAN_DEADLINE_SET, plan, Reason.OPERATOR, edit_deadline_s=seconds, by=command.by
    )
    return Moved(item=None, changed=True)


def cancel_plan(ledger: Ledger, command: CancelPlan) -> Moved:
    """End a plan: none of its tasks is claimed from here on. Its open tasks are cancelled in transactions of
    their own; if their caller dies, the sweeper goes on with them."""
    book = ledger.books[command.plan]
    plan = book.plan
    if plan.ended_us is not None:
        return _ended(plan)
    book.plan = plan._replace(status=PlanStatus.CANCELLED)
    ledger.plan_event(EventKind.PLAN_CANCELLED, plan, Reason.OPERATOR, why=command.why, by=command.by)
    item = edit_item(ledger, plan)
    if item is not None:
        end_edit(ledger, item, Reason.OPERATOR, why=command.why)
    return Moved(item=None, changed=True)


def _ended(plan: Plan) -> Moved:
    return Moved(item=None, changed=False, refusal=f"Plan {plan.id} has already ended as {plan.status}.")
