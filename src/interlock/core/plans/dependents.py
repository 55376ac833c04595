"""What follows for a plan when one of its tasks has ended, or has come back: the one place that notices.

After the commands of a transaction were folded, every task that became terminal settles its outgoing edges,
and every one that a retry brought back opens them again. Then each target stands where its edges put it:

============================  ==========================================================================
incoming edges                a target that has not started
============================  ==========================================================================
some open, none broken        waits
all satisfied                 is pending, or, on a lane, due: the lane takes it in a transaction of its own
some broken, a cycle is open  waits, doomed: the editor may still save it
some broken, no cycle         is due, to be cancelled as unreachable in a transaction of its own
============================  ==========================================================================

So nothing here touches another lane. A cascade goes one step a transaction, but for tasks on no lane that can
never start: those that were read with the one they depend on end together with it.
"""

from __future__ import annotations

from interlock.core.lanes import cancel_unstarted, promote
from interlock.core.ledger import Ledger
from interlock.core.model import EventKind, Item, ItemId, Reason
from interlock.core.plans.book import Book
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
from interlock.core.states import ItemStatus

#: Ends of tasks that are the plan's own doing: no failure, and nothing for an editor to answer.
_OWN_DOING = frozenset({Reason.UNREACHABLE, Reason.REMOVED_BY_EDIT})


def settled(edge: Edge, source: ItemStatus) -> EdgeState:
    """What the state of its source means for an edge."""
    match source:
        case ItemStatus.COMPLETED:
            return EdgeState.BROKEN if edge.when is When.FAILURE else EdgeState.SATISFIED
        case ItemStatus.FAILED:
            return EdgeState.BROKEN if edge.when is When.SUCCESS else EdgeState.SATISFIED
        case ItemStatus.CANCELLED | ItemStatus.SUPERSEDED | ItemStatus.COALESCED:
            return EdgeState.SATISFIED if edge.on_cancel is OnCancel.SATISFY else EdgeState.BROKEN
        case _:
            return EdgeState.OPEN


def follow_tasks(ledger: Ledger, book: Book) -> None:
    """Let every end and every return of a task have its consequences."""
    mine = [i for i in ledger.items.values() if i.spec.plan == book.plan.id and i.id in book.tasks]
    back: list[Item] = []
    ended: list[Item] = []
    for item in mine:
        before = ledger.before(item.id)
        if before is None or before.terminal is item.terminal:
            continue
        if item.terminal:
            _end(ledger, book, item)
            ended.append(item)
        else:
            _recount(book, before, -1)
            back.append(item)
    if book.behind and not book.completions:  # what an editor is about to be told it may still save
        _end_behind(ledger, book, ended)
    while back:  # a dependent that was cancelled as unreachable comes back too, and opens its own edges
        back += [i for edge in book.edges_of(back.pop().id) if (i := _rearm(ledger, book, edge))]


def _end(ledger: Ledger, book: Book, item: Item) -> None:
    _recount(book, item, 1)
    if item.state.reason == Reason.REMOVED_BY_EDIT:
        return  # its edges went with it
    for edge in book.edges_of(item.id):
        book.turn_edge(edge, settled(edge, item.status))
        stand(ledger, book, edge.target)
    plan, task = book.plan, book.tasks[item.id]
    if plan.editor is None or plan.status is not PlanStatus.RUNNING or item.state.reason in _OWN_DOING:
        return
    n = plan.last_n + 1
    book.plan = plan._replace(last_n=n)
    book.completions.append(Completion(plan.id, n, item.id, task.key, item.status, ledger.now_us))
    book.unanswered.append((n, ledger.now_us))


def _end_behind(ledger: Ledger, book: Book, ended: list[Item]) -> None:
    """End what can never start because of these ends, nearest first, as far as it was read."""
    for item in ended:  # grows while it is gone through
        for edge in book.edges_of(item.id):
            target, task = ledger.items[edge.target], book.tasks[edge.target]
            if target.id in book.behind and task.broken and target.status is ItemStatus.WAITING:
                judge(ledger, book, target, task)
                target = ledger.items[target.id]
                if target.terminal:
                    _end(ledger, book, target)
                    ended.append(target)


def _recount(book: Book, ended: Item, change: int) -> None:
    plan = book.plan
    completed = ended.status is ItemStatus.COMPLETED
    failed = not completed and ended.state.reason not in _OWN_DOING
    book.plan = plan._replace(
        open_tasks=plan.open_tasks - change,
        completed=plan.completed + completed * change,
        failed=plan.failed + failed * change,
    )


