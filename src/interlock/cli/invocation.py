"""One invocation of the command line: its global options, settings, output and service."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import typer

from interlock.cli.output import Output
from interlock.core.model import A_PERSON, Sender
from interlock.settings import working_for

if TYPE_CHECKING:
    from interlock.service.contract import LaneService, Service
    from interlock.settings import Settings


@dataclass
class Invocation:
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

        with closing(app.open_service(settings=self.settings)) as service:
            _hush_driver()
            yield service

    @contextmanager
    def lanes(self) -> Iterator[LaneService]:
        """The same for commands that only hold lanes: these work on a store without a database, too."""
        from interlock import app

        with closing(app.open_lanes(self.settings)) as lanes:
            _hush_driver()
            yield lanes


def caller_of(lanes: LaneService) -> Sender:
    """Who types: a person, or the agent of the run in INTERLOCK_RUN."""
    run = working_for(os.environ)
    return A_PERSON if run is None else lanes.sender_of(run)


def _hush_driver() -> None:
    """Keep the driver's log of an interrupted query off the terminal; our own error is enough."""
    if "psycopg" in sys.modules:
        import logging

        logging.getLogger("psycopg").setLevel(logging.CRITICAL)


def invocation_of(ctx: typer.Context) -> Invocation:
    """The invocation that `main` put into the root context."""
    call = ctx.find_root().obj
    assert isinstance(call, Invocation)
    return call
