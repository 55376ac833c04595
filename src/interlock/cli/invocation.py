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
from interlock.core.absence import Absence, waiting
from interlock.core.errors import NotFound
from interlock.core.record import replace

if TYPE_CHECKING:
    from interlock.core.model import Sender
    from interlock.github.eyes import Eyes
    from interlock.service.contract import LaneService, Service
    from interlock.settings import Settings, Withheld


class Invocation:
    """One per process; made by `main`, filled by the global options, handed to every command."""

    def __init__(self) -> None:
        self.out = Output()
        self.url: str | None = None
        #: False once a command has looked for a store, and there was none.
        self.has_store = True
        #: What is wrong with what a command shows: the store is sealed.
        self.warning: str | None = None
        self.absence = Absence(self._hear)
        self._away = False

    @cached_property
    def settings(self) -> Settings:
        from interlock import settings

        chosen = replace(settings.load(url=self.url), absence=self.absence)
        if ignored := [held for held in chosen.withheld if not held.replaced and held.setting != "url"]:
            tell(ignored_sentence(ignored))
        return chosen

    @contextmanager
    def service(self) -> Iterator[Service]:
        """The service behind the chosen URL, closed at the end."""
        from interlock import app

        with closing(app.open_service(settings=self.settings)) as service:
            _hush_driver()
            yield service

    @contextmanager
    def reading(self, *, stand_in: bool = True) -> Iterator[Service]:
        """The service for a command that only looks: it makes no store.

        Before the first write an empty store in a temporary directory stands in, unless the caller asks for
        something that must be there, or waits for what happens there.
        """
        from interlock import app

        service = app.open_for_reading(self.settings)
        if service is None and not stand_in:
            raise NotFound(self._no_store(), "`interlock add` makes it.")
        with ExitStack() as stack:
            if service is None:
                import tempfile

                self.has_store = False
                place = stack.enter_context(tempfile.TemporaryDirectory(prefix="interlock-"))
                chosen = replace(self.settings, url=f"sqlite:///{place}/none.db", former=None)
                service = app.open_service(settings=chosen)
            stack.enter_context(closing(service))
            _hush_driver()
            if (other := app.sealed_for(service)) is not None:
                self.warning = f"This store is sealed, and what it shows is old: it was copied to {other}."
                tell(f"{self.warning}\nPoint INTERLOCK_URL there.")
            yield service

    @contextmanager
    def watching(self) -> Iterator[Service]:
        """The same for a command that goes on looking: once open, it waits for its store without end.

        It ends when the reader of its output does, also if it has nothing to print.
        """
        from interlock.cli.reader import while_read

        with self.reading(stand_in=False) as service, while_read():
            self.absence.forever = True
            yield service

    @contextmanager
    def reading_lanes(self) -> Iterator[LaneService]:
        """The same for commands that also look at a store without a database."""
        from interlock import app

        look = self.lanes if app.scheme_of(self.settings.url) == "git" else self.reading
        with look() as service:
            yield service

    def _hear(self, what: str | None) -> None:
        """Say once that the store is away, and once that it is back; standard output is for the answer."""
        if what is None:
            tell("The store answers again.")
        elif not self._away:
            from interlock import app

            up_to_s = None if self.absence.forever else self.settings.busy_timeout_s
            tell(waiting(what, up_to_s, place=app.place_of(self.settings)))
        self._away = what is not None

    def name_store(self, found: Sized) -> None:
        """Say which store a listing for people looked at, if it found nothing there."""
        if not found and not self.out.json:
            from interlock import app

            where = f"Looked in {app.place_of(self.settings)}." if self.has_store else self._no_store()
            self.out.answer(None, where)

    def _no_store(self) -> str:
        from interlock import app

        return f"There is no store yet: {app.place_of(self.settings)}."

    @contextmanager
    def lanes(self, *, eyes: Eyes | None = None) -> Iterator[LaneService]:
        """The same for commands that only hold lanes: these work on a store without a database, too."""
        from interlock import app

        with closing(app.open_lanes(self.settings, eyes=eyes)) as lanes:
            _hush_driver()
            yield lanes

    @contextmanager
    def connection(self) -> Iterator[Service]:
        """The service on any store; one without a database says so where more is wanted."""
        from interlock import app

        with closing(app.open_connection(self.settings)) as service:
            _hush_driver()
            yield service


def mention_near_agent(service: Service, name: str | None) -> None:
    """Say so if a name that no agent has yet looks like a typo. It is taken all the same."""
    if name is not None and (near := service.near_agent(name)) is not None:
        tell(f"No agent is called {name.strip()!r} yet; did you mean {near!r}?")


def caller_of(lanes: LaneService) -> Sender:
    """Who types: a person, or the agent of the run in INTERLOCK_RUN."""
    from interlock.core.model import A_PERSON
    from interlock.settings import working_for

    run = working_for(os.environ)
    return A_PERSON if run is None else lanes.sender_of(run)


def ignored_sentence(ignored: Sequence[Withheld]) -> str:
    """What a repository's files choose in vain."""
    files = " and ".join(dict.fromkeys(str(held.path) for held in ignored))
    names = ", ".join(dict.fromkeys(held.setting for held in ignored))
    return f"Ignored until you trust {files} (interlock trust): {names}."


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
