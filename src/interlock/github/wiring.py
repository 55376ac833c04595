"""Opens the parts between GitHub and a store: the intake, the reconciler, the outbox relay, the start check.

Each uses the token in the environment. Without a token, GitHub's client is not imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from interlock.core.errors import LeaseLost
from interlock.core.row import NamedTuple
from interlock.github.tokens import is_given
from interlock.service.opening import open_local
from interlock.service.spans import open_spans
from interlock.settings import Settings
from interlock.settings.store_url import scheme_of
from interlock.store.opening import needs_database, open_existing

if TYPE_CHECKING:
    from interlock.github.client import GitHub
    from interlock.github.intake import Intake
    from interlock.github.limits import Limits
    from interlock.github.number_views import NumberView
    from interlock.github.outbox import OutboxRelay
    from interlock.github.reconciler import Reconciler
    from interlock.github.traces import Traces
    from interlock.process.workplace import ActionsRun
    from interlock.service.contract import LeaseView
    from interlock.service.local import LocalService
    from interlock.service.opening import OpenedService
    from interlock.service.spans import Spans
    from interlock.store.port import Store

#: The number of newest runs whose accounts are read.
ACCOUNTS_OF = 200
#: The time-out for asking GitHub whether the workflow run that holds a lane in git has ended.
ENDED_TIMEOUT_S = 5.0


class Shared(NamedTuple):
    """The shared state of one process's parts: the rate limits of its token, and the recorder of spans."""

    limits: Limits | None = None
    spans: Spans | None = None

    def traces(self, store: Store) -> Traces | None:
        """Records spans of deliveries and effects, if the environment asks for traces."""
        if self.spans is None:
            return None
        from interlock.github.traces import Traces  # noqa: PLC0415

        return Traces(store, self.spans, os.environ)


@contextmanager
def open_intake(settings: Settings, shared: Shared | None = None) -> Iterator[Intake]:
    """Turns deliveries into items. With a token it reads the facts from GitHub, else from the delivery."""
    with ExitStack() as opened:
        yield _intake(settings, opened, shared, asks=is_given(os.environ))[0]


@contextmanager
def open_reconciler(settings: Settings, shared: Shared | None = None) -> Iterator[Reconciler]:
    """Finds missed deliveries. It needs a token."""
    from interlock.github.reconciler import Reconciler  # noqa: PLC0415

    with ExitStack() as opened:
        intake, service, github = _intake(settings, opened, shared, asks=True)
        assert github is not None
        yield Reconciler(intake, service, service.store.github, github)


def _intake(
    settings: Settings, opened: ExitStack, shared: Shared | None, *, asks: bool
) -> tuple[Intake, LocalService, GitHub | None]:
    from interlock.github.intake import Intake  # noqa: PLC0415

    shared = shared or Shared(spans=opened.enter_context(open_spans(os.environ)))
    service = open_local(settings)
    opened.callback(service.close)
    store = service.store
    traces = shared.traces(store)
    if not asks:
        return Intake(service, store, None, types=settings.types, traces=traces), service, None
    from interlock.github import client, database_cache, lookup  # noqa: PLC0415

    cache = database_cache.StoredAnswers(store.github)
    github = opened.enter_context(client.from_environment(os.environ, cache=cache, limits=shared.limits))
    reader = lookup.Reader(github)
    return Intake(service, store, reader, types=settings.types, traces=traces), service, github


@contextmanager
def open_outbox_relay(settings: Settings, shared: Shared | None = None) -> Iterator[OutboxRelay]:
    """Sends queued effects to GitHub with the token in the environment."""
    from interlock.github import client, outbox, status_publisher  # noqa: PLC0415

    with ExitStack() as opened:
        shared = shared or Shared(spans=opened.enter_context(open_spans(os.environ)))
        asking = client.from_environment(os.environ, patience_s=outbox.PATIENCE_S, limits=shared.limits)
        github = opened.enter_context(asking)
        service = open_local(settings)
        opened.callback(service.close)
        store = service.store
        shown, traces = status_publisher.StatusPublisher(service, store), shared.traces(store)
        yield outbox.OutboxRelay(github, store.github.outbox, publisher=shown, traces=traces)


@contextmanager
def start_check(
    service: OpenedService,
    settings: Settings,
    tell: Callable[[str], None],
    *,
    patience_s: float | None = None,
    limits: Limits | None = None,
) -> Iterator[Callable[[LeaseView], str | None]]:
    """Checks on GitHub, just before a run starts, whether it is still wanted. Without a token every run
    starts."""
    store = service.store
    if store is None:  # the server has the token
        yield partial(_unwanted, service)
        return
    if not is_given(os.environ):
        yield lambda _: None
        return
    from interlock.github import client, database_cache, dispatch, intake, lookup  # noqa: PLC0415

    cache = database_cache.StoredAnswers(store.github)
    waits_s = client.PATIENCE_S if patience_s is None else patience_s
    asking = client.from_environment(os.environ, cache=cache, patience_s=waits_s, limits=limits)
    with asking as github:
        reader = lookup.Reader(github)
        taking = intake.Intake(service, store, reader, types=settings.types)
        yield dispatch.StartCheck(service, store.github, reader, taking, tell)


def _unwanted(service: OpenedService, lease: LeaseView) -> str | None:
    """Why a server refuses the start of a run."""
    try:
        return service.unwanted(lease.run)
    except LeaseLost as error:
        return error.sentence


def number_view_of(service: OpenedService, repository: str | None, number: int) -> NumberView:
    """The view of an issue or pull request, with its queued effects. It needs a database."""
    from interlock.github.number_views import number_view  # noqa: PLC0415

    if service.store is None:
        raise needs_database()
    return number_view(service, service.store.github, repository, number)


def accounts_of_runs(settings: Settings) -> list[str]:
    """The GitHub accounts that the newest runs of a database write with. A server does not reveal them."""
    if scheme_of(settings.url) in ("git", "http"):
        return []
    store = open_existing(settings)
    if store is None:
        return []
    with closing(store):
        return store.github.accounts(ACCOUNTS_OF)


def workflow_run_ended(environ: Mapping[str, str], own: ActionsRun | None) -> Callable[[ActionsRun], bool]:
    """Whether a workflow run has ended. Without a token or an answer of GitHub, it counts as running.

    `own` is the run of this process.
    """
    ask: Callable[[ActionsRun], bool] | None = None

    def has_ended(run: ActionsRun) -> bool:
        nonlocal ask
        if run == own:
            return False
        if ask is None:
            if not is_given(environ):
                return False
            from interlock.github import cache, client, workflow_runs  # noqa: PLC0415

            kept = cache.MemoryCache()
            ask = workflow_runs.AttemptEnds(
                lambda: client.from_environment(
                    environ, timeout_s=ENDED_TIMEOUT_S, patience_s=0.0, cache=kept
                )
            ).has_ended
        return ask(run)

    return has_ended
