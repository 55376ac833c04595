"""Series kept by a server, with the interface of `Keeper`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.service.series import Acquired, Cycle, SeriesService, SeriesView


class ServedSeries:
    """The server asks GitHub, with its own token, and decides by its own settings."""

    def __init__(self, service: SeriesService, repository: str) -> None:
        self._service, self._repository = service, repository

    def named(self, text: str) -> str:
        """As it is written: the server knows the pattern of its titles."""
        return text

    def status(self, only: Sequence[str] = ()) -> list[SeriesView]:
        """How the series stand, or those named."""
        if not only:
            return self._service.series(self._repository)
        return [view for name in only for view in self._service.series(self._repository, series=name)]

    def metrics(self) -> dict[str, Any]:
        """What was counted."""
        return self._service.series_metrics(self._repository)

    def acquire(self, number: int, *, login: str | None = None) -> Acquired:
        """Take the series of an issue for it, if it is next."""
        return self._service.acquire_issue(self._repository, number, assign=login)

    def release(self, number: int, *, why: str = "") -> Cycle:
        """Give an issue back."""
        return self._service.release_issue(self._repository, number, why=why)

    def promote(self, series: str, *, force: bool = False, why: str = "") -> Cycle:
        """Promote the next issue."""
        return self._service.promote_series(self._repository, series, force=force, why=why)

    def reconcile(self, only: Sequence[str] = ()) -> list[Cycle]:
        """Make the series what GitHub says."""
        return self._service.reconcile_series(self._repository, series=only)

    def rebuild(self, series: str) -> Cycle:
        """Build a series anew from the live issues."""
        return self._service.rebuild_series(self._repository, series)
