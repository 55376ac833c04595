"""The composition root: the only module that knows which stores exist. It opens a service on one of them.

Each store is imported only when its scheme is used: the PostgreSQL driver takes 130 ms to import, and a
command on SQLite must not pay that.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock import settings as choices
from interlock.core import tracing
from interlock.core.continuity import Ancestor, Lineage
from interlock.core.errors import InterlockError, InvalidInput, LeaseLost, StoreUnavailable
from interlock.core.record import Record, replace
from interlock.core.row import NamedTuple
from interlock.service.local import LocalService
from interlock.settings import Settings, places, sqlite_path
from interlock.store import migrate as schema

if TYPE_CHECKING:
    from interlock.github.client import GitHub
    from interlock.github.eyes import Eyes, Message
    from interlock.github.intake import Intake
    from interlock.github.limits import Limits
    from interlock.github.outbox import Sender
    from interlock.github.reconcile import Reconciler
    from interlock.github.series.keeper import Keeper
    from interlock.github.series.overview import Overview
    from interlock.github.standing import NumberView
    from interlock.github.traces import Traces
    from interlock.github.workflow_runs import Endings
    from interlock.gitlanes.lane import HasEnded
    from interlock.gitlanes.notes import GitNotes
    from interlock.gitlanes.service import GitLanes
    from interlock.process.sign import Before, Sign
    from interlock.process.workplace import ActionsRun
    from interlock.remote.series import ServedSeries
    from interlock.service.contract import CheckView, LaneService, LaneView, LeaseView, Service
    from interlock.service.pruning import Pruned
    from interlock.service.series import Acquired, Cycle, SeriesView
    from interlock.service.spans import Spans
    from interlock.store.copying import Copied, End
    from interlock.store.port import Store
    from interlock.store.postgres.store import PostgresStore
    from interlock.store.series_port import SeriesNotes
    from interlock.store.sqlite.store import SqliteStore

DATABASE_BEAT_S, GIT_BEAT_S = 2.0, 30.0
#: How long a look at a lane in git waits for GitHub's word on its holder.
ENDED_TIMEOUT_S = 5.0
#: How many of a lane's newest superseded items are looked at for the one that gave way to a run.
SUPERSEDED_LOOKED_AT = 10
#: Of how many of the newest runs the accounts are known.
ACCOUNTS_OF = 200
#: How many series are checked.
SERIES_CHECKED = 1_000
#: How often a server does each duty.
SWEEP_S, DELIVERIES_S, NOTICES_S, ANSWERS_S, EFFECTS_S, RECONCILE_S = 1.0, 5.0, 5.0, 60.0, 5.0, 300.0
METRICS_S, TRACES_S = 5.0, 2.0
EFFECTS_AT_ONCE = 100
_DATABASES = "Use sqlite:///path/to/file.db or postgresql://user@host/database."
_FORMS = (
    "Use sqlite:///path/to/file.db, postgresql://user@host/database,"
    " https://host:port for a server, or git+https://host/name.git for lanes alone."
)
_SCHEMES = {
    "sqlite": "sqlite",
    "postgres": "postgresql",
    "postgresql": "postgresql",
    "http": "http",
    "https": "http",
    "git+file": "git",
    "git+http": "git",
    "git+https": "git",
    "git+ssh": "git",
}


class Schema(Record):
    """The schema of a database."""

    backend: str
    #: The version it has now.
    version: int
    #: How many migrations ran just now, and how many are still missing.
    applied: int
    missing: int
    #: The SQL of the missing ones.
    sql: str
    #: Where the store is, if it was moved just now.
    moved_to: str | None = None


def open_service(
    url: str | None = None, *, migrate: bool = True, settings: Settings | None = None
) -> Service:
    """A service on the store that `url`, the environment or the configuration file names.

    An empty database gets its schema at once, unless `migrate` is false. An *older* schema is always refused:
    other machines may still use it, so an operator decides when to upgrade (`interlock migrate`).
    """
    settings = settings or choices.load(url=url)
    if scheme_of(settings.url) == "http":
        return _open_remote(settings)
    store = _open_store(settings, migrate=migrate)
    if not migrate:
        try:
            schema.require_current(store.database.backend, store.database.applied())
        except BaseException:
            store.close()
            raise
    return _served(settings, store)


def _served(settings: Settings, store: Store) -> LocalService:
    """A service on a store, which keeps series too."""
    service = LocalService(
        store, poll_s=settings.poll_s, retention_s=settings.retention_s, policies=settings.policies
    )
    service.keeper = KeptSeries(settings)
    return service


def open_for_reading(settings: Settings) -> Service | None:
    """A service on an existing store; None if there is no store yet. Reading never creates one."""
    if scheme_of(settings.url) == "http":
        return _open_remote(settings)
    if scheme_of(settings.url) == "sqlite":
        settings.check_store()
        path, former = sqlite_path(settings.url, settings.root), settings.former
        if not path.exists() and (former is None or not former.exists()):
            if not _is_ours(path.parent, settings.home):
                _check_directory(path.parent)
            return None
    store = _open_store(settings, migrate=False)
    try:
        applied = store.database.applied()
        if applied:
            schema.require_current(store.database.backend, applied)
            return _served(settings, store)
    except BaseException:
        store.close()
        raise
    store.close()
    return None


def sealed_for(service: Service) -> str | None:
    """Where the store behind a service was copied to, if it is sealed. Of a server nobody is told."""
    return service.store.sealed_for() if isinstance(service, LocalService) else None


@contextmanager
def open_intake(settings: Settings, shared: Shared | None = None) -> Iterator[Intake]:
    """The way in for what GitHub sends. With a token in the environment GitHub is asked, else not."""
    from interlock.github.tokens import is_given  # noqa: PLC0415  (for few commands)

    with ExitStack() as opened:
        yield _intake(settings, opened, shared, asks=is_given(os.environ))[0]


@contextmanager
def open_reconciler(settings: Settings, shared: Shared | None = None) -> Iterator[Reconciler]:
    """What makes up for deliveries that never came. It needs a token."""
    from interlock.github.reconcile import Reconciler  # noqa: PLC0415  (for few commands)

    with ExitStack() as opened:
        intake, service, github = _intake(settings, opened, shared, asks=True)
        assert github is not None
        yield Reconciler(intake, service, service.store.github, github)


def _intake(
    settings: Settings, opened: ExitStack, shared: Shared | None, *, asks: bool
) -> tuple[Intake, LocalService, GitHub | None]:
    from interlock.github.intake import Intake  # noqa: PLC0415

    shared = shared or Shared(spans=opened.enter_context(open_spans()))
    store = _open_store(settings, migrate=True)
    service = LocalService(
        store, poll_s=settings.poll_s, retention_s=settings.retention_s, policies=settings.policies
    )
    opened.callback(service.close)
    traces = shared.traces(store)
    if not asks:
        return Intake(service, store, None, types=settings.types, traces=traces), service, None
    from interlock.github import answers, client, reading  # noqa: PLC0415

    cache = answers.StoredAnswers(store.github)
    github = opened.enter_context(client.from_environment(os.environ, cache=cache, limits=shared.limits))
    reader = reading.Reader(github)
    return Intake(service, store, reader, types=settings.types, traces=traces), service, github


@contextmanager
def open_spans(tell: Callable[[str], None] = lambda _: None) -> Iterator[Spans | None]:
    """Where spans go, if the environment asks for traces. If they cannot be made, `tell` hears why."""
    if not tracing.wanted(os.environ):
        yield None
        return
    from interlock.service.spans import Spans  # noqa: PLC0415  (only whoever traces pays for it)

    try:
        spans = Spans(os.environ)
    except InvalidInput as error:
        tell(str(error))
        yield None
        return
    with closing(spans):
        yield spans


class Shared(NamedTuple):
    """What the parts of one process share: what GitHub allows its token, and where spans go."""

    limits: Limits | None = None
    spans: Spans | None = None

    def traces(self, store: Store) -> Traces | None:
        """What records how GitHub and a store deal with each other, if somebody traces."""
        if self.spans is None:
            return None
        from interlock.github.traces import Traces  # noqa: PLC0415

        return Traces(store, self.spans, os.environ)


#: Keeps a delivery of an event, with its id and body; false if it came before.
Keep = Callable[[str, str, bytes], bool]
#: How much GitHub still allows: by resource, requests left and requests an hour.
Allowances = Callable[[], Mapping[str, tuple[int, int]]]


class Upkeep(NamedTuple):
    """Something that a server does again and again."""

    name: str
    every_s: float
    work: Callable[[], object]


@contextmanager
def open_upkeep(
    settings: Settings,
    service: Service,
    limits: Limits,
    notify: Callable[[], object],
    tell: Callable[[str], None] = lambda _: None,
    left: Callable[[str, str, str], None] = lambda *_: None,
) -> Iterator[tuple[list[Upkeep], Keep, Allowances]]:
    """What a store needs somebody for: sweeping and notices, and as far as there is a token, GitHub. And what
    keeps a delivery, and tells how much GitHub still allows. `tell` hears why there are no traces, or not
    all, `left` of each delivery that waits, its event and why. `limits` are those of the token with which all
    parts of the process ask."""
    from interlock.github.tokens import is_given  # noqa: PLC0415  (for one command)

    assert isinstance(service, LocalService)
    service.keeper = KeptSeries(settings, limits)
    with ExitStack() as opened:
        shared = Shared(limits, opened.enter_context(open_spans(tell)))
        intake = opened.enter_context(open_intake(settings, shared))
        intake.left = left
        found = [
            Upkeep("sweeper", SWEEP_S, service.sweep),
            Upkeep("deliveries", DELIVERIES_S, intake.sweep_all),
            Upkeep("notices", NOTICES_S, notify),
            Upkeep("answers", ANSWERS_S, service.forget_requests),
            Upkeep("metrics", METRICS_S, service.count_history),
        ]
        if is_given(os.environ):
            sender = opened.enter_context(open_sender(settings, shared))
            reconciler = opened.enter_context(open_reconciler(settings, shared))
            found += [
                Upkeep("effects", EFFECTS_S, lambda: sender.send(EFFECTS_AT_ONCE)),
                Upkeep("reconcile", RECONCILE_S, lambda: list(reconciler.look_at_all())),
                Upkeep("series", RECONCILE_S, lambda: keep_series(settings, reconciler.followed(), limits)),
            ]
        keep: Keep = intake.keep
        if shared.spans is not None:
            found.append(_telling(service, shared.spans, tell))
            keep = _traced(intake.keep, service.store, shared)
        yield found, keep, limits.left


def _telling(service: LocalService, spans: Spans, tell: Callable[[str], None]) -> Upkeep:
    """The duty that makes spans of the history."""
    from interlock.service.following import Following  # noqa: PLC0415

    return Upkeep("traces", TRACES_S, Following(service.store, spans, os.environ, tell).follow)


def _traced(keep: Keep, store: Store, shared: Shared) -> Keep:
    """Keeps a delivery, and records that it came."""
    traces = shared.traces(store)
    assert traces is not None

    def traced(event: str, delivery: str, body: bytes) -> bool:
        begun_us = time.time_ns() // 1000
        new = keep(event, delivery, body)
        traces.received(delivery, event, begun_us, new=new)
        return new

    return traced


def check_sessions(service: Service) -> None:
    """`StoreUnavailable` if what is between a service and its database does not let a server work."""
    assert isinstance(service, LocalService)
    service.store.database.check_sessions()  # type: ignore[attr-defined]


def load_statements(service: Service) -> None:
    """Read every statement of a service's store now."""
    assert isinstance(service, LocalService)
    service.store.database.sql.load()  # type: ignore[attr-defined]


