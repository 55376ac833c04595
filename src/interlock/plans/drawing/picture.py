"""What a drawing shows: tasks and the edges between them."""

from __future__ import annotations

from dataclasses import dataclass

WHEN_SUCCESS, WHEN_COMPLETION, WHEN_FAILURE = "success", "completion", "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A task. Without a status it has no sign of one."""

    key: str
    title: str = ""
    status: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An edge: `target` waits until `source` has ended as `when` requires."""

    source: str
    target: str
    when: str = WHEN_SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPicture:
    """Nodes with distinct keys, and links between them. It has no cycle."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...] = ()
    title: str = ""
