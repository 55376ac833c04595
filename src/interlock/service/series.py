"""The operations on series of issues, their answers, and the interface of a repository's series."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol

from interlock.core import names
from interlock.core.errors import InterlockError, InvalidInput
from interlock.core.record import Record

#: In place of an account: the caller assigns.
CALLER_ASSIGNS = "none"
ISSUE_MAX = 2**31 - 1
#: The most series that one call may name, and the longest name.
NAMED_MAX, NAME_MAX_CHARS = 1_000, 100


class Waiting(Record):
    """An issue that is blocked or released, or that is ignored."""

    number: int
    why: str


class SeriesView(Record):
    """The state of a series."""

    repository: str
    series: str
    lane: str
    mode: str
    #: Whether a prefix makes another series: `apart` or `together`.
    prefixes: str
    active_issue: int | None
    #: `free`, `promoted`, `assigning`, `assigned`, `unassigned` or, if its lane is broken, `unreadable`.
    state: str
    #: The account that is assigned, or will be.
    assignee: str | None
    run: int | None
    queue: tuple[int, ...]
    waiting: tuple[Waiting, ...]
    #: Issues with a title of the series that are no members, and members whose "Depends on" lines are
    #: ignored: their authors have no write access.
    ignored: tuple[Waiting, ...]
    state_issue: int | None
    #: The last promotion: from, to, why and when.
    promotion: Mapping[str, Any] | None
    problems: tuple[str, ...]
    #: Counts since the first reconcile.
    metrics: Mapping[str, int]
    #: When a reconcile last completed, what it changed, and its counts. A store in git has only the counts.
    reconciled_at: datetime | None
    reconciled: tuple[str, ...]
    last_cycle: Mapping[str, int]


class Acquired(Record):
    """The answer of `acquire_issue`."""

    #: `acquired`, `already-active`, `queued`, `queued-dependency`, `ignored` or `no-series`.
    status: str
    issue: int
    series: str | None = None
    active_issue: int | None = None
    #: Its position in the queue, from 1.
    position: int | None = None
    #: What blocks it.
    needs: tuple[str, ...] = ()
    #: Whether the caller is to assign it now.
    assign: bool = False
    #: Why it is ignored.
    why: str = ""


class Cycle(Record):
    """What one cycle did to a series."""

    series: str
    active_issue: int | None
    queue: tuple[int, ...]
    #: The changes made, as sentences.
    done: tuple[str, ...]
    #: Counts of this cycle.
    metrics: Mapping[str, int]
    problems: tuple[str, ...] = ()
    #: The series was skipped; the first problem says why.
    refused: bool = False


class SeriesService(Protocol):
    """The series of repositories. All but the first two ask GitHub."""

    def series(self, repository: str | None = None, *, series: str | None = None) -> list[SeriesView]: ...

    def series_metrics(self, repository: str) -> dict[str, Any]: ...

    def acquire_issue(self, repository: str, issue: int, *, assign: str | None = None) -> Acquired: ...

    def release_issue(self, repository: str, issue: int, *, why: str = "") -> Cycle: ...

    def promote_series(
        self, repository: str, series: str, *, force: bool = False, why: str = ""
    ) -> Cycle: ...

    def reconcile_series(self, repository: str, *, series: Sequence[str] = ()) -> list[Cycle]: ...

    def rebuild_series(self, repository: str, series: str) -> Cycle: ...


class RepositorySeries(Protocol):
    """The series of one repository on one store. All but the first two ask GitHub."""

    def status(self, series: str | None = None) -> list[SeriesView]: ...

    def metrics(self) -> dict[str, Any]: ...

    def acquire(self, number: int, *, login: str | None = None) -> Acquired: ...

    def release(self, number: int, *, why: str = "") -> Cycle: ...

    def promote(self, series: str, *, force: bool = False, why: str = "") -> Cycle: ...

    def reconcile(self, only: Iterable[str] = ()) -> list[Cycle]: ...

    def rebuild(self, series: str) -> Cycle: ...


#: Opens the series of a repository by its name.
OpenSeries = Callable[[str], AbstractContextManager[RepositorySeries]]
#: The repositories whose series a store knows.
Repositories = Callable[[], Sequence[str]]


class SeriesOperations:
    """`SeriesService` on a store of this process: checks the arguments and calls the repository's series."""

    #: None on a service that was not opened by the composition root.
    open_series: OpenSeries | None = None
    repositories: Repositories | None = None

    def series(self, repository: str | None = None, *, series: str | None = None) -> list[SeriesView]:
        """The state of the series of a repository or of all, from the store alone: GitHub is not asked."""
        name = None if series is None else _series(series)
        named = [repository]
        if repository is None:
            if self.repositories is None:
                raise _no_series()
            named = list(self.repositories())
        views: list[SeriesView] = []
        for each in named:
            with self._of(each) as found:
                views += found.status(name)
        return views

    def series_metrics(self, repository: str) -> dict[str, Any]:
        """The metrics of each series and of all, since the first reconcile and of the last one."""
        with self._of(repository) as found:
            return found.metrics()

    def acquire_issue(self, repository: str, issue: int, *, assign: str | None = None) -> Acquired:
        """Make an issue the active one of its series, if it is next. `assign` names the account to assign,
        instead of the settings; with `none` the caller assigns, if the answer says so."""
        login = None if assign is None else names.check_name("login", assign)
        number = _issue(issue)
        with self._of(repository) as found:
            return found.acquire(number, login=login)

    def release_issue(self, repository: str, issue: int, *, why: str = "") -> Cycle:
        """Release an issue and promote the next one. It waits until it is assigned or acquired again."""
        number, why = _issue(issue), _why(why)
        with self._of(repository) as found:
            return found.release(number, why=why)

    def promote_series(self, repository: str, series: str, *, force: bool = False, why: str = "") -> Cycle:
        """Promote the next issue if the active one has ended; with `force`, release the active issue
        first."""
        names.check_flag("force", force)
        name, why = _series(series), _why(why)
        with self._of(repository) as found:
            return found.promote(name, force=force, why=why)

    def reconcile_series(self, repository: str, *, series: Sequence[str] = ()) -> list[Cycle]:
        """Bring every series of a repository, or those named, up to date with GitHub."""
        named = names.check_list("series", series)
        if len(named) > NAMED_MAX:
            raise InvalidInput(f"{len(named)} series: at most {NAMED_MAX}.", "Name fewer, or none for all.")
        only = [_series(each) for each in named]
        with self._of(repository) as found:
            return found.reconcile(only)

    def rebuild_series(self, repository: str, series: str) -> Cycle:
        """Rebuild the queue of a series from its open issues."""
        name = _series(series)
        with self._of(repository) as found:
            return found.rebuild(name)

    def _of(self, repository: str | None) -> AbstractContextManager[RepositorySeries]:
        name = names.check_repository(repository or "")
        if self.open_series is None:
            raise _no_series()
        return self.open_series(name)


def _no_series() -> InvalidInput:
    return InvalidInput("This service has no series.", "Open the store with interlock.connect().")


def _series(name: str) -> str:
    return names.check_text("series", name, NAME_MAX_CHARS)


def _issue(number: int) -> int:
    names.check_whole("issue", number, 1, ISSUE_MAX)
    return number


def _why(text: str) -> str:
    return names.check_text("reason", text)


def reconcile_begun(service: SeriesService, repositories: Iterable[str]) -> dict[str, list[Cycle]]:
    """Reconcile the series of all repositories where `series reconcile` has run before.

    All are tried before the first failure is raised.
    """
    found, failed = {}, list[InterlockError]()
    for repository in repositories:
        try:
            if service.series(repository):
                found[repository] = service.reconcile_series(repository)
        except InterlockError as error:  # affects only this repository
            failed.append(error)
    if failed:
        raise failed[0]
    return found
