"""What of a plan may be claimed next, as far as one process knows.

A look at a whole plan costs in proportion to its size. Between two looks the ends of own tasks tell which
others became ready; the store has the last word on that, since a claim of what is not ready gives nothing.
So this may be wrong in both directions, and is put right by the next look.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from interlock.planview import PlanView, TaskView


@dataclass(slots=True)
class Frontier:
    """Tasks that seem to be ready, and those that wait for others."""

    view: PlanView
    #: An edit cycle seems to be open: nothing can be claimed but the edit.
    editing: bool = False
    _tasks: dict[str, TaskView] = field(default_factory=dict)
    #: A heap: the most urgent first, then in the order of arrival.
    _ready: list[tuple[int, int, str]] = field(default_factory=list)
    _sources: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _targets: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _unmet: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    @classmethod
    def of(cls, view: PlanView) -> Frontier:
        made = cls(view=view, editing=view.cycle is not None)
        made._tasks = {task.key: task for task in view.tasks}
        for edge in view.edges:
            made._sources[edge.target].append(edge.source)
            if edge.state == "open":
                made._targets[edge.source].append(edge.target)
                made._unmet[edge.target] += 1
        made.offer(task.key for task in view.tasks if task.status == "pending")
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
                heapq.heappush(self._ready, (-task.priority, task.item, key))

    def ready(self) -> Iterator[TaskView]:
        """Those that seem ready, the most urgent first; each is offered once, until it is offered again."""
        while self._ready and not self.editing and not self.view.paused:
            yield self._tasks[heapq.heappop(self._ready)[2]]

    def items_before(self, key: str) -> dict[str, int]:
        """The items of the tasks that this one waits for, by key."""
        return {source: self._tasks[source].item for source in self._sources.get(key, ())}

    @property
    def empty(self) -> bool:
        return not self._ready
