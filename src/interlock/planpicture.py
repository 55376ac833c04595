"""A plan as its drawings and measures need it."""

from __future__ import annotations

from interlock.core.plan_model import Graph
from interlock.plangraph import graph as pictures
from interlock.plangraph.measures import Measures, measured
from interlock.planview import PlanView


def picture(plan: PlanView) -> pictures.Graph:
    """The graph as it stands, with how each task stands."""
    return pictures.Graph(
        title=plan.name,
        nodes=tuple(pictures.Node(key=t.key, title=t.title, status=t.status) for t in plan.tasks),
        links=tuple(pictures.Link(source=e.source, target=e.target, when=e.when) for e in plan.edges),
    )


def bare_picture(title: str, graph: Graph) -> pictures.Graph:
    """A graph of another revision: what its tasks were asked to be, not how they stood then."""
    return pictures.Graph(
        title=title,
        nodes=tuple(pictures.Node(key=t.key, title=t.title or t.key) for t in graph.tasks),
        links=tuple(pictures.Link(source=e.source, target=e.target, when=e.when.value) for e in graph.edges),
    )


def measures(plan: PlanView) -> Measures:
    """The critical path, the work and the parallelism, by the tasks that have ended.

    A task took from its first claim to its end, with failed attempts and the pauses between them.
    """
    took_s = {
        task.key: (task.ended_at - task.first_claimed_at).total_seconds()
        for task in plan.tasks
        if task.ended_at is not None and task.first_claimed_at is not None
    }
    return measured([t.key for t in plan.tasks], [(e.source, e.target) for e in plan.edges], took_s)
