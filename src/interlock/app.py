"""The composition root: the only place that knows which stores there are and puts a service on one.

Store modules are imported when their scheme is asked for: the PostgreSQL driver costs 130 ms, which a
command on SQLite must not pay.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from interlock import settings as choices
from interlock.core.errors import InvalidInput, StoreUnavailable
from interlock.service.local import LocalService
from interlock.settings import Settings
from interlock.store import migrate as schema

if TYPE_CHECKING:
    from interlock.gitlanes.service import GitLanes
    from interlock.gitlanes.state import ActionsRun
    from interlock.service.contract import LaneService, LaneView, Service
    from interlock.store.postgres.store import PostgresStore
    from interlock.store.sqlite.store import SqliteStore

RUNS_SKIPPED_AFTER_RESTORE = 1_000_000
DATABASE_BEAT_S, GIT_BEAT_S = 2.0, 30.0
_DATABASES = "Use sqlite:///path/to/file.db or postgresql://user@host/database."
_FORMS = (
    "Use sqlite:///path/to/file.db, postgresql://user@host/database,"
    " or git+https://host/name.git for lanes alone."
)
_GIT = frozenset({"git+file", "git+http", "git+https", "git+ssh"})
_NOT_YET = {
    "http": "A remote Interlock server cannot be used yet in this version.",
    "https": "A remote Interlock server cannot be used yet in this version.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Where a database stands."""

    backend: str
    #: The version it has now.
    version: int
    #: Migrations that ran just now, and those that are still missing.
    applied: int
    missing: int
    #: The SQL of the missing ones.
    sql: str


def open_service(
    url: str | None = None, *, migrate: bool = True, settings: Settings | None = None
) -> Service:
    """A service on the store that `url`, the environment or the configuration file names.

    An empty database gets its schema at once, unless `migrate` is false. One with an *older* schema is always
    refused: other machines may still work on it, so moving it on is a decision (`interlock migrate`).
    """
    settings = settings or choices.load(url=url)
    store = _open_store(settings, migrate=migrate)
    if not migrate:
        schema.require_current(store.database.backend, store.database.applied())
    return LocalService(store, poll_s=settings.poll_s)


def open_lanes(settings: Settings) -> LaneService:
    """A service for holding lanes, on whatever store the settings name."""
    if scheme_of(settings.url) == "git":
        return _open_git(settings)
    return open_service(settings=settings)


def mend_lane(settings: Settings, lane: str, *, why: str) -> LaneView:
    """Rebuild a lane in git whose state cannot be read."""
    if scheme_of(settings.url) != "git":
        raise InvalidInput("Only lanes in git are mended.", "`interlock doctor` checks a database.")
    return _open_git(settings).mend(lane, why=why, by=settings.actor)


def migrate(*, settings: Settings | None = None, check: bool = False) -> Schema:
    """Bring the database to this program's schema; with `check` only say what is missing."""
    database = _open_store(settings or choices.load(), migrate=False).database
    try:
        ran = 0 if check else schema.migrate(database)
        applied = database.applied()
        missing = schema.pending(database.backend, applied)
        return Schema(
            backend=database.backend,
            version=len(applied),
            applied=ran,
            missing=len(missing),
            sql=schema.script(database.backend, applied),
        )
    finally:
        database.close()


def after_restore(*, settings: Settings | None = None) -> int:
    """Skip run numbers that may have been given out since the backup that was restored; the last one skipped.

    Run before anyone works on the restored database: else an old run and a new one could share a fence.
    """
    store = _open_store(settings or choices.load(), migrate=False)
    try:
        schema.require_current(store.database.backend, store.database.applied())
        return store.database.advance_runs(RUNS_SKIPPED_AFTER_RESTORE)
    finally:
        store.close()


def scheme_of(url: str) -> str:
    """`sqlite`, `postgresql` or `git`; raises for what no store here serves. A URL is never repeated in an
    error: it may hold a password."""
    scheme, separator, _ = url.partition("://")
    scheme = scheme.lower()
    if separator and scheme in ("postgresql", "postgres"):
        return "postgresql"
    if separator and scheme == "sqlite":
        return "sqlite"
    if separator and scheme in _GIT:
        return "git"
    if separator and scheme in _NOT_YET:
        raise InvalidInput(_NOT_YET[scheme], _FORMS)
    if not separator:
        raise InvalidInput("The store's URL has no scheme.", _FORMS)
    raise InvalidInput(f"Interlock knows no store with the scheme {scheme!r}.", _FORMS)


