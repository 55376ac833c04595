"""A plan as its drawings need it."""

from __future__ import annotations

from interlock.core.plans.model import Graph
from interlock.plans.drawing import graph as pictures
from interlock.service.planview import PlanView


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
