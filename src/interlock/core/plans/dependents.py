"""How the end or the return of a task affects the tasks that depend on it, and their plan.

After the commands of a transaction, every task that became terminal decides its outgoing edges, and every
task that a retry brought back opens them again. Then each target goes where its incoming edges put it:

============================  ==========================================================================
incoming edges                a target that has not started
============================  ==========================================================================
some open, none broken        waits
all satisfied                 is pending or, on a lane, due: the lane takes it in a transaction of its own
some broken, a cycle is open  waits, doomed: the editor may still save it
some broken, no cycle         is due, and is cancelled as unreachable in a transaction of its own
============================  ==========================================================================

So nothing here touches another lane. A cascade takes one step per transaction, except for unreachable tasks
without a lane: those read together with the task they depend on end in its transaction.
"""

from __future__ import annotations

from interlock.core.lanes import cancel_unstarted, promote
from interlock.core.ledger import Ledger
from interlock.core.model import EventKind, Item, ItemId, Reason
from interlock.core.plans.model import (
    EDIT_TYPE,
    PLAN_CANCELLED,
    Completion,
    Edge,
    EdgeState,
    OnCancel,
    PlanStatus,
    Task,
    When,
)
from interlock.core.plans.plan_ledger import PlanLedger
from interlock.core.states import ItemStatus

#: Reasons why the plan itself ends a task: not failures, and nothing for an editor to answer.
_BY_PLAN = frozenset({Reason.UNREACHABLE, Reason.REMOVED_BY_EDIT})


def edge_state(edge: Edge, source: ItemStatus) -> EdgeState:
    """The state of an edge whose source has this status."""
    match source:
        case ItemStatus.COMPLETED:
            return EdgeState.BROKEN if edge.when is When.FAILURE else EdgeState.SATISFIED
        case ItemStatus.FAILED:
            return EdgeState.BROKEN if edge.when is When.SUCCESS else EdgeState.SATISFIED
        case ItemStatus.CANCELLED | ItemStatus.SUPERSEDED | ItemStatus.COALESCED:
            return EdgeState.SATISFIED if edge.on_cancel is OnCancel.SATISFY else EdgeState.BROKEN
        case _:
            return EdgeState.OPEN


def update_dependents(ledger: Ledger, plan_ledger: PlanLedger) -> None:
    """Apply what follows from every task that ended or came back in this transaction."""
    mine = [
        i for i in ledger.items.values() if i.spec.plan == plan_ledger.plan.id and i.id in plan_ledger.tasks
    ]
    back: list[Item] = []
    ended: list[Item] = []
    for item in mine:
        before = ledger.before(item.id)
        if before is None or before.terminal is item.terminal:
            continue
        if item.terminal:
            _record_end(ledger, plan_ledger, item)
            ended.append(item)
        else:
            _recount(plan_ledger, before, -1)
            back.append(item)
    if plan_ledger.behind and not plan_ledger.completions:  # with a completion, an editor may still save them
        _cancel_behind(ledger, plan_ledger, ended)
    while back:  # a dependent that was cancelled as unreachable comes back too, and opens its own edges
        back += [
            i for edge in plan_ledger.edges_of(back.pop().id) if (i := _reopen(ledger, plan_ledger, edge))
        ]


def _record_end(ledger: Ledger, plan_ledger: PlanLedger, item: Item) -> None:
    _recount(plan_ledger, item, 1)
    if item.state.reason == Reason.REMOVED_BY_EDIT:
        return  # its edges are removed too
    for edge in plan_ledger.edges_of(item.id):
        plan_ledger.put_edge(edge._replace(state=edge_state(edge, item.status)))
        update_unstarted(ledger, plan_ledger, edge.target)
    plan, task = plan_ledger.plan, plan_ledger.tasks[item.id]
    if plan.editor is None or plan.status is not PlanStatus.RUNNING or item.state.reason in _BY_PLAN:
        return
    n = plan.last_n + 1
    plan_ledger.plan = plan._replace(last_n=n)
    plan_ledger.completions.append(Completion(plan.id, n, item.id, task.key, item.status, ledger.now_us))
    plan_ledger.unanswered.append((n, ledger.now_us))


def _cancel_behind(ledger: Ledger, plan_ledger: PlanLedger, ended: list[Item]) -> None:
    """Cancel the tasks of `plan_ledger.behind` that can never start because of these ends, nearest first."""
    for item in ended:  # grows during the loop
        for edge in plan_ledger.edges_of(item.id):
            target, task = ledger.items[edge.target], plan_ledger.tasks[edge.target]
            if target.id in plan_ledger.behind and task.broken and target.status is ItemStatus.WAITING:
                cancel_unreachable(ledger, plan_ledger, target, task)
                target = ledger.items[target.id]
                if target.terminal:
                    _record_end(ledger, plan_ledger, target)
                    ended.append(target)


def _recount(plan_ledger: PlanLedger, ended: Item, change: int) -> None:
    plan = plan_ledger.plan
    completed = ended.status is ItemStatus.COMPLETED
    failed = not completed and ended.state.reason not in _BY_PLAN
    plan_ledger.plan = plan._replace(
        open_tasks=plan.open_tasks - change,
        completed=plan.completed + completed * change,
        failed=plan.failed + failed * change,
    )


