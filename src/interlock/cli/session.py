"""What one invocation of the command knows: the options that hold for every command, and its service."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import typer

from interlock.cli.output import Output

if TYPE_CHECKING:
    from interlock.service.contract import LaneService, Service
    from interlock.settings import Settings


@dataclass
class Session:
    """One per process; made by `main`, filled by the global options, handed to every command."""

    out: Output = field(default_factory=Output)
    url: str | None = None

    @cached_property
    def settings(self) -> Settings:
        from interlock import settings

        return settings.load(url=self.url)

    @contextmanager
    def service(self) -> Iterator[Service]:
        """The service behind the chosen URL, closed at the end."""
        from interlock import app

        service = app.open_service(settings=self.settings)
        _hush_driver()
        try:
            yield service
        finally:
            service.close()

    @contextmanager
    def lanes(self) -> Iterator[LaneService]:
        """The same for commands that only hold lanes: these work on a store without a database, too."""
        from interlock import app

        lanes = app.open_lanes(self.settings)
        _hush_driver()
        try:
            yield lanes
        finally:
            lanes.close()


def _hush_driver() -> None:
    """What the driver logs of an interrupted query is not for the terminal; our errors say what matters."""
    if "psycopg" in sys.modules:
        import logging

        logging.getLogger("psycopg").setLevel(logging.CRITICAL)


def session_of(ctx: typer.Context) -> Session:
    """The session `main` put into the root context."""
    session = ctx.find_root().obj
    assert isinstance(session, Session)
    return session
