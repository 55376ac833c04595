"""The composition root: it opens a service on the store that the settings name, and wires its parts.

GitHub, git and the client of a server are imported only when they are used.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import TYPE_CHECKING

from interlock import settings as choices
from interlock.core.errors import InvalidInput
from interlock.service.opening import OpenedLanes, OpenedService, open_existing, open_local
from interlock.settings import Settings
from interlock.settings.store_url import DATABASES, scheme_of

if TYPE_CHECKING:
    from interlock.github.work_reaction import WorkReaction
    from interlock.gitlanes.service import GitLanes
    from interlock.process.reaction import PostedReaction
    from interlock.service.contract import CheckView, LaneView, Service
    from interlock.service.local import LocalService
    from interlock.service.series import RepositorySeries
    from interlock.store.series_notes import SeriesNotes

DATABASE_BEAT_S, GIT_BEAT_S = 2.0, 30.0


def open_service(
    url: str | None = None, *, migrate: bool = True, settings: Settings | None = None, send: bool = True
) -> OpenedService:
    """A service on the store that `url`, the environment or the configuration file names.

    An empty database gets its schema at once, unless `migrate` is false. An *older* schema is always refused:
    other machines may still use it, so an operator decides when to upgrade (`interlock migrate`). Unless
    `send`, effects of series are left to `interlock github send`.
    """
    settings = settings or choices.load(url=url)
    if scheme_of(settings.url) == "http":
        if not send:
            raise InvalidInput("A server sends effects to GitHub by itself.", "Leave --no-send out.")
        return _open_remote(settings)
    service = open_local(settings, migrate=migrate)
    _give_series(service, settings, send=send)
    return service


def open_for_reading(settings: Settings) -> OpenedService | None:
    """A service on an existing store; None if there is no store yet. Reading never creates one."""
    if scheme_of(settings.url) == "http":
        return _open_remote(settings)
    service = open_existing(settings)
    if service is not None:
        _give_series(service, settings)
    return service


def open_lanes(settings: Settings, *, reaction: WorkReaction | None = None) -> OpenedLanes:
    """A service for holding lanes, on any store that the settings name.

    A store in git keeps with a run what it shows on GitHub, so that the next one can take it away.
    """
    if scheme_of(settings.url) != "git":
        return open_service(settings=settings)
    if reaction is None:
        return _open_git(settings)
    lanes = _open_git(settings, reaction=lambda: reaction.posted)
    reaction.previous_run = lanes.previous_run
    return lanes


def open_connection(settings: Settings, *, send: bool = True) -> Service:
    """A service for Python programs, on any store that the settings name. One in git serves lanes alone, and
    says so where more is wanted."""
    if scheme_of(settings.url) != "git":
        return open_service(settings=settings, send=send)
    from interlock.service.lanes_only import as_service  # noqa: PLC0415

    lanes = _open_git(settings)
    series = partial(_git_series, settings, lanes)
    known = partial(_series_repositories, lanes.series_notes)
    return as_service(lanes, series, known, name="The git store", hint=DATABASES)


def repair_lane(settings: Settings, lane: str, *, why: str) -> LaneView:
    """Rebuild a lane in git whose state cannot be read."""
    if scheme_of(settings.url) != "git":
        raise InvalidInput("Only lanes in git can be repaired.", "`interlock doctor` checks a database.")
    return _open_git(settings).mend(lane, why=why, by=settings.actor)


def orphaned_reactions(settings: Settings) -> list[PostedReaction]:
    """What dead runs still show on GitHub. A database does not know it."""
    if scheme_of(settings.url) != "git":
        return []
    with closing(_open_git(settings)) as lanes:
        return lanes.orphaned_reactions()


def series_checks(lanes: OpenedLanes) -> list[CheckView]:
    """What hinders series, for `doctor`. A server checks its own."""
    if lanes.series_notes is None:
        return []
    from interlock.github.series.series_note import checks  # noqa: PLC0415

    return checks(lanes.series_notes)


def beat_s(settings: Settings) -> float:
    """How often a holder asks its store for a cancel request: less often on a git remote."""
    return GIT_BEAT_S if scheme_of(settings.url) == "git" else DATABASE_BEAT_S


def _give_series(service: LocalService, settings: Settings, *, send: bool = True) -> None:
    service.series_operations.open_series = partial(_database_series, settings, service, send=send)
    service.series_operations.repositories = partial(_series_repositories, service.store.github)


def _series_repositories(notes: SeriesNotes) -> list[str]:
    from interlock.github.series.overview import repositories_of  # noqa: PLC0415

    return repositories_of(notes)


def _database_series(
    settings: Settings, service: LocalService, repository: str, *, send: bool = True
) -> AbstractContextManager[RepositorySeries]:
    from interlock.github.series.controller import open_on_database  # noqa: PLC0415

    return open_on_database(service, repository, settings, os.environ, send=send)


def _git_series(
    settings: Settings, lanes: GitLanes, repository: str
) -> AbstractContextManager[RepositorySeries]:
    from interlock.github.series.context import SeriesStore  # noqa: PLC0415
    from interlock.github.series.controller import open_controller  # noqa: PLC0415

    store = SeriesStore(lanes=lanes, notes=lanes.series_notes, mend=lanes.mend, at_once=lanes.at_once)
    return open_controller(store, repository, settings, os.environ)


def _open_remote(settings: Settings) -> OpenedService:
    from interlock.remote.service import connect  # noqa: PLC0415
    from interlock.settings.credentials import token_for  # noqa: PLC0415

    settings.check_store()
    token = token_for(settings.url, os.environ)
    return connect(settings.url, token, patience_s=settings.busy_timeout_s, outage=settings.outage)


def _open_git(
    settings: Settings, *, reaction: Callable[[], PostedReaction | None] = lambda: None
) -> GitLanes:
    from interlock.github.wiring import workflow_run_ended  # noqa: PLC0415
    from interlock.gitlanes.opening import open_git  # noqa: PLC0415
    from interlock.process.workplace import actions_run  # noqa: PLC0415

    own = actions_run(os.environ)
    return open_git(settings, actions=own, has_ended=workflow_run_ended(os.environ, own), reaction=reaction)
