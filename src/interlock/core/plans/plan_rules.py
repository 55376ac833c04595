"""Commands on plans: create, edit, pause or resume, move the edit deadline, cancel."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, assert_never

from interlock.core.commands import CommandAnswer
from interlock.core.cures import Cure, cure
from interlock.core.endings import end_run, ended_run, explain_loss
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
from interlock.core.plans.dependents import update_unstarted
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
from interlock.core.plans.plan_ledger import PlanLedger, PlanPart
from interlock.core.plans.validation import as_item, check_editor, unknown_agents
from interlock.core.states import ItemStatus, RunStatus
from interlock.core.timing import span, to_us

#: The most keys in an event. The revision has all of them.
KEYS_IN_EVENT = 100


def operate(ledger: Ledger, command: PlanCommand) -> Edited | CommandAnswer:
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
    """Create a plan, or raise `InvalidPlan` with every problem of its graph."""
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
    plan_ledger = PlanLedger(PlanPart(plan=plan), new=True)
    draft = Draft(ledger.items, plan_ledger, agents, command.ids)
    check_editor(command.editor or "", agents, draft.reasons.append)
    draft.apply_all(
        [*(AddTask(task=t) for t in command.graph.tasks), *(AddEdge(edge=e) for e in command.graph.edges)]
    )
    if not command.graph.tasks:
        draft.reasons.append("The plan has no tasks.")
    if draft.reasons:
        several = f"The plan has {len(draft.reasons):,} mistakes."
        raise InvalidPlan(
            draft.reasons[0] if len(draft.reasons) == 1 else several,
            "Nothing was changed. Correct the plan.",
            unknown_agents((command.editor or "", *draft.named), agents),
            reasons=tuple(draft.reasons),
        )
    ledger.plan_ledgers[plan.id] = plan_ledger
    _apply(ledger, plan_ledger, draft, command.tickets)
    plan_ledger.revisions.append(Revision(plan.id, 1, 0, ledger.now_us, command.by, None, "", None))
    ledger.plan_event(
        EventKind.PLAN_CREATED,
        plan,
        name=plan.name,
        by=command.by,
        tasks=plan_ledger.plan.tasks,
        edges=plan_ledger.plan.edges,
    )
    return Edited(revision=1, added=tuple(t.key for t in draft.added.values()), touched=tuple(draft.added))


def edit(ledger: Ledger, command: EditPlan) -> Edited:
    """Apply an edit as a whole, or refuse it with every reason. A refusal is only counted."""
    plan_ledger = ledger.plan_ledgers[command.plan]
    close_late_cycle(ledger, plan_ledger)
    refused = _may_edit(ledger, plan_ledger, command) or _rebase(ledger, plan_ledger, command)
    draft = Draft(ledger.items, plan_ledger, ledger.snapshot.agents, command.ids, renumber=command.renumber)
    if refused is None:
        draft.apply_all(command.operations)
        if draft.reasons:
            hint = "Nothing was changed. Correct the edit and send it again."
            cures = unknown_agents(draft.named, ledger.snapshot.agents)
            refused = _refusal(plan_ledger, EditRefused.code, draft.reasons, hint, cures)
    if refused is not None:
        return _refuse(ledger, plan_ledger, command, refused)
    rebased = command.base < plan_ledger.plan.revision
    operations = record(ledger, plan_ledger, draft, ledger.snapshot.payloads)
    answer = _accept(ledger, plan_ledger, command, draft, operations, rebased=rebased)
    if command.item is not None:
        plan_ledger.through = command.through
        end_run(ledger, ledger.items[command.item], RunStatus.SUCCEEDED, Reason.REPORTED)
    return answer


def _may_edit(ledger: Ledger, plan_ledger: PlanLedger, command: EditPlan) -> Edited | None:
    plan = plan_ledger.plan
    if command.item is not None and command.run is not None:
        lost = _lost(ledger, plan_ledger, command.item, command.run, command.bits)
        wrong = unanswerable(plan, command.through)
        batch = cure("plan_batch", "shows the completions to answer", run=None)
        return lost or (_refusal(plan_ledger, EditRefused.code, [wrong], cures=(batch,)) if wrong else None)
    if plan.ended_us is not None or plan.status is not PlanStatus.RUNNING:
        sentence = f"Plan {plan.id} has already ended as {plan.status}."
        return _refusal(plan_ledger, PlanEnded.code, [sentence], "Retry one of its tasks to reopen it.")
    if plan.cycle_us is not None:
        item = edit_item(ledger, plan)
        who = f"run {item.state.run} of {item.state.run_agent}" if item and item.state.run else plan.editor
        left_us = max(0, (plan.deadline_us or ledger.now_us) - ledger.now_us)
        left = span(round(left_us / US_PER_S))
        sentence = f"Plan {plan.id} waits up to {left} for an edit of {who} (item {plan.edit_item})."
        stop = cure("cancel", "ends that wait", item=plan.edit_item, why=None)
        return _refusal(plan_ledger, Held.code, [sentence], "Try again later.", (stop,))
    return None


def _lost(
    ledger: Ledger, plan_ledger: PlanLedger, item_id: ItemId, run: RunId, bits: int | None
) -> Edited | None:
    """Refuse a run that is not the current run of the edit item."""
    item = ledger.items.get(item_id)
    if item is not None and item.is_run_of(run, bits) and plan_ledger.plan.edit_item == item_id:
        return None
    refusal = explain_loss(run, ended_run(ledger, run, bits), item)
    return _refusal(plan_ledger, refusal.code, [refusal.sentence], refusal.hint, refusal.cures)


def _rebase(ledger: Ledger, plan_ledger: PlanLedger, command: EditPlan) -> Edited | None:
    plan = plan_ledger.plan
    if not 1 <= command.base <= plan.revision:
        sentence = f"Plan {plan.id} has no revision {command.base}; it is at {plan.revision}."
        return _refusal(
            plan_ledger, EditRefused.code, [sentence], "Pass the revision that the edit was made for."
        )
    found = conflicts(command.operations, ledger.snapshot.revisions)
    if not found:
        return None
    hint = f"Redo the edit on revision {plan.revision}."
    return _refusal(plan_ledger, StaleRevision.code, found, hint)


def _refusal(
    plan_ledger: PlanLedger, code: str, reasons: Sequence[str], hint: str = "", cures: tuple[Cure, ...] = ()
) -> Edited:
    return Edited(
        revision=plan_ledger.plan.revision, code=code, reasons=tuple(reasons), hint=hint, cures=cures
    )


def _refuse(ledger: Ledger, plan_ledger: PlanLedger, command: EditPlan, refused: Edited) -> Edited:
    plan = plan_ledger.plan
    late = refused.code == CycleExpired.code  # already counted as timed out
    plan_ledger.plan = plan._replace(edits_refused=plan.edits_refused + (not late))
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
    ledger: Ledger,
    plan_ledger: PlanLedger,
    command: EditPlan,
    draft: Draft,
    operations: Sequence[Any],
    *,
    rebased: bool,
) -> Edited:
    if not operations:
        return Edited(revision=plan_ledger.plan.revision, rebased=False)
    touched = _apply(ledger, plan_ledger, draft, command.tickets)
    plan = plan_ledger.plan
    plan_ledger.plan = plan._replace(
        edits_rebased=plan.edits_rebased + rebased,
        # An editor's edit is counted when its run ends, like an answer without a change.
        edits_completed=plan.edits_completed + (command.item is None),
    )
    text = json.dumps(operations, separators=(",", ":"), ensure_ascii=False)
    plan_ledger.revisions.append(
        Revision(
            plan.id, plan.revision, command.base, ledger.now_us, command.by, command.run, command.why, text
        )
    )
    added = tuple(t.key for t in draft.added.values())
    removed = tuple(t.key for t in draft.removed.values())
    updated = tuple(plan_ledger.tasks[i].key for i in draft.updated)
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


def _apply(ledger: Ledger, plan_ledger: PlanLedger, draft: Draft, tickets: Sequence[int]) -> list[ItemId]:
    """Write a valid draft into the ledger; returns the tasks whose status may change."""
    plan = plan_ledger.plan
    revision = plan.revision + 1
    plan_ledger.plan = plan._replace(
        revision=revision,
        tasks=plan.tasks + len(draft.added) - len(draft.removed),
        edges=plan.edges + len(draft.new_edges) - len(draft.lost_edges),
        open_tasks=plan.open_tasks + len(draft.added),
    )
    moved = dict.fromkeys(draft.added)
    for item, spec in draft.added.items():
        rank = draft.ranks[item]
        plan_ledger.put_task(Task(item, plan.id, spec.key, rank, added_revision=revision))
    for item, rank in draft.ranks.items():
        if item not in draft.added:
            plan_ledger.put_task(plan_ledger.tasks[item]._replace(rank=rank))
    for edge in draft.lost_edges.values():
        plan_ledger.remove_edge(edge)
        moved[edge.target] = None
    for edge in (*draft.changed_edges.values(), *draft.new_edges.values()):
        plan_ledger.put_edge(edge)
        moved[edge.target] = None
    for item in draft.removed:
        moved.pop(item, None)
        _remove(ledger, plan_ledger, item, revision)
    for item, changes in draft.updated.items():
        _update(ledger, item, changes)
    for (item, spec), ticket in zip(draft.added.items(), tickets, strict=False):
        _add(ledger, plan_ledger, item, spec, ticket)
    for item in moved:
        update_unstarted(ledger, plan_ledger, item)
    return list(moved)


def _add(ledger: Ledger, plan_ledger: PlanLedger, item_id: ItemId, task: TaskSpec, ticket: int) -> None:
    plan = plan_ledger.plan
    free = plan_ledger.tasks[item_id].ready and task.lane is None
    item = ledger.add(
        ledger.spec(as_item(task, plan.project), item_id, ticket, lane=task.lane, plan=plan.id),
        State(
            status=ItemStatus.PENDING if free else ItemStatus.WAITING,
            reason=Reason.PLANNED if free else Reason.PREDECESSORS_OPEN,
        ),
        task.payload,
    )
    ledger.event(EventKind.ITEM_ADDED, item, Reason.PLANNED, status=item.status, plan=plan.id, task=task.key)


def _remove(ledger: Ledger, plan_ledger: PlanLedger, item_id: ItemId, revision: int) -> None:
    task, item = plan_ledger.tasks[item_id], ledger.items[item_id]
    plan_ledger.put_task(task._replace(removed_revision=revision, doomed=False))
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
        ledger.change_spec(item, **changes)
        ledger.out.respecified.append(item_id)


def pause(ledger: Ledger, command: PausePlan) -> CommandAnswer:
    """Pause or resume a plan. No task of a paused plan starts."""
    plan_ledger = ledger.plan_ledgers[command.plan]
    if plan_ledger.plan.ended_us is not None:
        return _ended(plan_ledger.plan)
    plan_ledger.plan = plan_ledger.plan._replace(paused_why=command.why if command.paused else None)
    kind = EventKind.PLAN_PAUSED if command.paused else EventKind.PLAN_RESUMED
    ledger.plan_event(kind, plan_ledger.plan, Reason.OPERATOR, why=command.why or None, by=command.by)
    return CommandAnswer(item=None, changed=True)


def set_edit_deadline(ledger: Ledger, command: SetEditDeadline) -> CommandAnswer:
    """Change how long a plan's editor may take. The deadline of an open cycle moves too."""
    plan_ledger = ledger.plan_ledgers[command.plan]
    plan = plan_ledger.plan
    deadline_us = plan.deadline_us
    if deadline_us is not None:
        deadline_us += to_us(command.edit_deadline_s) - to_us(plan.edit_deadline_s)
    plan_ledger.plan = plan._replace(edit_deadline_s=command.edit_deadline_s, deadline_us=deadline_us)
    seconds = command.edit_deadline_s
    ledger.plan_event(
        EventKind.PLAN_DEADLINE_SET, plan, Reason.OPERATOR, edit_deadline_s=seconds, by=command.by
    )
    return CommandAnswer(item=None, changed=True)


def cancel_plan(ledger: Ledger, command: CancelPlan) -> CommandAnswer:
    """End a plan: its tasks can no longer be claimed. Its open tasks are cancelled in separate transactions.
    If the caller dies, the sweeper continues."""
    plan_ledger = ledger.plan_ledgers[command.plan]
    plan = plan_ledger.plan
    if plan.ended_us is not None:
        return _ended(plan)
    plan_ledger.plan = plan._replace(status=PlanStatus.CANCELLED)
    ledger.plan_event(EventKind.PLAN_CANCELLED, plan, Reason.OPERATOR, why=command.why, by=command.by)
    item = edit_item(ledger, plan)
    if item is not None:
        end_edit(ledger, item, Reason.OPERATOR, why=command.why)
    return CommandAnswer(item=None, changed=True)


def _ended(plan: Plan) -> CommandAnswer:
    return CommandAnswer(
        item=None, changed=False, refusal=f"Plan {plan.id} has already ended as {plan.status}."
    )
