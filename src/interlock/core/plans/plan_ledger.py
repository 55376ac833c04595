"""One plan in one transaction: the rows that were read, the rules' changes to them, and what to write."""

from __future__ import annotations

from interlock.core.model import ItemId
from interlock.core.plans.model import Completion, Edge, EdgeState, Plan, Revision, Task
from interlock.core.record import MutableRecord, Record, fresh


class PlanPart(Record):
    """Rows of one plan, read under the lock of its lane. Never the whole plan:

    - the tasks named, and the targets of their edges;
    - where a cycle may close, the doomed tasks;
    - for an edit, whatever its operations may touch.

    The snapshot has their items, except those of tasks that are here only for their rank.
    """

    plan: Plan
    tasks: tuple[Task, ...] = ()
    edges: tuple[Edge, ...] = ()
    #: Where a cycle may close: number and time of each completion that no edit has answered yet.
    unanswered: tuple[tuple[int, int], ...] = ()
    #: Tasks on no lane, read with their edges because a task they depend on may never start.
    behind: frozenset[ItemId] = frozenset()


class PlanChanges(MutableRecord):
    """What one transaction writes of a plan."""

    plan: Plan
    #: The plan as it was read; null for a new one.
    before: Plan | None = None
    tasks: list[Task] = fresh(list)
    new_tasks: list[Task] = fresh(list)
    edges: list[Edge] = fresh(list)
    new_edges: list[Edge] = fresh(list)
    lost_edges: list[tuple[ItemId, ItemId]] = fresh(list)
    completions: list[Completion] = fresh(list)
    revisions: list[Revision] = fresh(list)


class PlanLedger:
    """The working view of one plan in one transaction."""

    def __init__(self, part: PlanPart, *, new: bool = False) -> None:
        self.plan = part.plan
        self.tasks: dict[ItemId, Task] = {}
        #: The tasks that are part of the graph, by key.
        self.live: dict[str, ItemId] = {}
        self.edges: dict[tuple[ItemId, ItemId], Edge] = {}
        self.outgoing: dict[ItemId, dict[ItemId, None]] = {}
        self.incoming: dict[ItemId, dict[ItemId, None]] = {}
        self.unanswered = list(part.unanswered)
        self.behind = part.behind
        self.completions: list[Completion] = []
        self.revisions: list[Revision] = []
        #: The last completion that the edit of this transaction answers, if it names one.
        self.through: int | None = None
        for task in part.tasks:
            self.put_task(task)
        for edge in part.edges:
            self._put_edge(edge)
        self._new = new
        self._plan_before = part.plan
        self._tasks_before = dict(self.tasks)
        self._edges_before = dict(self.edges)

    def put_task(self, task: Task) -> None:
        self.tasks[task.item] = task
        if task.removed_revision is None:
            self.live[task.key] = task.item
        elif self.live.get(task.key) == task.item:
            del self.live[task.key]

    def put_edge(self, edge: Edge) -> None:
        """Add an edge or replace it, and count it at its target."""
        before = self.edges.get(edge.pair)
        if before is not None:
            self._count(before, -1)
        self._put_edge(edge)
        self._count(edge, 1)

    def remove_edge(self, edge: Edge) -> None:
        del self.edges[edge.pair]
        del self.outgoing[edge.source][edge.target]
        del self.incoming[edge.target][edge.source]
        self._count(edge, -1)

    def _put_edge(self, edge: Edge) -> None:
        self.edges[edge.pair] = edge
        self.outgoing.setdefault(edge.source, {})[edge.target] = None
        self.incoming.setdefault(edge.target, {})[edge.source] = None

    def _count(self, edge: Edge, change: int) -> None:
        task = self.tasks[edge.target]
        if edge.state is EdgeState.OPEN:
            self.put_task(task._replace(unmet=task.unmet + change))
        elif edge.state is EdgeState.BROKEN:
            self.put_task(task._replace(broken=task.broken + change))

    def edges_of(self, source: ItemId) -> list[Edge]:
        """The edges that lead away from a task."""
        return [self.edges[source, target] for target in self.outgoing.get(source, ())]

    def edges_at(self, item: ItemId) -> list[Edge]:
        """The edges that lead away from a task or to it."""
        return self.edges_of(item) + [self.edges[source, item] for source in self.incoming.get(item, ())]

    def changes(self) -> PlanChanges | None:
        """Everything that differs from what was read; null if nothing does."""
        out = PlanChanges(
            plan=self.plan,
            before=None if self._new else self._plan_before,
            completions=self.completions,
            revisions=self.revisions,
        )
        for item, task in self.tasks.items():
            before = self._tasks_before.get(item)
            if before is None:
                out.new_tasks.append(task)
            elif before != task:
                out.tasks.append(task)
        for pair, edge in self.edges.items():
            was = self._edges_before.get(pair)
            if was is None:
                out.new_edges.append(edge)
            elif was != edge:
                out.edges.append(edge)
        out.lost_edges += [pair for pair in self._edges_before if pair not in self.edges]
        same = self.plan == self._plan_before and not self._new
        return None if same and not (out.tasks or out.edges or out.lost_edges or out.new_edges) else out
