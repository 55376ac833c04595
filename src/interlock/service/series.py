"""Series of issues as a service shows and keeps them: what it takes, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from interlock.core.record import Record


class Waiting(Record):
    """An issue of the series that is not in line, or that is no member of it."""

    number: int
    why: str


class SeriesView(Record):
    """A series as it stands."""

    series: str
    lane: str
    mode: str
    #: Whether a prefix makes another series: `apart` or `together`.
    prefixes: str
    active_issue: int | None
    #: `free`, `promoted`, `assigning`, `assigned`, `unassigned` or, where its lane is broken, `unreadable`.
    state: str
    #: Who is assigned, or will be.
    assignee: str | None
    run: int | None
    queue: tuple[int, ...]
    waiting: tuple[Waiting, ...]
    #: Issues whose titles name the series and that are no members, and members whose "Depends on" lines do
    #: not count: their authors may not write to the repository.
    ignored: tuple[Waiting, ...]
    state_issue: int | None
    #: From, to, why and when.
    promotion: Mapping[str, Any] | None
    problems: tuple[str, ...]
    #: Counts since the first contact.
    metrics: Mapping[str, int]


class Acquired(Record):
    """The answer to a wish for an issue."""

    #: `acquired`, `already-active`, `queued`, `queued-dependency`, `ignored` or `no-series`.
    status: str
    issue: int
    series: str | None = None
    active_issue: int | None = None
    #: Its place in the line, from 1.
    position: int | None = None
    #: What must come first.
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
    #: What was done, as sentences.
    done: tuple[str, ...]
    #: Counts of this cycle.
    metrics: Mapping[str, int]
    problems: tuple[str, ...] = ()
    #: It was left alone: the first problem says why.
    refused: bool = False


class SeriesService(Protocol):
    """The series of repositories. All but the first two ask GitHub, with the token of whoever serves."""

    def series(self, repository: str, *, series: str | None = None) -> list[SeriesView]: ...

    def series_metrics(self, repository: str) -> dict[str, Any]: ...

    def acquire_issue(self, repository: str, issue: int, *, assign: str | None = None) -> Acquired: ...

    def release_issue(self, repository: str, issue: int, *, why: str = "") -> Cycle: ...

    def promote_series(
        self, repository: str, series: str, *, force: bool = False, why: str = ""
    ) -> Cycle: ...

    def reconcile_series(self, repository: str, *, series: Sequence[str] = ()) -> list[Cycle]: ...

    def rebuild_series(self, repository: str, series: str) -> Cycle: ...