def probe(service: Service) -> None:
    """Raise unless the store of a service can be written now."""
    assert isinstance(service, LocalService)
    service.store.database.probe()  # type: ignore[attr-defined]


def missing_migrations(service: Service) -> int:
    """How many migrations the store of a service still needs; asks the database."""
    assert isinstance(service, LocalService)
    database = service.store.database  # type: ignore[attr-defined]
    return len(schema.pending(database.backend, database.applied()))


def _unwanted(service: Service, lease: LeaseView) -> str | None:
    """Why a server says that a run must not start."""
    try:
        return service.unwanted(lease.run)
    except LeaseLost as error:
        return error.sentence


@contextmanager
def last_look(
    service: Service,
    settings: Settings,
    tell: Callable[[str], None],
    *,
    patience_s: float | None = None,
    limits: Limits | None = None,
) -> Iterator[Callable[[LeaseView], str | None]]:
    """Whether a run is still wanted, asked just before it starts. Without a token every run is."""
    from interlock.github.tokens import is_given  # noqa: PLC0415  (for few commands)

    if not isinstance(service, LocalService):  # the server has the token
        yield partial(_unwanted, service)
        return
    if not is_given(os.environ):
        yield lambda _: None
        return
    from interlock.github import answers, client, dispatch, intake, reading  # noqa: PLC0415

    store = service.store.github
    cache = answers.StoredAnswers(store)
    waits_s = client.PATIENCE_S if patience_s is None else patience_s
    asking = client.from_environment(os.environ, cache=cache, patience_s=waits_s, limits=limits)
    with asking as github:
        reader = reading.Reader(github)
        way_in = intake.Intake(service, service.store, reader, types=settings.types)
        yield dispatch.LastLook(service, store, reader, way_in, tell)


