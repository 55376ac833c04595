"""The tasks of a plan that one process expects to be ready for its next claims.

The cost of reading a whole plan grows with its size. Between two reads, the ends of our own tasks show which
others became ready. The store decides: a claim of a task that is not ready returns nothing. So the frontier
may be wrong in both directions, and the next read corrects it.

Tasks that the same agents may claim are of one kind. When claims of a kind return nothing, the rest of that
kind is skipped. So tasks for other processes do not block the tasks behind them.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from interlock.core.row import NamedTuple
from interlock.service.plan_view import PlanView, TaskView

#: After this many empty claims of one kind in a row, the kind is skipped.
MISSES_MAX = 8


class Kind(NamedTuple):
    """The properties of a task that decide which agents may claim it."""

    agent: str | None
    labels: tuple[str, ...]
    type: str

    @classmethod
    def of(cls, task: TaskView) -> Kind:
        return cls(task.agent, task.labels, task.type)


#: Sorts the most urgent task first, then by arrival.
_Order = tuple[int, int, str]


@dataclass(slots=True)
class Frontier:
    """Tasks that seem to be ready, and tasks that wait for others."""

    view: PlanView
    #: An edit cycle seems to be open: only the edit can be claimed.
    editing: bool = False
    #: Kinds of tasks that this process has claimed, in this look or before.
    known: set[Kind] = field(default_factory=set)
    _tasks: dict[str, TaskView] = field(default_factory=dict)
    #: A heap for each kind.
    _ready: dict[Kind, list[_Order]] = field(default_factory=lambda: defaultdict(list))
    #: A heap of the first task of each kind that is not skipped. Stale entries are ignored.
    _first: list[tuple[_Order, Kind]] = field(default_factory=list)
    #: The skipped kinds, and whether that may change when a run of ours ends.
    _shut: dict[Kind, bool] = field(default_factory=dict)
    _misses: dict[Kind, int] = field(default_factory=lambda: defaultdict(int))
    #: Tasks to offer again when a run of ours ends.
    _aside: list[str] = field(default_factory=list)
    _sources: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _targets: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _unmet: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    @classmethod
    def of(cls, view: PlanView, known: set[Kind] | None = None) -> Frontier:
        made = cls(view=view, editing=view.cycle is not None, known=set() if known is None else known)
        made._tasks = {task.key: task for task in view.tasks}
        for edge in view.edges:
            made._sources[edge.target].append(edge.source)
            if edge.state == "open":
                made._targets[edge.source].append(edge.target)
                made._unmet[edge.target] += 1
        # A task with a `run_at` is offered by the first look after the sweep that makes it ready.
        made.offer(t.key for t in view.tasks if t.status == "pending" and t.run_at is None)
        return made

    def ended(self, key: str) -> None:
        """A task has ended: tasks that waited only for it may be ready."""
        self.editing = self.editing or self.view.editor is not None
        ready = []
        for target in self._targets.pop(key, ()):
            self._unmet[target] -= 1
            if not self._unmet[target]:
                ready.append(target)
        self.offer(ready)

    def offer(self, keys: Iterable[str]) -> None:
        """These may be ready. Keys that a later edit added are unknown until the next look."""
        for key in keys:
            task = self._tasks.get(key)
            if task is not None:
                kind, place = Kind.of(task), (-task.priority, task.item, key)
                heapq.heappush(self._ready[kind], place)
                if self._ready[kind][0] == place:
                    self._push_first(kind)

    def _push_first(self, kind: Kind) -> None:
        """Enter the first task of a kind among the first of the others."""
        if self._ready[kind] and kind not in self._shut:
            heapq.heappush(self._first, (self._ready[kind][0], kind))

    def ready(self) -> Iterator[TaskView]:
        """Tasks that seem ready, the most urgent first; each comes once, until it is offered again."""
        while self._first and not self.editing and not self.view.paused:
            place, kind = heapq.heappop(self._first)
            places = self._ready[kind]
            if kind in self._shut or not places or places[0] != place:
                continue
            heapq.heappop(places)
            self._push_first(kind)
            yield self._tasks[place[2]]

    # -- results of claims ---------------------------------------------------------------------------

    def claimed(self, task: TaskView) -> None:
        """A claim of this task returned a run."""
        self.known.add(Kind.of(task))
        self._misses.pop(Kind.of(task), None)

    def missed(self, task: TaskView, *, again: bool = False) -> None:
        """A claim of this task returned no run. `again`: it may succeed after another run here ends."""
        kind = Kind.of(task)
        self._misses[kind] += 1
        if again:
            self._aside.append(task.key)
        if self._misses[kind] >= MISSES_MAX:
            self._shut[kind] = again or kind in self.known

    def agents_full(self, task: TaskView) -> None:
        """All agents that may claim this task are at their limit until a run of ours ends."""
        self._aside.append(task.key)
        self._shut[Kind.of(task)] = True

    def run_ended(self) -> None:
        """A run of ours has ended."""
        for kind in [kind for kind, passing in self._shut.items() if passing]:
            del self._shut[kind]
            self._misses.pop(kind, None)
            self._push_first(kind)
        aside, self._aside = self._aside, []
        self.offer(aside)

    def items_before(self, key: str) -> dict[str, int]:
        """The items of the tasks that this one waits for, by key."""
        return {source: self._tasks[source].item for source in self._sources.get(key, ())}

    @property
    def empty(self) -> bool:
        return not self._first
