"""A store that serves lanes alone, where a `Service` is wanted: what it cannot do says which store can."""

from __future__ import annotations

from typing import Any, cast

from interlock.core.errors import InvalidInput
from interlock.service.contract import LaneService, Service


class LanesOnly:
    """The lanes of a store, and a clear refusal instead of every other use case."""

    def __init__(self, lanes: LaneService, name: str, hint: str) -> None:
        self._lanes = lanes
        self._name = name
        self._hint = hint

    def __getattr__(self, what: str) -> Any:
        if not what.startswith("_") and hasattr(self._lanes, what):
            return getattr(self._lanes, what)
        if hasattr(Service, what):
            raise InvalidInput(f"{self._name} cannot do `{what}`; a database can.", self._hint)
        raise AttributeError(f"There is no use case {what!r}.")


def as_service(lanes: LaneService, *, name: str, hint: str) -> Service:
    """The lanes as a service. `name` begins the sentence of a refusal, `hint` names stores that can."""
    return cast(Service, LanesOnly(lanes, name, hint))