@contextmanager
def open_sender(settings: Settings, shared: Shared | None = None) -> Iterator[Sender]:
    """Who sends what is owed to GitHub, in the name of the token in the environment."""
    from interlock.github import client, outbox, showing  # noqa: PLC0415  (for one command)

    with ExitStack() as opened:
        shared = shared or Shared(spans=opened.enter_context(open_spans()))
        asking = client.from_environment(os.environ, patience_s=outbox.PATIENCE_S, limits=shared.limits)
        github = opened.enter_context(asking)
        store = _open_store(settings, migrate=True)
        service = LocalService(
            store, poll_s=settings.poll_s, retention_s=settings.retention_s, policies=settings.policies
        )
        opened.callback(service.close)
        shown, traces = showing.Showing(service, store), shared.traces(store)
        yield outbox.Sender(github, store.github.outbox, showing=shown, traces=traces)


class KeptSeries:
    """Keeps series on the store that the settings name, for whoever has a service on it: `SeriesService`."""

    def __init__(self, settings: Settings, limits: Limits | None = None) -> None:
        self._settings, self._limits = settings, limits

    def _keeper(self, repository: str) -> AbstractContextManager[Keeper | ServedSeries]:
        return open_series(self._settings, repository, limits=self._limits)

    def series(self, repository: str, *, series: str | None = None) -> list[SeriesView]:
        with open_overview(self._settings, repository) as overview:
            return overview.status([] if series is None else [overview.named(series)])

    def series_metrics(self, repository: str) -> dict[str, Any]:
        with open_overview(self._settings, repository) as overview:
            return overview.metrics()

    def acquire_issue(self, repository: str, issue: int, *, assign: str | None = None) -> Acquired:
        with self._keeper(repository) as keeper:
            return keeper.acquire(issue, login=assign)

    def release_issue(self, repository: str, issue: int, *, why: str = "") -> Cycle:
        with self._keeper(repository) as keeper:
            return keeper.release(issue, why=why)

    def promote_series(self, repository: str, series: str, *, force: bool = False, why: str = "") -> Cycle:
        with self._keeper(repository) as keeper:
            return keeper.promote(keeper.named(series), force=force, why=why)

    def reconcile_series(self, repository: str, *, series: Sequence[str] = ()) -> list[Cycle]:
        with self._keeper(repository) as keeper:
            return keeper.reconcile([keeper.named(each) for each in series])

    def rebuild_series(self, repository: str, series: str) -> Cycle:
        with self._keeper(repository) as keeper:
            return keeper.rebuild(keeper.named(series))


