"""The rules of plans a second time: one plan in plain dictionaries, looked at as a whole for every change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

Pair = tuple[str, str]


class Wanted(NamedTuple):
    """What a task is asked to be."""

    agent: str = ""
    labels: tuple[str, ...] = ()
    lane: str | None = None
    priority: int = 0


@dataclass
class Task:
    """`end` is how it ended, `why` what for; `runs` whether somebody has it; `parked` whether it waits to be
    tried again."""

    end: str = ""
    why: str = ""
    runs: bool = False
    started: bool = False
    parked: bool = False
    let_go: bool = False
    attempts: int = 0
    #: Tells it from others that had its key.
    born: int = 0
    wanted: Wanted = field(default_factory=Wanted)


@dataclass
class Edge:
    when: str
    on_cancel: str
    state: str = "open"


class Terms(NamedTuple):
    """What an edge says."""

    when: str
    on_cancel: str


class Shape(NamedTuple):
    """A graph as it stands, without what has come of it. Tasks have their births, so that another under the
    same key is another; and so have edges those of their ends."""

    tasks: dict[str, tuple[int, Wanted]]
    edges: dict[Pair, tuple[Pair, Terms]]


@dataclass
class PlanReference:
    """One plan. `owed` are the ends that no edit has answered yet; `cycle` says whether one is asked for.
    `shapes` is its graph at each revision."""

    has_editor: bool
    tasks: dict[str, Task] = field(default_factory=dict)
    edges: dict[Pair, Edge] = field(default_factory=dict)
    cycle: bool = False
    owed: list[str] = field(default_factory=list)
    paused: bool = False
    cancelled: bool = False
    births: int = 0
    shapes: list[Shape] = field(default_factory=list)

    # -- reading ----------------------------------------------------------------------------------

    def status(self, key: str) -> str:
        task = self.tasks[key]
        if task.end:
            return task.end
        if task.runs:
            return "in_progress"
        if task.parked:
            return "waiting"
        return "pending" if task.let_go else "waiting"

    def claimable(self, agent: str, labels: tuple[str, ...]) -> set[str]:
        """Tasks that an agent may start, as far as lanes let it."""
        shut = self.cycle or self.paused or self.cancelled
        fit = [k for k, t in self.tasks.items() if t.wanted.agent in ("", agent)]
        fit = [k for k in fit if set(self.tasks[k].wanted.labels) <= set(labels)]
        return set() if shut else {k for k in fit if self.status(k) == "pending"}

    @property
    def revision(self) -> int:
        return len(self.shapes)

    def shape(self) -> Shape:
        births = {key: str(task.born) for key, task in self.tasks.items()}
        edges = {
            (s, t): ((births[s], births[t]), Terms(edge.when, edge.on_cancel))
            for (s, t), edge in self.edges.items()
        }
        return Shape({key: (task.born, task.wanted) for key, task in self.tasks.items()}, edges)

    def unstarted(self, key: str) -> bool:
        task = self.tasks[key]
        return not task.end and not task.started

    def ended(self) -> list[str]:
        return [k for k, t in self.tasks.items() if t.end]

    def waited_for(self) -> list[str]:
        """Tasks that can be cancelled at once and on which others wait."""
        open_ = {k for k, t in self.tasks.items() if not t.end and not t.runs}
        return sorted({source for source, target in self.edges if source in open_ and target in open_})

    def edge_states(self) -> dict[Pair, str]:
        return {pair: edge.state for pair, edge in self.edges.items()}

    def counts(self) -> tuple[int, int, int]:
        """Tasks that are open, that completed, and that ended otherwise by themselves."""
        ends = [t for t in self.tasks.values() if t.end]
        completed = [t for t in ends if t.end == "completed"]
        own_doing = [t for t in ends if t.why == "unreachable"]
        return len(self.tasks) - len(ends), len(completed), len(ends) - len(completed) - len(own_doing)

    @property
    def over(self) -> bool:
        return not self.cycle and all(t.end for t in self.tasks.values())

    @property
    def outcome(self) -> str:
        if not self.over:
            return "running"
        _, completed, failed = self.counts()
        if not failed:
            return "completed"
        return "partially_failed" if completed else "failed"

    # -- changing ---------------------------------------------------------------------------------

    def bear(self, key: str, wanted: Wanted) -> None:
        self.births += 1
        self.tasks[key] = Task(born=self.births, wanted=wanted)

    def settle(self) -> None:
        """Every edge follows its source, and whatever follows from that, until nothing changes."""
        changed = True
        while changed:
            changed = False
            for (source, _), edge in self.edges.items():
                if self.tasks[source].end and edge.state == "open":
                    edge.state = _meaning(edge, self.tasks[source].end)
            for key, task in self.tasks.items():
                if not self.unstarted(key):
                    continue
                states = [e.state for (_, target), e in self.edges.items() if target == key]
                task.let_go = all(s == "satisfied" for s in states)
                if "broken" in states and not self.cycle:
                    self._end(key, "cancelled", "unreachable")
                    changed = True

    def _end(self, key: str, end: str, why: str) -> None:
        """Its last end counts: what an earlier one, before a retry, meant for its edges is forgotten."""
        task = self.tasks[key]
        task.end, task.why, task.runs, task.parked = end, why, False, False
        for (source, _), edge in self.edges.items():
            if source == key:
                edge.state = "open"

    def finish(self, key: str, end: str) -> None:
        self._end(key, end, "")
        if self.has_editor:
            self.cycle = True
            self.owed.append(key)
        self.settle()

    def answer(self, through: int | None) -> None:
        """The editor has answered the first so many ends; all, if it does not say."""
        self.owed = self.owed[len(self.owed) if through is None else through :]
        self.cycle = bool(self.owed)
        self.settle()

    def give_up(self) -> None:
        """The cycle closes unanswered."""
        self.cycle = False
        self.settle()

    def retry(self, key: str) -> bool:
        """Whether an ended task comes back; its dependents may follow."""
        task = self.tasks[key]
        states = [e.state for (_, target), e in self.edges.items() if target == key]
        if task.end not in ("failed", "cancelled") or "broken" in states:
            return False
        task.end = task.why = ""
        task.let_go = True
        self._rearm(key)
        self.settle()
        return True

    def _rearm(self, key: str) -> None:
        for (source, target), edge in self.edges.items():
            after = self.tasks[target]
            waits = self.unstarted(target) and not after.let_go
            if source != key or not (waits or after.why == "unreachable"):
                continue
            edge.state = "open"
            states = [e.state for (_, t), e in self.edges.items() if t == target]
            if after.why == "unreachable" and "broken" not in states:
                after.end = after.why = ""
                after.let_go = False
                self._rearm(target)


def _meaning(edge: Edge, end: str) -> str:
    if end == "cancelled":
        return "satisfied" if edge.on_cancel == "satisfy" else "broken"
    wanted = {"success": ("completed",), "failure": ("failed",), "completion": ("completed", "failed")}
    return "satisfied" if end in wanted[edge.when] else "broken"


def acyclic(tasks: set[str], pairs: set[Pair]) -> bool:
    left = set(tasks)
    while left:
        free = {t for t in left if not any(target == t and source in left for source, target in pairs)}
        if not free:
            return False
        left -= free
    return True
