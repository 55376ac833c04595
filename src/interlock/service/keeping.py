"""The series of repositories: what is asked for is checked here, and carried out by whoever knows GitHub."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.core import names
from interlock.core.errors import InvalidInput
from interlock.service.series import Acquired, Cycle, SeriesService, SeriesView

ISSUE_MAX = 2**31 - 1
#: How many series one call may name, and how long the name of one is.
NAMED_MAX, NAME_MAX_CHARS = 1_000, 100


class Keeping:
    """The use cases of series."""

    #: Who carries them out; None where nobody does.
    keeper: SeriesService | None = None

    def series(self, repository: str, *, series: str | None = None) -> list[SeriesView]:
        """How the series of a repository stand, or one of them, by the store alone: GitHub is not asked."""
        name = None if series is None else _series(series)
        return self._keeper.series(names.check_repository(repository), series=name)

    def series_metrics(self, repository: str) -> dict[str, Any]:
        """What was counted of each series and of all, since the first contact and in the last cycle."""
        return self._keeper.series_metrics(names.check_repository(repository))

    def acquire_issue(self, repository: str, issue: int, *, assign: str | None = None) -> Acquired:
        """Take the series of an issue for it, if it is next. `assign` says whom to assign, in place of the
        settings; with `none` the caller does it, if the answer says so."""
        login = None if assign is None else names.check_name("login", assign)
        return self._keeper.acquire_issue(names.check_repository(repository), _issue(issue), assign=login)

    def release_issue(self, repository: str, issue: int, *, why: str = "") -> Cycle:
        """Give an issue back: the next one is promoted, and it waits until somebody wants it again."""
        return self._keeper.release_issue(names.check_repository(repository), _issue(issue), why=_why(why))

    def promote_series(self, repository: str, series: str, *, force: bool = False, why: str = "") -> Cycle:
        """Promote the next issue, if the active one has ended; with `force` that is given back first."""
        names.check_flag("force", force)
        found = names.check_repository(repository), _series(series)
        return self._keeper.promote_series(*found, force=force, why=_why(why))

    def reconcile_series(self, repository: str, *, series: Sequence[str] = ()) -> list[Cycle]:
        """Make every series of a repository, or those named, what GitHub says."""
        named = names.check_list("series", series)
        if len(named) > NAMED_MAX:
            raise InvalidInput(f"{len(named)} series are named at once.", f"Name up to {NAMED_MAX}, or none.")
        found = [_series(each) for each in named]
        return self._keeper.reconcile_series(names.check_repository(repository), series=found)

    def rebuild_series(self, repository: str, series: str) -> Cycle:
        """Forget the line of a series, and build it anew from the live issues."""
        return self._keeper.rebuild_series(names.check_repository(repository), _series(series))

    @property
    def _keeper(self) -> SeriesService:
        if self.keeper is None:
            raise InvalidInput("Nobody here keeps series.", "Open the store with interlock.connect().")
        return self.keeper


def _series(name: str) -> str:
    return names.check_text("series", name, NAME_MAX_CHARS)


def _issue(number: int) -> int:
    names.check_whole("issue", number, 1, ISSUE_MAX)
    return number


def _why(text: str) -> str:
    return names.check_text("reason", text)
