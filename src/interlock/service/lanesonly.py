"""A store that serves lanes and series alone, as a `Service`: what it cannot do says which store can."""

from __future__ import annotations

from typing import Any, cast

from interlock.core.errors import InvalidInput
from interlock.service.contract import LaneService, Service
from interlock.service.keeping import Keeping
from interlock.service.series import SeriesService


class LanesOnly:
    """The lanes and series of a store, and a clear refusal instead of every other use case."""

    def __init__(self, lanes: LaneService, series: Keeping, name: str, hint: str) -> None:
        self._lanes = lanes
        self._series = series
        self._name = name
        self._hint = hint

    def __getattr__(self, what: str) -> Any:
        if not what.startswith("_") and hasattr(self._lanes, what):
            return getattr(self._lanes, what)
        if hasattr(SeriesService, what):
            return getattr(self._series, what)
        if hasattr(Service, what):
            raise InvalidInput(f"{self._name} cannot do `{what}`; a database can.", self._hint)
        raise AttributeError(f"There is no use case {what!r}.")


def as_service(lanes: LaneService, series: Keeping, *, name: str, hint: str) -> Service:
    """The lanes as a service, with their series. `name` begins the sentence of a refusal, `hint` names stores
    that can."""
    return cast(Service, LanesOnly(lanes, series, name, hint))
