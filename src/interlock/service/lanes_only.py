"""A store that serves only lanes and series, as a `Service`: other operations are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from interlock.core.errors import InvalidInput
from interlock.service.contract import LaneService, NextWish, Report, RunView, Service
from interlock.service.series import OpenSeries, Repositories, SeriesOperations, SeriesService


class LanesOnly:
    """The lanes and series of a store. Every other operation is refused."""

    def __init__(
        self, lanes: LaneService, series: OpenSeries, repositories: Repositories, name: str, hint: str
    ) -> None:
        self._lanes = lanes
        self._series = SeriesOperations()
        self._series.open_series = series
        self._series.repositories = repositories
        self._name = name
        self._hint = hint

    def done(self, reports: Sequence[Report], *, next: NextWish | None = None) -> list[RunView]:  # noqa: A002
        """The work of these runs is done; a claim in the same transaction needs a database."""
        if next is not None:
            raise InvalidInput(f"{self._name} does not support `done` with `next`.", self._hint)
        return self._lanes.done(reports)

    def __getattr__(self, what: str) -> Any:
        if not what.startswith("_") and hasattr(self._lanes, what):
            return getattr(self._lanes, what)
        if hasattr(SeriesService, what):
            return getattr(self._series, what)
        if hasattr(Service, what):
            raise InvalidInput(f"{self._name} does not support `{what}`.", self._hint)
        raise AttributeError(f"There is no operation {what!r}.")


def as_service(
    lanes: LaneService, series: OpenSeries, repositories: Repositories, *, name: str, hint: str
) -> Service:
    """The lanes as a service, with their series. `name` begins the sentence of a refusal, `hint` names stores
    that can."""
    return cast(Service, LanesOnly(lanes, series, repositories, name, hint))
