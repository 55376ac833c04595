"""The input of a drawing: tasks and the edges between them."""

from __future__ import annotations

from dataclasses import dataclass

WHEN_SUCCESS, WHEN_COMPLETION, WHEN_FAILURE = "success", "completion", "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A task. Without a status it has no status sign."""

    key: str
    title: str = ""
    status: str = ""
    #: The page about it.
    href: str = ""
    #: `added`, `removed` or `changed` since the revision before.
    change: str = ""
    #: It is part of the longest chain.
    critical: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureEdge:
    """An edge: `target` waits until `source` has ended as `when` requires."""

    source: str
    target: str
    when: str = WHEN_SUCCESS
    #: `added`, `removed` or `changed` since the revision before.
    change: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPicture:
    """Nodes with distinct keys, and links between them. It has no cycle."""

    nodes: tuple[Node, ...]
    links: tuple[PictureEdge, ...] = ()
    title: str = ""