def _rearm(ledger: Ledger, book: Book, edge: Edge) -> Item | None:
    """Open an edge again whose source came back. A target that was let go, by this edge too, is not called
    back.

    Gives the target if it was cancelled as unreachable and now may become ready after all.
    """
    item = ledger.items[edge.target]
    unreachable = item.status is ItemStatus.CANCELLED and item.state.reason == Reason.UNREACHABLE
    waits = item.status is ItemStatus.WAITING and not book.tasks[item.id].ready
    if not (unreachable or waits):
        return None
    book.turn_edge(edge, EdgeState.OPEN)
    if not unreachable or book.tasks[item.id].broken:
        stand(ledger, book, item.id)
        return None
    _recount(book, item, -1)
    item = ledger.change(
        item, status=ItemStatus.WAITING, due_us=None, ended_us=None, reason=Reason.PREDECESSORS_OPEN
    )
    ledger.event(EventKind.ITEM_REENTERED, item, Reason.PREDECESSORS_OPEN, status=item.status)
    return item


def stand(ledger: Ledger, book: Book, target: ItemId) -> None:
    """Put a task that has not started where its edges put it."""
    item, task = ledger.items[target], book.tasks[target]
    if item.terminal or item.started or task.removed_revision is not None:
        return
    doomed = task.broken > 0 and book.plan.cycle_us is not None
    if task.doomed is not doomed:
        book.put_task(task._replace(doomed=doomed))
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
    """It waits, for its predecessors or to be looked at now; a lane that it led goes on."""
    if due_us is not None:
        ledger.out.due_now.append(item.id)
    if item.status is ItemStatus.WAITING and item.state.due_us == due_us:
        return
    was, led, lane = item.status, item.active, item.spec.lane
    item = ledger.change(
        item, status=ItemStatus.WAITING, due_us=due_us, front=False, reason=Reason.PREDECESSORS_OPEN
    )
    if was is not ItemStatus.WAITING:
        ledger.event(EventKind.ITEM_REENTERED, item, Reason.PREDECESSORS_OPEN, status=item.status)
    if led and lane is not None:
        promote(ledger, lane, None)


def judge(ledger: Ledger, book: Book, item: Item, task: Task) -> None:
    """A waiting task is due because one of its edges is broken: it ends, unless an editor may save it.

    Where its whole plan is being cancelled, it ends because of that, as those do that are reached first.
    """
    if book.plan.status is PlanStatus.CANCELLED:
        why = PLAN_CANCELLED
        cancel_unstarted(ledger, item, Reason.OPERATOR, cancel_why=why, why=why)
        return
    if book.plan.cycle_us is not None:
        book.put_task(task._replace(doomed=True))
        ledger.change(item, due_us=None)
        return
    cancel_unstarted(ledger, item, Reason.UNREACHABLE, task=task.key)


def why_not_retried(ledger: Ledger, item: Item) -> str:
    """What keeps a task that ended from being tried again; nothing for most, and for items without a plan."""
    if item.spec.type == EDIT_TYPE:
        return f"Item {item.id} asked for an edit whose cycle has closed; the next end of a task asks anew."
    book = ledger.books.get(item.spec.plan) if item.spec.plan is not None else None
    if book is None:
        return ""
    plan, task = book.plan, book.tasks[item.id]
    if task.removed_revision is not None:
        return f"Item {item.id} was task {task.key} of plan {plan.id} until revision {task.removed_revision}."
    if plan.status is PlanStatus.CANCELLED and plan.ended_us is None:
        return f"Plan {plan.id} is being cancelled."
    if task.broken:
        return f"Task {task.key} can never start as things are; retry the task it depends on."
    return ""


def waits_again(ledger: Ledger, item: Item) -> bool:
    """Whether a task that is tried again has to wait for its predecessors first; then it does."""
    book = ledger.books.get(item.spec.plan) if item.spec.plan is not None else None
    if book is None or book.tasks[item.id].ready:
        return False
    item = ledger.change(item, status=ItemStatus.WAITING, due_us=None, reason=Reason.PREDECESSORS_OPEN)
    ledger.event(EventKind.ITEM_REENTERED, item, Reason.PREDECESSORS_OPEN, status=item.status)
    return True