@contextmanager
def open_series(
    settings: Settings, repository: str, *, send: bool = True, limits: Limits | None = None
) -> Iterator[Keeper | ServedSeries]:
    """Who keeps the series of a repository, in the name of the token in the environment.

    With a database what is to be done on GitHub is owed, and sent at once if `send`; without one it is done.
    A server does all of it, with its own token and its own settings.
    """
    if scheme_of(settings.url) == "http":
        if not send:
            raise InvalidInput("A server sends by itself what it owes to GitHub.", "Leave --no-send out.")
        with _open_served(settings, repository) as served:
            yield served
        return
    from interlock.github import answers, client  # noqa: PLC0415  (for few commands)
    from interlock.github.series import acting, choosing, looking  # noqa: PLC0415
    from interlock.github.series.cycle import Context  # noqa: PLC0415
    from interlock.github.series.keeper import Keeper  # noqa: PLC0415

    rules = choosing.rules_of(settings)
    with ExitStack() as opened:
        if scheme_of(settings.url) == "git":
            lanes, notes = _git_series(settings, opened)
            github = opened.enter_context(client.from_environment(os.environ, limits=limits))
            found = looking.find(github, repository)
            does: acting.Acting = acting.Direct(github, found)
            context = Context(
                lanes=lanes,
                notes=notes,
                github=github,
                repository=found,
                rules=rules,
                acting=does,
                authors=looking.Authors(github, found),
                lane_name=found.name.lower(),
                mend=lanes.mend,
                at_once=lanes.at_once,
                counts=lambda: lanes.at_once().counts,
            )
        else:
            store = _open_store(settings, migrate=True)
            service = LocalService(
                store, poll_s=settings.poll_s, retention_s=settings.retention_s, policies=settings.policies
            )
            opened.callback(service.close)
            cache = answers.StoredAnswers(store.github)
            github = opened.enter_context(client.from_environment(os.environ, cache=cache, limits=limits))
            found = looking.find(github, repository)
            context = Context(
                lanes=service,
                notes=store.github,
                github=github,
                repository=found,
                rules=rules,
                acting=acting.Owed(store.github.outbox, found, send, github),
                authors=looking.Authors(github, found),
                lane_name=store.github.repository(found.id, found.name).lane_name,
            )
        yield Keeper(context)


def _git_series(settings: Settings, opened: ExitStack) -> tuple[GitLanes, GitNotes]:
    from interlock.gitlanes.notes import GitNotes  # noqa: PLC0415

    lanes = _open_git(settings)
    opened.callback(lanes.close)
    return lanes, GitNotes(lanes.remote)


def keep_series(
    settings: Settings, repositories: Iterable[str], limits: Limits | None = None
) -> dict[str, list[Cycle]]:
    """Reconcile the series of repositories in which `series reconcile` has run before.

    All are tried before the first failure is raised.
    """
    found, failed = {}, list[InterlockError]()
    for repository in repositories:
        try:
            with _open_overview(settings, repository) as overview:
                begun = bool(overview.pages())
            if begun:
                with open_series(settings, repository, limits=limits) as keeper:
                    found[repository] = keeper.reconcile()
        except InterlockError as error:  # of this repository alone
            failed.append(error)
    if failed:
        raise failed[0]
    return found


def keep_series_of(settings: Settings, event: str, body: bytes) -> list[Cycle]:
    """Reconcile the series that a delivery is about, if it is about one and a token is there to ask with."""
    from interlock.github.series.hearing import repository_of  # noqa: PLC0415  (for few commands)
    from interlock.github.tokens import is_given  # noqa: PLC0415

    repository = repository_of(event, body)
    if repository is None or not is_given(os.environ):
        return []
    return keep_series(settings, [repository]).get(repository, [])


