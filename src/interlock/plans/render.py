"""Pictures of a plan: its graph with the status of each task, or the bare graph of a revision."""

from __future__ import annotations

from interlock.core.plans.model import Graph
from interlock.plans.drawing.picture import Node, PictureEdge, PlanPicture
from interlock.service.plan_view import PlanView


def picture(plan: PlanView) -> PlanPicture:
    """The current graph, with the status of each task."""
    return PlanPicture(
        title=plan.name,
        nodes=tuple(Node(key=t.key, title=t.title, status=t.status) for t in plan.tasks),
        links=tuple(PictureEdge(source=e.source, target=e.target, when=e.when) for e in plan.edges),
    )


def bare_picture(title: str, graph: Graph) -> PlanPicture:
    """The graph of another revision, without statuses."""
    return PlanPicture(
        title=title,
        nodes=tuple(Node(key=t.key, title=t.title or t.key) for t in graph.tasks),
        links=tuple(PictureEdge(source=e.source, target=e.target, when=e.when.value) for e in graph.edges),
    )
