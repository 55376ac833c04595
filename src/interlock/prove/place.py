"""Where the proof takes place: a store of its own, or a project of its own on a server.

It touches nothing that it has not created. On SQLite that is a file in a new directory. On PostgreSQL it is
a database with a name and a comment that mark it; the next proof on that server drops what a killed one has
left behind. On a server with a URL it is a project with a unique name.
"""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from interlock import settings
from interlock.core.errors import InterlockError, InvalidInput, StoreRefused, StoreUnavailable
from interlock.settings import sqlite_path
from interlock.settings.store_url import DATABASES, scheme_of

#: Databases and their comments begin with this.
MARK = "interlock_prove_"
_COMMENT = "made by interlock prove; it may be dropped"
#: Older databases of proofs are dropped: longer than the longest proof.
ABANDONED_S = 2 * 3_600
LEASE_S = 1.5
#: A push takes a dozen processes of git.
PUSH_LEASE_S = 3 * LEASE_S
#: Connections beside the racers', and those that a server keeps for its owner.
_CONNECTIONS = 30
_PASSED = ("INTERLOCK_TOKEN",)


class ProofPlace:
    """The store of one proof."""

    def __init__(self, scheme: str, url: str, directory: Path) -> None:
        self.scheme, self.url, self.directory = scheme, url, directory
        self.project = f"prove-{uuid.uuid4().hex[:8]}"
        #: The most processes that may have a connection at once in the race.
        self.room = 1_000
        #: Ends the sessions of all others in the database; gives their number.
        self.kill_sessions: Callable[[], int] | None = None

    @property
    def is_own(self) -> bool:
        """Whether the store itself was created for this proof."""
        return self.scheme != "http"

    def environ(self) -> dict[str, str]:
        """The environment of all processes: short spans, and none of the user's settings."""
        rest = {n: v for n, v in os.environ.items() if not n.startswith("INTERLOCK_") or n in _PASSED}
        return {
            **rest,
            "INTERLOCK_URL": self.url,
            "INTERLOCK_LEASE_S": f"{LEASE_S:g}",
            "INTERLOCK_BACK_OFF_FIRST_S": "0.1",
            "INTERLOCK_BACK_OFF_MAX_S": "0.5",
        }


@contextmanager
def open_place(url: str | None) -> Iterator[ProofPlace]:
    """A place on the store that `url` names, by default a temporary SQLite file. It is removed at the end."""
    scheme = "sqlite" if url is None else scheme_of(url)
    if scheme == "git":
        raise InvalidInput("The proof needs a database or a server; a store in git has no items.", DATABASES)
    beside = None
    if url is not None and scheme == "sqlite":
        beside = sqlite_path(url, settings.load(url=url).root).parent
    try:
        # The system removes it with its processes; the nursery does if this process is killed.
        directory = Path(tempfile.mkdtemp(prefix="interlock-prove-", dir=beside)).resolve()
    except OSError as error:
        where = beside or tempfile.gettempdir()
        raise StoreUnavailable(
            f"Cannot create a directory in {where}: {error.strerror}.",
            "Choose another place with TMPDIR or --store.",
        ) from None
    place = ProofPlace(scheme, url or "", directory)
    try:
        match scheme:
            case "sqlite":
                place.url = f"sqlite:///{directory}/interlock.db"
                yield place
            case "postgresql":
                with _own_database(place):
                    yield place
            case _:
                yield place
    finally:
        _remove(directory)


