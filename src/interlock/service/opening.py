"""A service on the database that the settings name."""

from __future__ import annotations

from typing import Protocol

from interlock.service.contract import LaneService, Service
from interlock.service.local import LocalService
from interlock.settings import Settings
from interlock.store import opening
from interlock.store.port import Store
from interlock.store.series_notes import SeriesNotes


class OpenedLanes(LaneService, Protocol):
    """Lanes opened by this process, with access to their store."""

    @property
    def series_notes(self) -> SeriesNotes | None:
        """The notes about series; None behind a server."""


class OpenedService(OpenedLanes, Service, Protocol):
    """A service opened by this process, with its store."""

    @property
    def store(self) -> Store | None:
        """The database, for processes that can reach it; None behind a server."""


def open_local(settings: Settings, *, migrate: bool = True) -> LocalService:
    """A service on the database. An empty database gets its schema at once, unless `migrate` is false.

    An *older* schema is always refused: other machines may still use it, so an operator decides when to
    upgrade (`interlock migrate`).
    """
    return on_store(
        settings, opening.open_store(settings, migrate=True) if migrate else opening.open_current(settings)
    )


def open_existing(settings: Settings) -> LocalService | None:
    """A service on an existing store; None if there is no store yet. Reading never creates one."""
    store = opening.open_existing(settings)
    return None if store is None else on_store(settings, store)


def on_store(settings: Settings, store: Store) -> LocalService:
    """A service on an open store, with the settings for waiting, retention and policies."""
    return LocalService(
        store, poll_s=settings.poll_s, retention_s=settings.retention_s, policies=settings.policies
    )