def _reopen(ledger: Ledger, plan_ledger: PlanLedger, edge: Edge) -> Item | None:
    """Open an edge again whose source came back, unless the target is ready or has started already.

    Gives the target if it was cancelled as unreachable and may become ready now.
    """
    item = ledger.items[edge.target]
    unreachable = item.status is ItemStatus.CANCELLED and item.state.reason == Reason.UNREACHABLE
    waits = item.status is ItemStatus.WAITING and not plan_ledger.tasks[item.id].ready
    if not (unreachable or waits):
        return None
    plan_ledger.put_edge(edge._replace(state=EdgeState.OPEN))
    if not unreachable or plan_ledger.tasks[item.id].broken:
        update_unstarted(ledger, plan_ledger, item.id)
        return None
    _recount(plan_ledger, item, -1)
    item = ledger.change(
        item, status=ItemStatus.WAITING, due_us=None, ended_us=None, reason=Reason.PREDECESSORS_OPEN
    )
    ledger.event(EventKind.ITEM_REENTERED, item, Reason.PREDECESSORS_OPEN, status=item.status)
    return item


def update_unstarted(ledger: Ledger, plan_ledger: PlanLedger, target: ItemId) -> None:
    """Give a task that has not started the status that its incoming edges call for."""
    item, task = ledger.items[target], plan_ledger.tasks[target]
    if item.terminal or item.started or task.removed_revision is not None:
        return
    doomed = task.broken > 0 and plan_ledger.plan.cycle_us is not None
    if task.doomed is not doomed:
        plan_ledger.put_task(task._replace(doomed=doomed))
    if task.broken:
        _wait(ledger, item, None if doomed else ledger.now_us)
    elif task.unmet:
        _wait(ledger, item, None)
    elif item.status is ItemStatus.WAITING and item.spec.lane is not None:
        _wait(ledger, item, item.state.due_us or ledger.now_us)
    elif item.status is ItemStatus.WAITING:
        item = ledger.change(item, status=ItemStatus.PENDING, due_us=None, reason=Reason.PREDECESSORS_MET)
        ledger.event(EventKind.ITEM_REENTERED, item, Reason.PREDECESSORS_MET, status=item.status)


def _wait(ledger: Ledger, item: Item, due_us: int | None) -> None:
    """Let a task wait: until its predecessors have ended, or for its own transaction now if it is due. If it
    owned its lane, the next in line is promoted."""
    if due_us is not None:
        ledger.out.due_now.append(item.id)
    if item.status is ItemStatus.WAITING and item.state.due_us == due_us:
        return
    before, owned, lane = item.status, item.active, item.spec.lane
    item = ledger.change(
        item, status=ItemStatus.WAITING, due_us=due_us, front=False, reason=Reason.PREDECESSORS_OPEN
    )
    if before is not ItemStatus.WAITING:
        ledger.event(EventKind.ITEM_REENTERED, item, Reason.PREDECESSORS_OPEN, status=item.status)
    if owned and lane is not None:
        promote(ledger, lane, None)


def cancel_unreachable(ledger: Ledger, plan_ledger: PlanLedger, item: Item, task: Task) -> None:
    """Cancel a waiting task with a broken edge, unless an editor may still save it.

    While its whole plan is being cancelled, that is the reason, as for the plan's other tasks.
    """
    if plan_ledger.plan.status is PlanStatus.CANCELLED:
        why = PLAN_CANCELLED
        cancel_unstarted(ledger, item, Reason.OPERATOR, cancel_why=why, why=why)
        return
    if plan_ledger.plan.cycle_us is not None:
        plan_ledger.put_task(task._replace(doomed=True))
        ledger.change(item, due_us=None)
        return
    cancel_unstarted(ledger, item, Reason.UNREACHABLE, task=task.key)


def why_not_retried(ledger: Ledger, item: Item) -> str:
    """Why an ended task cannot be retried in its plan; empty if it can, and for items without a plan."""
    if item.spec.type == EDIT_TYPE:
        return f"Item {item.id} belongs to a closed edit cycle; the next completion opens another."
    plan_ledger = ledger.plan_ledgers.get(item.spec.plan) if item.spec.plan is not None else None
    if plan_ledger is None:
        return ""
    plan, task = plan_ledger.plan, plan_ledger.tasks[item.id]
    if task.removed_revision is not None:
        return f"Task {task.key} was removed from plan {plan.id} in revision {task.removed_revision}."
    if plan.status is PlanStatus.CANCELLED and plan.ended_us is None:
        return f"Plan {plan.id} is being cancelled."
    if task.broken:
        # Which one is not read here. Only `why` knows whether its retry can help: a success has none.
        return f"Task {task.key} cannot start: a task that it depends on did not end as required."
    return ""


def wait_again(ledger: Ledger, item: Item) -> bool:
    """Let a retried task wait for its predecessors; false if it need not, and for items without a plan."""
    plan_ledger = ledger.plan_ledgers.get(item.spec.plan) if item.spec.plan is not None else None
    if plan_ledger is None or plan_ledger.tasks[item.id].ready:
        return False
    item = ledger.change(item, status=ItemStatus.WAITING, due_us=None, reason=Reason.PREDECESSORS_OPEN)
    ledger.event(EventKind.ITEM_REENTERED, item, Reason.PREDECESSORS_OPEN, status=item.status)
    return True
