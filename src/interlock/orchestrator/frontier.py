"""What of a plan may be claimed next, as far as one process knows.

A look at a whole plan costs in proportion to its size. Between two looks the ends of own tasks tell which
others became ready; the store has the last word on that, since a claim of what is not ready gives nothing.
So this may be wrong in both directions, and is put right by the next look.

Tasks that the same agents may claim are of one kind. When claims of a kind give nothing, the rest of it is
passed over, and the others have their turn: tasks for somebody else keep nobody from what is behind them.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from interlock.service.planview import PlanView, TaskView

#: Claims of one kind in a row that others were faster with, or that cannot be had now, before it is shut.
CLAIMS_IN_VAIN = 8


class Kind(NamedTuple):
    """What decides who may claim a task."""

    agent: str | None
    labels: tuple[str, ...]
    type: str

    @classmethod
    def of(cls, task: TaskView) -> Kind:
        return cls(task.agent, task.labels, task.type)


#: The most urgent first, then in the order of arrival.
_Place = tuple[int, int, str]


@dataclass(slots=True)
class Frontier:
    """Tasks that seem to be ready, and those that wait for others."""

    view: PlanView
    #: An edit cycle seems to be open: nothing can be claimed but the edit.
    editing: bool = False
    #: Kinds that this process has had tasks of, in this look or before.
    known: set[Kind] = field(default_factory=set)
    _tasks: dict[str, TaskView] = field(default_factory=dict)
    #: A heap of each kind.
    _ready: dict[Kind, list[_Place]] = field(default_factory=lambda: defaultdict(list))
    #: A heap of the first of each kind that is not shut. What is no longer the first is passed over.
    _first: list[tuple[_Place, Kind]] = field(default_factory=list)
    #: Kinds that nothing is tried of, and whether that may change when a run of ours ends.
    _shut: dict[Kind, bool] = field(default_factory=dict)
    _vain: dict[Kind, int] = field(default_factory=lambda: defaultdict(int))
    #: Tasks that come again when a run of ours ends.
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
        # One that waits for its time is offered by the look after the sweep that sees it come.
        made.offer(t.key for t in view.tasks if t.status == "pending" and t.run_at is None)
        return made

    def ended(self, key: str) -> None:
        """A task has ended, in whatever way: those that waited for nothing else may be ready."""
        self.editing = self.editing or self.view.editor is not None
        ready = []
        for target in self._targets.pop(key, ()):
            self._unmet[target] -= 1
            if not self._unmet[target]:
                ready.append(target)
        self.offer(ready)

    def offer(self, keys: Iterable[str]) -> None:
        """These may be ready. Keys that came with a later edit are not known before the next look."""
        for key in keys:
            task = self._tasks.get(key)
            if task is not None:
                kind, place = Kind.of(task), (-task.priority, task.item, key)
                heapq.heappush(self._ready[kind], place)
                if self._ready[kind][0] == place:
                    self._lead(kind)

    def _lead(self, kind: Kind) -> None:
        """Let the first of a kind take its place among the others' first."""
        if self._ready[kind] and kind not in self._shut:
            heapq.heappush(self._first, (self._ready[kind][0], kind))

    def ready(self) -> Iterator[TaskView]:
        """Those that seem ready, the most urgent first; each is offered once, until it is offered again."""
        while self._first and not self.editing and not self.view.paused:
            place, kind = heapq.heappop(self._first)
            places = self._ready[kind]
            if kind in self._shut or not places or places[0] != place:
                continue
            heapq.heappop(places)
            self._lead(kind)
            yield self._tasks[place[2]]

    # -- what came of claims ------------------------------------------------------------------------

    def had(self, task: TaskView) -> None:
        """A claim of it gave a run."""
        self.known.add(Kind.of(task))
        self._vain.pop(Kind.of(task), None)

    def in_vain(self, task: TaskView, *, again: bool = False) -> None:
        """A claim of it gave nothing. `again`: it may give something when a run of ours has ended."""
        kind = Kind.of(task)
        self._vain[kind] += 1
        if again:
            self._aside.append(task.key)
        if self._vain[kind] >= CLAIMS_IN_VAIN:
            self._shut[kind] = again or kind in self.known

    def no_room(self, task: TaskView) -> None:
        """Whoever may claim it is at work on as much as may be, until a run of ours ends."""
        self._aside.append(task.key)
        self._shut[Kind.of(task)] = True

    def room(self) -> None:
        """A run of ours has ended."""
        for kind in [kind for kind, passing in self._shut.items() if passing]:
            del self._shut[kind]
            self._vain.pop(kind, None)
            self._lead(kind)
        aside, self._aside = self._aside, []
        self.offer(aside)

    def items_before(self, key: str) -> dict[str, int]:
        """The items of the tasks that this one waits for, by key."""
        return {source: self._tasks[source].item for source in self._sources.get(key, ())}

    @property
    def empty(self) -> bool:
        return not self._first