def series_checks(lanes: LaneService) -> list[CheckView]:
    """What hinders series: an assignment that GitHub does not take, say. Nothing if no series is kept."""
    from interlock.service.contract import CheckView  # noqa: PLC0415

    notes: SeriesNotes
    if isinstance(lanes, LocalService):
        notes = lanes.store.github
    else:
        from interlock.gitlanes.notes import GitNotes  # noqa: PLC0415
        from interlock.gitlanes.service import GitLanes  # noqa: PLC0415

        if not isinstance(lanes, GitLanes):
            return []
        notes = GitNotes(lanes.remote)
    kept = notes.notes("", SERIES_CHECKED)
    if not kept:
        return []
    from interlock.github.series.notebook import page_of, problems_of  # noqa: PLC0415

    now_s = time.time()
    problems = [f"{note.lane}: {each}" for note in kept for each in problems_of(page_of(note), now_s)]
    return [
        CheckView(
            name="series",
            ok=not problems,
            detail=" ".join(problems[:5]) if problems else f"Series: {len(kept)}; nothing hinders them.",
            mend="See interlock series status; interlock github send --again sends once more."
            if problems
            else "",
        )
    ]


@contextmanager
def _open_served(settings: Settings, repository: str) -> Iterator[ServedSeries]:
    from interlock.remote.series import ServedSeries  # noqa: PLC0415  (for few commands)

    with closing(_open_remote(settings)) as service:
        yield ServedSeries(service, repository)


@contextmanager
def open_overview(settings: Settings, repository: str) -> Iterator[Overview | ServedSeries]:
    """How the series of a repository stand; GitHub is not asked."""
    if scheme_of(settings.url) == "http":
        with _open_served(settings, repository) as served:
            yield served
        return
    with _open_overview(settings, repository) as overview:
        yield overview


@contextmanager
def _open_overview(settings: Settings, repository: str) -> Iterator[Overview]:
    from interlock.github.series import choosing  # noqa: PLC0415  (for few commands)
    from interlock.github.series.overview import Overview  # noqa: PLC0415

    rules = choosing.rules_of(settings)
    with ExitStack() as opened:
        if scheme_of(settings.url) == "git":
            lanes, notes = _git_series(settings, opened)
            yield Overview(
                *(lanes, notes, repository, repository.lower(), rules),
                at_once=lanes.at_once,
                counts=lambda: lanes.at_once().counts,
            )
            return
        store = _open_store(settings, migrate=True)
        service = LocalService(store, poll_s=settings.poll_s, policies=settings.policies)
        opened.callback(service.close)
        known = store.github.repository_named(repository)
        lane_name = repository.lower() if known is None else known.lane_name
        yield Overview(service, store.github, repository, lane_name, rules)


def standing_of(service: Service, repository: str | None, number: int) -> NumberView:
    """What is known about an issue or pull request, and owed for it."""
    from interlock.github.standing import standing  # noqa: PLC0415

    if not isinstance(service, LocalService):
        raise _needs_database()
    return standing(service, service.store.github, repository, number)


def open_lanes(settings: Settings, *, eyes: Eyes | None = None) -> LaneService:
    """A service for holding lanes, on any store that the settings name.

    A store in git keeps with a run what it shows on GitHub, so that the next one can take it away.
    """
    if scheme_of(settings.url) != "git":
        return open_service(settings=settings)
    if eyes is None:
        return _open_git(settings)
    lanes = _open_git(settings, sign=lambda: eyes.sign)
    eyes.before = lanes.before
    return lanes


def open_connection(settings: Settings) -> Service:
    """A service for Python programs, on any store that the settings name. One in git serves lanes alone, and
    says so where more is wanted."""
    if scheme_of(settings.url) != "git":
        return open_service(settings=settings)
    from interlock.service.keeping import Keeping  # noqa: PLC0415
    from interlock.service.lanesonly import as_service  # noqa: PLC0415

    series = Keeping()
    series.keeper = KeptSeries(settings)
    return as_service(_open_git(settings), series, name="The git store", hint=_DATABASES)


def left_signs(lanes: LaneService) -> list[Sign]:
    """What dead runs still show on GitHub; a database does not know."""
    from interlock.gitlanes.service import GitLanes  # noqa: PLC0415

    return lanes.left() if isinstance(lanes, GitLanes) else []


def eyes(environ: Mapping[str, str], tell: Callable[[str], None]) -> Eyes | None:
    """How a process in a job of Actions shows on GitHub that it works on a message; None if it does not.

    Whoever works for a run already shows nothing: the holder of that run does.
    """
    if not environ.get("GITHUB_EVENT_PATH") or choices.working_for(environ) is not None:
        return None
    from interlock.github.eyes import TIMEOUT_S, Eyes, message_of  # noqa: PLC0415

    message = message_of(environ)
    return None if message is None else Eyes(message, _asking(environ, TIMEOUT_S), tell)


def acting(
    lanes: LaneService, environ: Mapping[str, str], account: str | None, tell: Callable[[str], None]
) -> Callable[[LeaseView], None]:
    """How runs report the GitHub account that they write with. Without a token and a name they do not.

    Nor do they in git: no event of GitHub adds work there.
    """
    from interlock.github.tokens import is_given  # noqa: PLC0415  (for few commands)

    act_as = getattr(lanes, "act_as", None)
    if act_as is None or (account is None and not is_given(environ)):
        return lambda _: None
    from interlock.github.acting import Acting  # noqa: PLC0415

    return Acting(act_as, environ, account, tell)


