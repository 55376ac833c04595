"""Drafts of edits: what operations would make of a graph, or every reason why not. All or nothing.

The invariants of an edit: a task has at most one live run, because an edit never touches runs; the graph
stays acyclic; only tasks that have not started, and edges whose target has not started, change. Task
operations are applied before edge operations, so their order in a list does not matter between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError
from itertools import count
from typing import Any, assert_never

from interlock.core.model import Item, ItemId, PlanId
from interlock.core.plans.dependents import edge_state
from interlock.core.plans.graph import cycles, raised
from interlock.core.plans.model import (
    EDIT_DEADLINE_S,
    AddEdge,
    AddTask,
    Edge,
    EdgeOperation,
    EdgeSpec,
    EdgeState,
    EditOperation,
    Plan,
    PlanStatus,
    RemoveEdge,
    RemoveTask,
    Task,
    TaskSpec,
    UpdateEdge,
    UpdateTask,
)
from interlock.core.plans.plan_ledger import PlanLedger, PlanPart
from interlock.core.plans.validation import (
    Agents,
    check_changes,
    check_edge,
    check_known,
    check_size,
    checked_task,
    lane_named,
)
from interlock.core.record import replace
from interlock.core.states import ItemStatus


class NoRoom(Exception):
    """The ranks around an edit have no gap left. The whole plan needs new ranks first."""


class Draft:
    """An edit in progress: the graph it would give, and every reason against it."""

    def __init__(
        self,
        items: Mapping[ItemId, Item],
        plan_ledger: PlanLedger,
        agents: Agents | None,
        ids: Iterable[ItemId],
        *,
        renumber: bool = False,
    ) -> None:
        """Without `agents`, the names of agents in tasks are not checked."""
        self.reasons: list[str] = []
        #: The agents that new and updated tasks name.
        self.named: list[str] = []
        self.added: dict[ItemId, TaskSpec] = {}
        self.removed: dict[ItemId, Task] = {}
        #: The changed fields of a task, in normal form.
        self.updated: dict[ItemId, dict[str, Any]] = {}
        self.new_edges: dict[tuple[ItemId, ItemId], Edge] = {}
        self.lost_edges: dict[tuple[ItemId, ItemId], Edge] = {}
        self.changed_edges: dict[tuple[ItemId, ItemId], Edge] = {}
        self.ranks: dict[ItemId, int] = {}
        self._items = items
        self._plan_ledger = plan_ledger
        self._agents = agents
        self._ids = iter(ids)
        self._renumber = renumber
        self._live = dict(plan_ledger.live)
        self._gone: set[tuple[str, str]] = set()

    def apply_all(self, operations: Sequence[EditOperation]) -> None:
        """Apply all operations, tasks before edges; then check the graph as a whole."""
        for operation in sorted(operations, key=lambda o: isinstance(o, EdgeOperation)):
            self.apply(operation)
        self.finish()

    def apply(self, operation: EditOperation) -> None:
        match operation:
            case AddTask():
                self._add_task(operation.task)
            case RemoveTask():
                self._remove_task(operation.key)
            case UpdateTask():
                self._update_task(operation)
            case AddEdge():
                self._add_edge(operation.edge)
            case RemoveEdge():
                self._remove_edge(operation.source, operation.target)
            case UpdateEdge():
                self._update_edge(operation)
            case other:
                assert_never(other)

    def finish(self) -> None:
        """Check the limits of the whole graph, refuse cycles, and rank what is new."""
        # An edge that ends up with its old terms has not changed, and keeps its state.
        known = self._plan_ledger.edges
        self.changed_edges = {p: e for p, e in self.changed_edges.items() if e.terms != known[p].terms}
        plan = self._plan_ledger.plan
        check_size(
            plan.tasks + len(self.added) - len(self.removed),
            plan.edges + len(self.new_edges) - len(self.lost_edges),
            self.reasons.append,
        )
        self._rank()

    # -- tasks ------------------------------------------------------------------------------------

    def _add_task(self, task: TaskSpec) -> None:
        task = self._checked(task)
        item = next(self._ids)
        if task.key in self._live:
            self.reasons.append(f"There is already a task {task.key}.")
            return
        self._live[task.key] = item
        self.added[item] = task

    def _remove_task(self, key: str) -> None:
        item = self._changeable_task(key, "removed")
        if item is None:
            return
        del self._live[key]
        self.removed[item] = self._plan_ledger.tasks[item]
        self.updated.pop(item, None)
        for edge in self._plan_ledger.edges_at(item):
            self.lost_edges[edge.pair] = edge
            self._gone.add(
                (self._plan_ledger.tasks[edge.source].key, self._plan_ledger.tasks[edge.target].key)
            )

    def _update_task(self, operation: UpdateTask) -> None:
        lawful = check_changes(operation.key, operation.changes, self.reasons.append)
        item = self._changeable_task(operation.key, "changed")
        if item is None or not lawful:
            return
        changes = {**self.updated.get(item, {}), **operation.changes}
        before = task_spec(self._plan_ledger.tasks[item], self._items[item])
        wanted = replace(before, **changes, no_lane=before.lane is None)  # a new payload changes no lane
        task = self._checked(wanted)
        self.updated[item] = {name: getattr(task, name) for name in changes}

    def _checked(self, task: TaskSpec) -> TaskSpec:
        task = checked_task(task, self._plan_ledger.plan.project, self.reasons.append)
        self.named.append(task.agent)
        if self._agents is not None:
            check_known(task, self._agents, self.reasons.append)
        return task

    def _changeable_task(self, key: str, change: str) -> ItemId | None:
        """A task of the plan; complains if it is missing, new in this edit, or has started."""
        item = self._live.get(key)
        if item is None:
            self.reasons.append(f"There is no task {key} in the plan.")
        elif item in self.added:
            self.reasons.append(f"Task {key} is both added and {change}.")
        elif (found := self._items[item]).terminal or found.started:
            self.reasons.append(f"Task {key} {_progress(found)} and cannot be {change}.")
        else:
            return item
        return None

    # -- edges ------------------------------------------------------------------------------------

    def _changeable_edge(self, source: str, target: str) -> tuple[ItemId, ItemId] | None:
        """Both tasks of an edge; complains if one is missing or the target has started."""
        missing = [key for key in dict.fromkeys((source, target)) if key not in self._live]
        for key in missing:
            self.reasons.append(f"The edge {source} → {target} names task {key}, which is not in the graph.")
        if missing:
            return None
        pair = self._live[source], self._live[target]
        found = None if pair[1] in self.added else self._items[pair[1]]
        if found is not None and (found.terminal or found.started):
            sentence = f"The edge {source} → {target} cannot change: task {target} {_progress(found)}."
            self.reasons.append(sentence)
            return None
        return pair

    def _add_edge(self, spec: EdgeSpec) -> None:
        if not check_edge(spec, self.reasons.append):
            return
        pair = self._changeable_edge(spec.source, spec.target)
        if pair is None:
            return
        known = self._plan_ledger.edges.get(pair)
        if pair in self.new_edges or (known is not None and pair not in self.lost_edges):
            self.reasons.append(f"There is already an edge {spec.source} → {spec.target}.")
            return
        edge = Edge(*pair, self._plan_ledger.plan.id, spec.when, spec.on_cancel)
        edge = edge._replace(state=self._state(edge))
        if known is not None:  # removed and added again: it changes
            del self.lost_edges[pair]
            self.changed_edges[pair] = edge
        else:
            self.new_edges[pair] = edge

    def _remove_edge(self, source: str, target: str) -> None:
        if (source, target) in self._gone:
            return  # it was removed with one of its tasks
        pair = self._changeable_edge(source, target)
        if pair is None:
            return
        edge = self._plan_ledger.edges.get(pair)
        if edge is None or pair in self.lost_edges:
            self.reasons.append(f"There is no edge {source} → {target} to remove.")
            return
        self.changed_edges.pop(pair, None)
        self.lost_edges[pair] = edge

    def _update_edge(self, operation: UpdateEdge) -> None:
        source, target = operation.source, operation.target
        pair = self._changeable_edge(source, target)
        if pair is None:
            return
        edge = self.changed_edges.get(pair) or self._plan_ledger.edges.get(pair)
        if edge is None or pair in self.lost_edges:
            self.reasons.append(f"There is no edge {source} → {target} to update.")
            return
        edge = edge._replace(
            when=operation.when or edge.when, on_cancel=operation.on_cancel or edge.on_cancel
        )
        self.changed_edges[pair] = edge._replace(state=self._state(edge))

    def _state(self, edge: Edge) -> EdgeState:
        if edge.source in self.added:
            return EdgeState.OPEN
        return edge_state(edge, self._items[edge.source].status)

    # -- the whole --------------------------------------------------------------------------------

    def _rank(self) -> None:
        """Refuse cycles, and give every task a rank above those of its predecessors."""
        if not (self.added or self.new_edges):
            return
        plan_ledger = self._plan_ledger
        bound = max((plan_ledger.tasks[s].rank for s, _ in self.new_edges if s not in self.added), default=0)
        movable = [*self.added, *(self._kept() if self._renumber else self._reachable(bound))]
        edges = [p for p in (*plan_ledger.edges, *self.new_edges) if p not in self.lost_edges]
        mine = set(movable)
        touching = [(s, t) for s, t in edges if s in mine or t in mine]
        ranks = {} if self._renumber else {item: task.rank for item, task in plan_ledger.tasks.items()}
        try:
            changed = raised(movable, touching, ranks)
        except CycleError:
            for cycle in cycles(movable, [(s, t) for s, t in touching if s in mine and t in mine]):
                path = " → ".join(map(self._key, cycle))
                self.reasons.append(f"The edges would close a cycle: {path}.")
            return
        if changed is None:
            raise NoRoom
        self.ranks = changed

    def _kept(self) -> Iterator[ItemId]:
        return (item for item in self._live.values() if item not in self.added)

    def _reachable(self, bound: int) -> Iterator[ItemId]:
        """The tasks that the targets of new edges reach with ranks up to `bound`: only these may move up."""
        plan_ledger = self._plan_ledger
        seen: set[ItemId] = set()
        ahead = [t for _, t in self.new_edges]
        while ahead:
            item = ahead.pop()
            if item in seen or item in self.added or plan_ledger.tasks[item].rank > bound:
                continue
            seen.add(item)
            yield item
            ahead += plan_ledger.outgoing.get(item, ())

    def _key(self, item: ItemId) -> str:
        return self.added[item].key if item in self.added else self._plan_ledger.tasks[item].key


def new_plan_draft() -> Draft:
    """The draft of a plan that does not exist yet: checks a graph without a store, and so without agents."""
    plan = Plan(PlanId(0), "default", "", None, EDIT_DEADLINE_S, PlanStatus.RUNNING, 0)
    return Draft({}, PlanLedger(PlanPart(plan=plan)), None, map(ItemId, count(1)))


def task_spec(task: Task, item: Item, payload: str | None = None) -> TaskSpec:
    """The task as its caller would write it. Its payload is kept apart from its row."""
    spec = item.spec
    named = lane_named(payload) if spec.lane is None else None
    return TaskSpec(
        key=task.key,
        title=spec.title,
        agent=spec.agent_key,
        labels=spec.labels,
        type=spec.type,
        priority=spec.priority,
        payload=payload,
        lane=spec.lane,
        no_lane=named is not None,
        lease_s=spec.lease_s,
        timeout_s=spec.timeout_s,
        max_attempts=spec.max_attempts,
        retry_lane=spec.retry_lane,
    )


def _progress(item: Item) -> str:
    if item.status is ItemStatus.IN_PROGRESS:
        return f"is running (run {item.state.run} of {item.state.run_agent})"
    if item.terminal:
        return f"has ended as {item.status}"
    return "has started"