def absolute_url(settings: Settings) -> str:
    """The store's URL as another process finds it, wherever it works."""
    if scheme_of(settings.url) != "sqlite":
        return settings.url
    return f"sqlite:///{sqlite_path(settings.url, settings.root).absolute()}"


def beat_s(settings: Settings) -> float:
    """How often a holder may ask its store whether it was asked to stop: a remote is asked less often."""
    return GIT_BEAT_S if scheme_of(settings.url) == "git" else DATABASE_BEAT_S


def sqlite_path(url: str, root: Path) -> Path:
    """The file a SQLite URL names: four slashes are absolute, three are relative to `root`.

    `sqlite:///srv/x.db` is often written where four slashes are meant; it is taken as absolute if only
    that directory exists.
    """
    text = url.partition("://")[2]
    if not text.startswith("/") or len(text) < 2 or "?" in text or "#" in text:
        raise InvalidInput("The SQLite URL does not name a file.", "Use sqlite:///path/to/file.db.")
    relative, absolute = root / text[1:], Path(text)
    if (
        not relative.parent.is_dir()
        and relative.parent.name != choices.DIRECTORY
        and absolute.parent.is_dir()
    ):
        return absolute
    return relative


def _open_store(settings: Settings, *, migrate: bool) -> SqliteStore | PostgresStore:
    scheme = scheme_of(settings.url)
    if scheme == "git":
        raise InvalidInput(
            "The git store serves `hold`, `push` and `lanes`; this needs a database.", _DATABASES
        )
    if scheme == "postgresql":
        from interlock.store.postgres.database import Database  # noqa: PLC0415  (see above)
        from interlock.store.postgres.store import PostgresStore  # noqa: PLC0415

        return PostgresStore(Database(settings.url, timing=settings.timing, migrate=migrate))
    from interlock.store.sqlite.store import SqliteStore  # noqa: PLC0415

    path = sqlite_path(settings.url, settings.root)
    _make_directory(path.parent)
    return SqliteStore(path, timing=settings.timing, busy_timeout_s=settings.busy_timeout_s, migrate=migrate)


def _open_git(settings: Settings) -> GitLanes:
    from interlock.gitlanes.service import GitLanes  # noqa: PLC0415

    directory = settings.root / choices.DIRECTORY
    _make_directory(
        directory, "A copy of the lanes is kept there; make it writable, or work in another clone."
    )
    return GitLanes(
        _git_remote(settings.url),
        directory / "git",
        timing=settings.timing,
        lease_min_s=settings.git_lease_min_s,
        poll_s=settings.poll_s,
        actions=_actions_run(os.environ),
    )


def _git_remote(url: str) -> str:
    """What git calls the remote."""
    remote = url[len("git+") :]
    place = remote.partition("://")[2]
    if not place.strip("/") or (remote.startswith("file:") and not place.startswith("/")):
        raise InvalidInput(
            "The store's URL names no repository.",
            "Use git+https://host/name.git, or git+file:///absolute/path.git.",
        )
    return remote


def _actions_run(environ: Mapping[str, str]) -> ActionsRun | None:
    """The workflow run that this process is part of."""
    from interlock.gitlanes.state import ActionsRun  # noqa: PLC0415

    repository, run, attempt = (
        environ.get(f"GITHUB_{name}", "") for name in ("REPOSITORY", "RUN_ID", "RUN_ATTEMPT")
    )
    if not (repository and run.isdecimal() and attempt.isdecimal()):
        return None
    return ActionsRun(repository, int(run), int(attempt))


def _make_directory(directory: Path, hint: str = "Choose another place with INTERLOCK_URL.") -> None:
    """Make `.interlock` with a `.gitignore` that ignores all of it; any other directory must be there."""
    try:
        if directory.name == choices.DIRECTORY and directory.parent.is_dir():
            choices.make_home(directory)
    except OSError as error:
        raise StoreUnavailable(f"{directory} cannot be made: {error.strerror}.", hint) from None
    if not directory.is_dir():
        raise InvalidInput(
            f"The directory {directory} does not exist.",
            "Make it first; an absolute path has four slashes: sqlite:////…",
        )