def accounts_of_runs(settings: Settings) -> list[str]:
    """The GitHub accounts that the newest runs of a database write with. Of a server nobody is told."""
    if scheme_of(settings.url) in ("git", "http"):
        return []
    service = open_for_reading(settings)
    if service is None:
        return []
    with closing(service):
        return service.store.github.accounts(ACCOUNTS_OF) if isinstance(service, LocalService) else []


def eyes_of_runs(
    service: Service, environ: Mapping[str, str], tell: Callable[[str], None]
) -> Callable[[LeaseView], Eyes | None]:
    """How a worker shows on GitHub which messages its runs work on; without a token, not at all."""

    def eyes_of(lease: LeaseView) -> Eyes | None:
        from interlock.github.tokens import is_given  # noqa: PLC0415

        if lease.item.payload is None or not is_given(environ):
            return None
        from interlock.github.eyes import TIMEOUT_S, Eyes, message_of_item  # noqa: PLC0415

        message = message_of_item(lease.item)
        if message is None:
            return None
        found = Eyes(message, _asking(environ, TIMEOUT_S), tell)
        found.before = lambda _: _superseded_by(service, lease)
        _keep_sign(service, lease, message, found)
        return found

    return eyes_of


def _keep_sign(service: Service, lease: LeaseView, message: Message, eyes: Eyes) -> None:
    """Let the database know what a run shows: whoever sees the run lost takes it away.

    Through a server nobody is there to know it: then the worker alone takes it away.
    """
    if not isinstance(service, LocalService):
        return
    github = service.store.github
    known = github.repository_named(message.repository)
    if known is None:
        return
    from interlock.store.github_port import KeptSign  # noqa: PLC0415

    sign = KeptSign(lease.fence, lease.item.id, known.id, message.number, *message.subject, None)
    eyes.keep = lambda reaction: github.keep_sign(sign._replace(reaction=reaction))

    def forget() -> None:
        github.drop_sign(lease.fence)

    eyes.forget = forget


def owing_salvage(service: Service, tell: Callable[[str], None]) -> Callable[[int, int, str], None]:
    """Owes a comment on work that a run left, on the issue or pull request that its item is about.

    Through a server nothing is owed: a notice of the worker names the work.
    """

    def owe(item: int, run: int, ref: str) -> None:
        if not isinstance(service, LocalService):
            return
        from interlock.github import about, owing  # noqa: PLC0415

        try:
            of = about.about(service.show(item).item.payload)
            known = None if of is None else service.store.github.repository_named(of.repository)
            if of is not None and known is not None:
                place = owing.Place(known.id, of.number)
                service.store.github.outbox.owe([owing.salvage(place, item=item, run=run, ref=ref)])
        except InterlockError as error:  # the work is safe, which is what counts
            tell(f"Could not owe a comment on {ref}: {error}")

    return owe


def _superseded_by(service: Service, lease: LeaseView) -> Before | None:
    """The item whose run was stopped for the sake of this one."""
    from interlock.process.sign import Before  # noqa: PLC0415
    from interlock.service.contract import ItemFilter  # noqa: PLC0415

    if lease.item.lane is None:
        return None
    wanted = ItemFilter(lane=lease.item.lane, statuses=("superseded",), limit=SUPERSEDED_LOOKED_AT)
    for old in service.items(wanted):
        if old.absorbed_by == lease.item.id and old.attempt:
            return Before(name=f"item-{old.id}", superseded=True)
    return None


def _asking(environ: Mapping[str, str], timeout_s: float) -> Callable[[float], GitHub]:
    """Opens a client with as much patience as is asked for."""

    def open_client(patience_s: float) -> GitHub:
        from interlock.github import client  # noqa: PLC0415

        return client.from_environment(environ, timeout_s=timeout_s, patience_s=patience_s)

    return open_client


def mend_lane(settings: Settings, lane: str, *, why: str) -> LaneView:
    """Rebuild a lane in git whose state cannot be read."""
    if scheme_of(settings.url) != "git":
        raise InvalidInput("Only lanes in git can be mended.", "`interlock doctor` checks a database.")
    return _open_git(settings).mend(lane, why=why, by=settings.actor)


def migrate(*, settings: Settings | None = None, check: bool = False) -> Schema:
    """Upgrade the database to this program's schema; with `check` only report what is missing."""
    settings = settings or choices.load()
    moved = not check and _move_store(settings)
    with closing(_open_store(settings, migrate=False).database) as database:
        ran = 0 if check else schema.migrate(database)
        applied = database.applied()
        return Schema(
            backend=database.backend,
            version=len(applied),
            applied=ran,
            missing=len(schema.pending(database.backend, applied)),
            sql=schema.script(database.backend, applied),
            moved_to=str(sqlite_path(settings.url, settings.root)) if moved else None,
        )


def after_restore(*, settings: Settings | None = None) -> int:
    """Skip run numbers that may have been used since the restored backup; gives the last one skipped.

    Run this before anyone works on the restored database: else an old run and a new one could share a fence.
    """
    with closing(_open_store(settings or choices.load(), migrate=False).database) as database:
        schema.require_current(database.backend, database.applied())
        return database.after_restore()


