"""Edits a second time: what operations make of the plain model of a plan, and which are drawn."""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from interlock.core.plans.model import (
    AddEdge,
    AddTask,
    EdgeSpec,
    EditOperation,
    Graph,
    OnCancel,
    RemoveEdge,
    RemoveTask,
    TaskSpec,
    UpdateEdge,
    UpdateTask,
    When,
)
from tests.model.plan_reference import Edge, Pair, PlanReference, Shape, Wanted, acyclic

KEYS = "ABCDEFGH"
#: The agents that work on tasks, with the labels of each.
WORKERS: dict[str, tuple[str, ...]] = {"coder": (), "tester": ("gpu",)}

whens = st.sampled_from(list(When))
on_cancels = st.sampled_from(list(OnCancel))


# -- what is drawn --------------------------------------------------------------------------------


@st.composite
def wanted(draw: st.DrawFn, lane: str, lawful: bool = True) -> Wanted:
    """What a task is asked to be: mostly nothing in particular."""
    agents = ["", "", "", *WORKERS] if lawful else ["nobody"]
    labels = draw(st.sampled_from([(), (), (), ("gpu",)]))
    on_lane = draw(st.integers(0, 4)) == 0
    return Wanted(draw(st.sampled_from(agents)), labels, lane if on_lane else None, draw(st.integers(0, 2)))


@st.composite
def operations(draw: st.DrawFn, model: PlanReference, lane: str, lawful: bool) -> list[EditOperation]:
    """One operation, or the replacement of a task under its key: such as the plan may well allow as it
    stands, or any."""
    known = sorted(model.tasks) if lawful and model.tasks else list(KEYS)
    free = [k for k in known if k in model.tasks and model.unstarted(k)] or known
    pairs = [p for p in model.edges if p[1] in free] or [(known[0], free[0])]
    target = draw(st.sampled_from(free))
    above = [k for k in known if k < target] if lawful else known  # so that few cycles are closed
    source = draw(st.sampled_from(above or known))
    pair = draw(st.sampled_from(pairs))
    match draw(st.integers(0, 8)):
        case 0:
            return [RemoveTask(key=target)]
        case 1:
            new = [k for k in KEYS if k not in model.tasks] if lawful else list(KEYS)
            task = spec(draw(st.sampled_from(new or list(KEYS))), draw(wanted(lane, lawful)))
            return [AddTask(task=task)]
        case 2:
            return [RemoveEdge(source=pair[0], target=pair[1])]
        case 3:
            return [UpdateEdge(source=pair[0], target=pair[1], when=draw(whens))]
        case 4:
            names = ["agent", "labels", "priority"] if lawful else ["agent", "lane"]
            value = draw(wanted(lane, lawful))
            return [UpdateTask(key=target, changes={n: getattr(value, n) for n in names})]
        case 5:
            swap: list[EditOperation] = [
                RemoveTask(key=target),
                AddTask(task=spec(target, draw(wanted(lane)))),
            ]
            return swap if lawful else swap[::-1]
        case _:
            edge = EdgeSpec(source=source, target=target, when=draw(whens), on_cancel=draw(on_cancels))
            return [AddEdge(edge=edge)]


def spec(key: str, wanted: Wanted) -> TaskSpec:
    return TaskSpec(key=key, **wanted._asdict())


def graph_of(shape: Shape) -> Graph:
    return Graph(
        tasks=tuple(spec(key, wanted) for key, (_, wanted) in shape.tasks.items()),
        edges=tuple(
            EdgeSpec(source=s, target=t, when=When(e.when), on_cancel=OnCancel(e.on_cancel))
            for (s, t), (_, e) in shape.edges.items()
        ),
    )


def difference(before: Graph, after: Graph) -> list[EditOperation]:
    """What makes one graph of another."""
    old, new = {t.key: t for t in before.tasks}, {t.key: t for t in after.tasks}
    had, has = {e.pair: e for e in before.edges}, {e.pair: e for e in after.edges}
    found: list[EditOperation] = [RemoveTask(key=key) for key in old.keys() - new.keys()]
    found += [AddTask(task=new[key]) for key in new.keys() - old.keys()]
    for key in old.keys() & new.keys():
        names = [n for n in Wanted._fields if getattr(old[key], n) != getattr(new[key], n)]
        if names:
            found.append(UpdateTask(key=key, changes={n: getattr(new[key], n) for n in names}))
    for pair in had.keys() - has.keys():
        found.append(RemoveEdge(source=pair[0], target=pair[1]))
    found += [AddEdge(edge=has[pair]) for pair in has.keys() - had.keys()]
    for pair in had.keys() & has.keys():
        if had[pair] != has[pair]:
            edge = has[pair]
            update = UpdateEdge(source=pair[0], target=pair[1], when=edge.when, on_cancel=edge.on_cancel)
            found.append(update)
    return found


