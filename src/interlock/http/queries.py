"""The query fields of each address: their meanings, and the bounds of their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.core.names import WINDOW_MAX_S
from interlock.core.row import NamedTuple
from interlock.http.arguments import query_fields
from interlock.service.contract import ItemFilter
from interlock.service.operations import Operation


class QueryField(NamedTuple):
    """One field of a query."""

    name: str
    kind: Any
    needed: bool
    about: str
    #: Further parts of its schema.
    bounds: Mapping[str, Any]


def fields_of(operation: Operation) -> list[QueryField]:
    """The query fields of an address; none if it has a body."""
    if operation.writes:
        return []
    found = []
    for name, (kind, needed) in query_fields(operation).items():
        about, bounds = _described(operation, name)
        found.append(QueryField(name, kind, needed, f"{about} Needed." if needed else about, bounds))
    return found


def _described(operation: Operation, name: str) -> tuple[str, Mapping[str, Any]]:
    if name == "limit":
        most = operation.limit_max
        usual = next((p.default for p in operation.parameters if p.name == name), ItemFilter().limit)
        text = f"At most this many: 1 to {most:,}; default: {usual:,}."
        return text, {"minimum": 1, "maximum": most, "default": usual}
    bounds = {"minimum": 1, "maximum": WINDOW_MAX_S} if name == "window_s" else {}
    return operation.sentence(name), bounds