def _remove(directory: Path) -> None:
    import shutil  # noqa: PLC0415  (at the end alone)

    shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _own_database(place: ProofPlace) -> Iterator[None]:
    """A database of our own on the server that the place's URL names."""
    import psycopg  # noqa: PLC0415  (PostgreSQL alone)
    from psycopg import sql  # noqa: PLC0415

    name = f"{MARK}{int(time.time())}_{uuid.uuid4().hex[:8]}"
    given = place.url
    with _connected(given) as conn:
        _drop_abandoned(conn)
        with _refusals():
            conn.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'").format(sql.Identifier(name))
            )
        try:
            conn.execute(sql.SQL("COMMENT ON DATABASE {} IS {}").format(sql.Identifier(name), _COMMENT))
            place.url = with_database(given, name)
            place.room = _free_connections(conn) - _CONNECTIONS
        except BaseException:
            _drop(conn, name)
            raise

    def kill_sessions() -> int:
        with psycopg.connect(place.url, autocommit=True, connect_timeout=5) as own:
            rows = own.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                " AND backend_type = 'client backend'"
            ).fetchall()
            return len(rows)

    place.kill_sessions = kill_sessions
    try:
        yield
    finally:
        # A restarted server may need a moment.
        for pause_s in (0.2, 1.0, 3.0, None):
            try:
                with _connected(given) as conn:
                    _drop(conn, name)
                break
            except (psycopg.Error, InterlockError):
                if pause_s is None:
                    raise StoreUnavailable(
                        f"The database {name} could not be dropped.",
                        f"Drop it: DROP DATABASE {name} WITH (FORCE). A later proof there does, too.",
                    ) from None
                time.sleep(pause_s)


@contextmanager
def _connected(url: str) -> Iterator[Any]:
    import psycopg  # noqa: PLC0415

    try:
        conn = psycopg.connect(url, autocommit=True, connect_timeout=5)
    except psycopg.ProgrammingError:  # its message may quote the URL, and so a password
        raise InvalidInput("Invalid store URL.", "Use postgresql://user@host/database.") from None
    except psycopg.OperationalError as error:
        first = (str(error).strip().splitlines() or ["no answer"])[0].rstrip(".")
        raise StoreUnavailable(
            f"Cannot reach the database: {first}.", "Is the server up? Check --store."
        ) from None
    with conn:
        yield conn


@contextmanager
def _refusals() -> Iterator[None]:
    import psycopg  # noqa: PLC0415

    try:
        yield
    except psycopg.errors.InsufficientPrivilege:
        raise StoreRefused(
            "The role may not create databases, and the proof needs one of its own.",
            "Grant it with ALTER ROLE … CREATEDB, or leave --store out.",
        ) from None
    except psycopg.errors.DiskFull:
        raise StoreUnavailable("The database has no space left.", "Free some space on the server.") from None


def _drop(conn: Any, name: str) -> None:
    from psycopg import sql  # noqa: PLC0415

    conn.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _drop_abandoned(conn: Any) -> None:
    """Drop the databases that killed proofs have left: marked twice, old, and used by nobody."""
    import psycopg  # noqa: PLC0415

    rows = conn.execute(
        "SELECT datname FROM pg_database d WHERE starts_with(datname, %s)"
        " AND shobj_description(d.oid, 'pg_database') = %s"
        " AND NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.datid = d.oid)",
        (MARK, _COMMENT),
    ).fetchall()
    for (name,) in rows:
        made_s = name.removeprefix(MARK).partition("_")[0]
        if made_s.isdigit() and time.time() - int(made_s) > ABANDONED_S:
            with suppress(psycopg.Error):  # another role's
                _drop(conn, name)


def _free_connections(conn: Any) -> int:
    row = conn.execute(
        "SELECT current_setting('max_connections')::int - (SELECT count(*) FROM pg_stat_activity)"
    ).fetchone()
    return int(row[0])


def with_database(url: str, name: str) -> str:
    """The URL with another database, everything else as it was."""
    from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit  # noqa: PLC0415

    parts = urlsplit(url)
    query = [(key, value) for key, value in parse_qsl(parts.query, keep_blank_values=True) if key != "dbname"]
    return urlunsplit((parts.scheme, parts.netloc, f"/{quote(name)}", urlencode(query, quote_via=quote), ""))


def checked_guard(guard: str | None, url: str | None, guards: Mapping[str, str]) -> None:
    """Refuse a break of an unknown guard, or on a store that was not created for it."""
    if guard is None:
        return
    if guard not in guards:
        raise InvalidInput(f"There is no guard {guard!r}.", f"Use {', '.join(guards)}.")
    if url is not None and scheme_of(url) == "http":
        raise InvalidInput(
            "A guard is only taken out of a store that the proof has created, never of a server.",
            "Leave --store out, or name a database server.",
        )