def replaces(store: str, *, settings: Settings | None = None) -> Lineage:
    """Record that a store is gone, and that this one goes on in its place; gives the lineage after that."""
    if not re.fullmatch("[0-9a-f]{12}", store):
        raise InvalidInput(
            f"{store[:40]!r} is not the name of a store.", "It has 12 digits and letters a to f; see doctor."
        )
    with closing(_open_store(settings or choices.load(), migrate=False).database) as database:
        schema.require_current(database.backend, database.applied())
        if database.lineage().store == store:
            raise InvalidInput(f"This store is {store} itself.", "Name the one that is gone.")
        database.add_ancestors({store: Ancestor.GONE})
        return database.lineage()


def copy(
    to: str,
    *,
    settings: Settings,
    tell: Callable[[str, int], None],
    waiting: Callable[[str], None] | None,
) -> Copied:
    """Copy the store to an empty database, and seal it; `tell` and `waiting` hear how far it is."""
    from interlock.service import copying  # noqa: PLC0415  (for this alone)

    with _both_ends(settings, to) as (store, source, target):
        return copying.copy(store, source, target, tell, waiting=waiting)


def undo_copy(to: str, *, settings: Settings) -> str:
    """Let the store take writes again whose copy did not come to its end; where it is."""
    from interlock.service import copying  # noqa: PLC0415

    with _both_ends(settings, to) as (_, source, target):
        copying.undo(source, target)
        return source.place


@contextmanager
def _both_ends(settings: Settings, to: str) -> Iterator[tuple[Store, End, End]]:
    target = replace(settings, url=to, former=None)
    if place_of(target) == place_of(settings):
        raise InvalidInput("The store cannot be copied to its own place.", "Name another place with --to.")
    with ExitStack() as opened:
        ends = []
        for chosen in (settings, target):
            store = _open_store(chosen, migrate=False)
            opened.callback(store.close)
            ends.append((store, _end_of(store, place_of(chosen))))
        yield ends[0][0], ends[0][1], ends[1][1]


def _end_of(store: SqliteStore | PostgresStore, place: str) -> End:
    from interlock.store.sqlite.database import SqliteDatabase  # noqa: PLC0415

    if isinstance(store.database, SqliteDatabase):
        from interlock.store.sqlite.copying import SqliteEnd  # noqa: PLC0415

        return SqliteEnd(store.database, place)
    from interlock.store.postgres.copying import PostgresEnd  # noqa: PLC0415

    return PostgresEnd(store.database, place)


def prune(*, settings: Settings, older_than_s: float, really: bool, vacuum: bool) -> Iterator[Pruned]:
    """Let go what ended long ago, step by step, or only count it; then give the space back, if wanted."""
    from interlock.service import pruning  # noqa: PLC0415  (for this alone)

    with closing(_open_store(settings, migrate=True)) as store:
        yield from pruning.prune(store, older_than_s, really=really)
        if vacuum and really:
            store.vacuum()


def space_of(settings: Settings) -> str:
    """What becomes of the space of rows that go."""
    if scheme_of(settings.url) == "sqlite":
        return "The file keeps its size, and new rows use the space; --vacuum gives it back to the disk."
    return "Autovacuum makes the space free for new rows; VACUUM FULL would give it back to the disk."


def scheme_of(url: str) -> str:
    """`sqlite`, `postgresql`, `git` or `http`. No error repeats the URL: it may hold a password."""
    scheme, separator, _ = url.partition("://")
    scheme = scheme.lower()
    if not separator:
        raise InvalidInput("The store's URL has no scheme.", _FORMS)
    if scheme not in _SCHEMES:
        raise InvalidInput(f"There is no store for the scheme {scheme!r}.", _FORMS)
    return _SCHEMES[scheme]


def absolute_url(settings: Settings) -> str:
    """The store's URL for a process in any directory."""
    if scheme_of(settings.url) != "sqlite":
        return settings.url
    return f"sqlite:///{sqlite_path(settings.url, settings.root).absolute()}"


def place_of(settings: Settings) -> str:
    """Where the store is, in words; without the user and the password of a URL."""
    if scheme_of(settings.url) == "sqlite":
        return str(sqlite_path(settings.url, settings.root).absolute())
    return choices.without_password(settings.url)


def beat_s(settings: Settings) -> float:
    """How often a holder asks its store for a cancel request: less often on a git remote."""
    return GIT_BEAT_S if scheme_of(settings.url) == "git" else DATABASE_BEAT_S


