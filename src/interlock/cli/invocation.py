"""One invocation of the command line: its global options, settings, output and service."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence, Sized
from contextlib import ExitStack, closing, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from interlock.cli import typer
from interlock.cli.output import Output, tell
from interlock.core.errors import NotFound
from interlock.core.record import replace
from interlock.core.store_outage import StoreOutage, waiting

if TYPE_CHECKING:
    from interlock.core.model import Sender
    from interlock.github.work_reaction import WorkReaction
    from interlock.service.contract import LaneService, Service
    from interlock.service.opening import OpenedLanes, OpenedService
    from interlock.settings import Settings, Withheld


class Invocation:
    """One per process; made by `main`, filled by the global options, handed to every command."""

    def __init__(self) -> None:
        self.out = Output()
        self.url: str | None = None
        #: False once a command has looked for a store, and there was none.
        self.has_store = True
        #: A warning about the data shown: the store is sealed.
        self.warning: str | None = None
        self.outage = StoreOutage(self._report_outage)
        self._outage_reported = False

    @cached_property
    def settings(self) -> Settings:
        from interlock import settings

        chosen = replace(settings.load(url=self.url), outage=self.outage)
        if ignored := [held for held in chosen.withheld if not held.replaced and held.setting != "url"]:
            tell(ignored_sentence(ignored))
        return chosen

    @contextmanager
    def service(self) -> Iterator[OpenedService]:
        """The service behind the chosen URL, closed at the end."""
        from interlock import app

        with closing(app.open_service(settings=self.settings)) as service:
            _silence_driver()
            yield service

    @contextmanager
    def reading(self, *, stand_in: bool = True) -> Iterator[OpenedService]:
        """The service for a command that only reads: it creates no store.

        Before the first write, an empty temporary store is used instead, unless the caller asks for something
        that must exist, or waits for events.
        """
        from interlock import app

        service = app.open_for_reading(self.settings)
        if service is None and not stand_in:
            raise NotFound(self._no_store(), "`interlock add` creates it.")
        with ExitStack() as stack:
            if service is None:
                import tempfile

                self.has_store = False
                place = stack.enter_context(tempfile.TemporaryDirectory(prefix="interlock-"))
                chosen = replace(self.settings, url=f"sqlite:///{place}/none.db", former=None)
                service = app.open_service(settings=chosen)
            stack.enter_context(closing(service))
            _silence_driver()
            if service.store is not None and (other := service.store.sealed_for()) is not None:
                self.warning = f"This store is sealed and its data is stale: it was copied to {other}."
                tell(f"{self.warning}\nPoint INTERLOCK_URL there.")
            yield service

    @contextmanager
    def watching(self) -> Iterator[OpenedService]:
        """The same for a command that keeps watching: once open, it waits for its store without limit.

        It ends when the reader of its output is gone, even if it has nothing to print.
        """
        from interlock.cli.reader import while_read

        with self.reading(stand_in=False) as service, while_read():
            self.outage.forever = True
            yield service

    @contextmanager
    def reading_lanes(self) -> Iterator[OpenedLanes]:
        """The same for commands that also read a store without a database."""
        from interlock.settings.store_url import scheme_of

        look = self.lanes if scheme_of(self.settings.url) == "git" else self.reading
        with look() as service:
            yield service

    def _report_outage(self, what: str | None) -> None:
        """Say once on standard error that the store is unreachable, and once that it answers again."""
        if what is None:
            tell("The store answers again.")
        elif not self._outage_reported:
            from interlock.settings.store_url import store_location

            up_to_s = None if self.outage.forever else self.settings.busy_timeout_s
            tell(waiting(what, up_to_s, place=store_location(self.settings)))
        self._outage_reported = what is not None

    def name_store(self, found: Sized) -> None:
        """Name the store if a listing for people found nothing in it."""
        if not found and not self.out.json:
            from interlock.settings.store_url import store_location

            where = f"Looked in {store_location(self.settings)}." if self.has_store else self._no_store()
            self.out.answer(None, where)

    def _no_store(self) -> str:
        from interlock.settings.store_url import store_location

        return f"There is no store yet: {store_location(self.settings)}."

    @contextmanager
    def lanes(self, *, reaction: WorkReaction | None = None) -> Iterator[OpenedLanes]:
        """The same for commands that only hold lanes: these work on a store without a database, too."""
        from interlock import app

        with closing(app.open_lanes(self.settings, reaction=reaction)) as lanes:
            _silence_driver()
            yield lanes

    @contextmanager
    def connection(self, *, send: bool = True) -> Iterator[Service]:
        """The service on any store. A store without a database refuses other operations."""
        from interlock import app

        with closing(app.open_connection(self.settings, send=send)) as service:
            _silence_driver()
            yield service


def mention_near_agent(service: Service, name: str | None) -> None:
    """Warn if the name of an unknown agent looks like a typo. It is accepted anyway."""
    if name is not None and (near := service.near_agent(name)) is not None:
        tell(f"No agent is called {name.strip()!r} yet; did you mean {near!r}?")


def caller_of(lanes: LaneService) -> Sender:
    """The author of the command: a person, or the agent of the run in INTERLOCK_RUN."""
    from interlock.core.model import A_PERSON
    from interlock.settings import own_run

    run = own_run(os.environ)
    return A_PERSON if run is None else lanes.sender_of(run)


def ignored_sentence(ignored: Sequence[Withheld]) -> str:
    """The settings of a repository's files that are ignored."""
    files = " and ".join(dict.fromkeys(str(held.path) for held in ignored))
    names = ", ".join(dict.fromkeys(held.setting for held in ignored))
    return f"Ignored until you trust {files} (interlock trust): {names}."


def _silence_driver() -> None:
    """Keep the driver's log of an interrupted query off the terminal; our own error is enough."""
    if "psycopg" in sys.modules:
        import logging

        logging.getLogger("psycopg").setLevel(logging.CRITICAL)


def invocation_of(ctx: typer.Context) -> Invocation:
    """The invocation that `main` put into the root context."""
    call = ctx.find_root().obj
    assert isinstance(call, Invocation)
    return call