# -- what comes of it -----------------------------------------------------------------------------


def conflicting(wishes: list[EditOperation], shapes: list[Shape]) -> bool:
    """Whether something that the operations touch has changed from one shape of the graph to the next."""
    tasks = {w.task.key for w in wishes if isinstance(w, AddTask)}
    tasks |= {w.key for w in wishes if isinstance(w, RemoveTask | UpdateTask)}
    removed = {w.key for w in wishes if isinstance(w, RemoveTask)}
    edges = {w.edge.pair for w in wishes if isinstance(w, AddEdge)}
    edges |= {(w.source, w.target) for w in wishes if isinstance(w, RemoveEdge | UpdateEdge)}
    ends = {key for pair in edges for key in pair}
    for before, after in itertools.pairwise(shapes):
        changed = _differing(before.tasks, after.tasks)
        moved = _differing(before.edges, after.edges)
        gone = {k for k, (born, _) in before.tasks.items() if after.tasks.get(k, (0,))[0] != born}
        if tasks & changed or ends & gone or edges & moved or any(removed & set(p) for p in moved):
            return True
    return False


def _differing(before: dict[Any, Any], after: dict[Any, Any]) -> set[Any]:
    return {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)}


@dataclass
class Editing:
    """One edit of a model. `gone` are edges that went with their tasks, `new` the tasks that it adds."""

    model: PlanReference

    def apply(self, wishes: list[EditOperation]) -> bool:
        """What the operations make of the model, and whether all of them are lawful; tasks before edges."""
        self.gone: set[Pair] = set()
        self.new: set[str] = set()
        lawful = all(self._apply_task(wish) for wish in wishes)
        self.old = copy.deepcopy(self.model.edges)
        lawful = lawful and all(self._apply_edge(wish) for wish in wishes)
        for pair, was in self.old.items():
            now = self.model.edges.get(pair)
            if now is not None and (now.when, now.on_cancel) == (was.when, was.on_cancel):
                now.state = was.state
        if not lawful or not acyclic(set(self.model.tasks), set(self.model.edges)):
            return False
        self.model.settle()
        return True

    def _apply_task(self, wish: EditOperation) -> bool:
        model = self.model
        if isinstance(wish, AddTask):
            wanted = Wanted(*(getattr(wish.task, n) for n in Wanted._fields))
            if wish.task.key in model.tasks or not _known(wanted):
                return False
            model.bear(wish.task.key, wanted)
            self.new.add(wish.task.key)
        elif isinstance(wish, RemoveTask):
            if wish.key not in model.tasks or wish.key in self.new or not model.unstarted(wish.key):
                return False
            del model.tasks[wish.key]
            self.gone |= {p for p in model.edges if wish.key in p}
            model.edges = {p: e for p, e in model.edges.items() if p not in self.gone}
        elif isinstance(wish, UpdateTask):
            if wish.key not in model.tasks or wish.key in self.new or not model.unstarted(wish.key):
                return False
            task = model.tasks[wish.key]
            task.wanted = task.wanted._replace(**wish.changes)
            return "lane" not in wish.changes and _known(task.wanted)
        return True

    def _apply_edge(self, wish: EditOperation) -> bool:
        """An edge that the edit adds itself it changes no more."""
        model = self.model
        if isinstance(wish, AddEdge):
            edge = wish.edge
            known = edge.source in model.tasks and edge.target in model.tasks
            if not known or edge.source == edge.target or edge.pair in model.edges:
                return False
            if not model.unstarted(edge.target):
                return False
            model.edges[edge.pair] = Edge(edge.when.value, edge.on_cancel.value)
        elif isinstance(wish, RemoveEdge | UpdateEdge):
            pair = (wish.source, wish.target)
            if isinstance(wish, RemoveEdge) and pair in self.gone:
                return True
            if pair not in model.edges or pair not in self.old or not model.unstarted(wish.target):
                return False
            if isinstance(wish, RemoveEdge):
                del model.edges[pair]
            else:
                edge_now = model.edges[pair]
                edge_now.when = wish.when.value if wish.when else edge_now.when
                edge_now.on_cancel = wish.on_cancel.value if wish.on_cancel else edge_now.on_cancel
                edge_now.state = "open"
        return True


def _known(wanted: Wanted) -> bool:
    return wanted.agent in ("", *WORKERS)