def _open_store(settings: Settings, *, migrate: bool) -> SqliteStore | PostgresStore:
    settings.check_store()
    scheme = scheme_of(settings.url)
    if scheme == "git":
        raise InvalidInput(
            "The git store serves `hold`, `push` and `lanes`; this needs a database.", _DATABASES
        )
    if scheme == "http":
        raise _needs_database()
    if scheme == "postgresql":
        from interlock.store.postgres.database import Database  # noqa: PLC0415  (see above)
        from interlock.store.postgres.store import PostgresStore  # noqa: PLC0415

        return PostgresStore(
            Database(
                settings.url,
                timing=settings.timing,
                retry_s=settings.busy_timeout_s,
                migrate=migrate,
                absence=settings.absence,
            )
        )
    from interlock.store.sqlite.store import SqliteStore  # noqa: PLC0415

    path = _checked_path(settings)
    _make_directory(path.parent, settings.home)
    if settings.former is not None:
        from interlock.store.sqlite import move  # noqa: PLC0415

        move.require_moved(settings.former, path)
    return SqliteStore(
        path,
        timing=settings.timing,
        busy_timeout_s=settings.busy_timeout_s,
        migrate=migrate,
        absence=settings.absence,
    )


def _needs_database() -> InvalidInput:
    return InvalidInput(
        "This needs the database itself, and INTERLOCK_URL names a server.",
        "Run it where the server runs, with its store's URL.",
    )


def _open_remote(settings: Settings) -> Service:
    from interlock.remote.service import connect  # noqa: PLC0415  (see above)
    from interlock.settings.credentials import token_for  # noqa: PLC0415

    settings.check_store()
    token = token_for(settings.url, os.environ)
    return connect(settings.url, token, patience_s=settings.busy_timeout_s, absence=settings.absence)


def _checked_path(settings: Settings) -> Path:
    """The file of a SQLite store, to which no link of a stranger leads; nor do those beside it."""
    path = sqlite_path(settings.url, settings.root)
    if path.is_dir():
        raise InvalidInput(
            f"{path} is a directory, not a SQLite file.",
            f"Name a file in it: sqlite:///{path}/{places.DATABASE_NAME}.",
        )
    for file in (path, settings.former):
        if file is not None and (file == path or os.path.lexists(file)):
            real = places.inside(settings.root, file).resolve()
            for more in places.BESIDE_DATABASE:
                places.inside(settings.root.resolve(), real.with_name(f"{real.name}{more}"))
    return path


def _move_store(settings: Settings) -> bool:
    """Move the default store of an older version to where it belongs; returns whether there was one."""
    settings.check_store()
    if settings.former is None:
        return False
    from interlock.store.sqlite import move  # noqa: PLC0415

    path = _checked_path(settings)
    _make_directory(path.parent, settings.home)
    return move.move(settings.former, path, busy_timeout_s=settings.busy_timeout_s)


def _open_git(settings: Settings, *, sign: Callable[[], Sign | None] = lambda: None) -> GitLanes:
    from interlock.gitlanes.service import GitLanes  # noqa: PLC0415
    from interlock.process.workplace import actions_run  # noqa: PLC0415

    settings.check_store()
    directory = places.inside(settings.root, settings.home / "git")
    _make_directory(
        settings.home,
        settings.home,
        "A copy of the lanes is kept there; make it writable, or work in another clone.",
    )
    return GitLanes(
        _git_remote(settings.url),
        directory,
        timing=settings.timing,
        lease_min_s=settings.git_lease_min_s,
        poll_s=settings.poll_s,
        actions=actions_run(os.environ),
        has_ended=_has_ended(actions_run(os.environ)),
        sign=sign,
    )


def _has_ended(own: ActionsRun | None) -> HasEnded:
    """Whether a workflow run has ended, asked of GitHub if there is a token, and without patience."""
    endings: Endings | None = None

    def has_ended(run: ActionsRun) -> bool:
        nonlocal endings
        if run == own:
            return False
        if endings is None:
            from interlock.github.tokens import is_given  # noqa: PLC0415

            if not is_given(os.environ):
                return False
            from interlock.github import cache, client, workflow_runs  # noqa: PLC0415

            kept = cache.MemoryCache()
            endings = workflow_runs.Endings(
                lambda: client.from_environment(
                    os.environ, timeout_s=ENDED_TIMEOUT_S, patience_s=0.0, cache=kept
                )
            )
        return endings.has_ended(run)

    return has_ended


def _git_remote(url: str) -> str:
    """The remote's URL for git."""
    remote = url[len("git+") :]
    place = remote.partition("://")[2]
    if not place.strip("/") or (remote.startswith("file:") and not place.startswith("/")):
        raise InvalidInput(
            "The store's URL does not name a repository.",
            "Use git+https://host/name.git, or git+file:///absolute/path.git.",
        )
    return remote


def _make_directory(
    directory: Path, home: Path, hint: str = "Choose another place with INTERLOCK_URL."
) -> None:
    """Make a directory of our own, `home` or `.interlock`; any other directory must exist."""
    try:
        if _is_ours(directory, home) and directory.parent.is_dir():
            places.make_home(directory)
    except OSError as error:
        raise StoreUnavailable(f"{directory} cannot be made: {error.strerror}.", hint) from None
    _check_directory(directory)


def _is_ours(directory: Path, home: Path) -> bool:
    return directory == home or directory.name == places.DIRECTORY


def _check_directory(directory: Path) -> None:
    if not directory.is_dir():
        raise InvalidInput(
            f"The directory {directory} does not exist.",
            "Make it first; an absolute path has four slashes: sqlite:////…",
        )
