"""`interlock up`: the API, the webhooks and the duties in one process, until a signal ends it."""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import re
import resource
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, TextIO, cast

import structlog
import uvicorn

from interlock import app
from interlock.core.absence import Absence
from interlock.core.errors import InterlockError, InvalidInput, NoToken
from interlock.core.record import replace
from interlock.github import signature
from interlock.github.limits import Limits
from interlock.github.series.hearing import repository_of
from interlock.http import duties
from interlock.http.application import (
    SECRET_VARIABLE,
    SQLITE_THREADS,
    THREADS,
    Annex,
    Server,
    application,
    log,
)
from interlock.http.arguments import Reading
from interlock.http.connections import Crowd, Network, protocol
from interlock.http.duties import Duty
from interlock.http.gate import host_name
from interlock.http.log_writer import LogWriter
from interlock.http.preload import preload
from interlock.http.problems import Problem
from interlock.service.local import LocalService
from interlock.settings import Settings, credentials, listed

#: How long open requests may take after a signal.
STOP_S = 15
#: A sweeper that came through longer ago than this is not well.
SWEEPER_S = 30.0
CONNECTIONS_MAX = 4_000
HEAD_MAX_BYTES = 64 << 10
#: Files that are open beside connections. Connections that are told that there are too many are among them.
FILES_MORE, REFUSED_MAX = 200, 50
#: How long a connection may rest between requests.
REST_S = 75
#: How long a last look waits for GitHub; then the run starts without.
LOOK_S = 10.0
#: How long a thread may compute while others want to.
SWITCH_S = 0.001
_UNENCRYPTED = (
    "Tokens cross the network unencrypted. Give --certificate and --key, or name the proxy that does TLS in"
    " trusted_proxies."
)
#: A host as requests name it, with or without a port.
_HOST = re.compile(r"([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?", re.ASCII)
#: What only this machine means by itself.
HERE = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Listener(uvicorn.Server):
    """uvicorn, which says where it listens, ends waits before it stops, and ends well after a signal."""

    def __init__(
        self, config: uvicorn.Config, *, listening: Callable[[str], None], stopping: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._listening, self._stopping = listening, stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            scheme = "https" if self.config.is_ssl else "http"
            self._listening(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping()
        await super().shutdown(sockets)
        if self.force_exit:  # uvicorn would not let the application end
            await self.lifespan.shutdown()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The first signal ends it, a second one ends open requests too. Then the process closes its store
        and ends, and further ones change nothing."""
        main = threading.current_thread() is threading.main_thread()
        numbers = (signal.SIGINT, signal.SIGTERM) if main else ()
        for number in numbers:
            signal.signal(number, self.handle_exit)
        yield
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.force_exit = self.should_exit
        self.should_exit = True


class Up:
    """One server on one store."""

    def __init__(
        self,
        settings: Settings,
        service: LocalService,
        upkeep: list[app.Upkeep],
        keep: app.Keep,
        allowances: app.Allowances,
    ) -> None:
        self._service, self._keep = service, keep
        #: Why each check failed the last time.
        self._unready: dict[str, str | None] = {}
        self._secret = os.environ.get(SECRET_VARIABLE, "")
        self.server = Server(
            service,
            Reading(settings.types, settings.lanes),
            ready=self.ready,
            webhook=self.webhook if self._secret else None,
            poll_s=settings.poll_s,
            threads=SQLITE_THREADS if app.scheme_of(settings.url) == "sqlite" else THREADS,
        )
        self._instruments = self.server.instruments
        done = self._instruments.done
        self.duties = {each.name: Duty(*each, failed=self._failed, done=done) for each in upkeep}
        self._instruments.attend(self.duties, allowances)

    def ready(self) -> Mapping[str, Any]:
        """Whether it can serve. Anybody may ask: what a store says about itself is for the log."""
        checks = {
            "store": self._check("store", self._store, "The store cannot be reached or written."),
            "schema": self._check("schema", self._schema, "The schema is not this version's."),
            "sweeper": self._check("sweeper", self._sweeper, "The sweeper has not completed a sweep."),
        }
        return {"ready": all(check["ok"] for check in checks.values()), "checks": checks}

    def _check(self, name: str, work: Callable[[], str], otherwise: str) -> dict[str, Any]:
        try:
            well, said = work(), None
        except InterlockError as error:
            said = str(error)
        except Exception as error:
            said = repr(error)
        if said is not None and said != self._unready.get(name):
            log.warning("not_ready", check=name, error=said)
        self._unready[name] = said
        return {"ok": said is None, "detail": otherwise if said is not None else well}

    def _store(self) -> str:
        app.probe(self._service)
        return "The store can be written."

    def _schema(self) -> str:
        if missing := app.missing_migrations(self._service):
            raise InvalidInput(f"Migrations are missing: {missing}.", "Run interlock migrate.")
        return "The schema is this version's."

    def _sweeper(self) -> str:
        sweeper = self.duties["sweeper"]
        age_s = sweeper.age_s()
        if age_s is None or age_s > SWEEPER_S:
            raise InvalidInput(sweeper.error or "The sweeper has just started.")
        return f"The last sweep was {age_s:.0f} s ago."

    def webhook(self, headers: Mapping[str, str], body: bytes) -> Mapping[str, Any]:
        """Keep a delivery that has the right signature; it is decided on next."""
        try:
            signature.check(self._secret, body, headers.get("x-hub-signature-256"))
        except InvalidInput as error:
            raise Problem("bad_signature", error.sentence, error.hint) from None
        delivery = headers.get("x-github-delivery", "")
        event = headers.get("x-github-event", "")
        new = self._keep(event, delivery, body)
        self.duties["deliveries"].want()
        if "series" in self.duties and repository_of(event, body) is not None:
            self.duties["series"].want()
        return {"delivery": delivery, "new": new}

    def _failed(self, name: str, error: Exception) -> None:
        self._instruments.failed(name)
        said = error.sentence if isinstance(error, InterlockError) else repr(error)
        log.warning("duty_failed", duty=name, error=said)

    def started(self) -> None:
        for duty in self.duties.values():
            duty.start()

    def stopped(self) -> None:
        for duty in self.duties.values():
            duty.stop()
        end_s = time.monotonic() + duties.STOP_S
        for duty in self.duties.values():
            duty.join(max(0.0, end_s - time.monotonic()))


def _unseen(sentence: str) -> None:
    log.warning("unseen", error=sentence)


def serve(
    settings: Settings,
    *,
    host: str,
    port: int,
    certificate: str | None,
    key: str | None,
    notify: Callable[[Any], Callable[[], object]],
    tell: Callable[[str, str | None], None],
    check: Callable[[str], None] | None = None,
    annexes: Callable[[Server], Sequence[Annex]] = lambda _: (),
    log_file: int | None = None,
) -> None:
    """Serve until a signal comes; `tell` gets the address and where a token for it was put, if one was made.

    With `check`, serve until that has looked at the server at its address. With an open `log_file` the log
    goes there, and only warnings and errors to standard error.
    """
    if certificate is not None and key is not None:
        check_pair(certificate, key)
    absence = settings.absence or Absence()
    settings = replace(settings, absence=absence)
    level = logging.INFO if check is None else logging.WARNING  # else our own look is logged
    with _logging(level, log_file) as written, _opened(settings, notify) as (service, upkeep, keep, left):
        loopback = is_loopback(host)
        if not loopback and not service.has_tokens():
            raise InvalidInput(
                "Nobody could use a server beyond this machine: there is no token yet.",
                "Make one first: interlock token create NAME --scope admin.",
            )
        up = Up(settings, service, upkeep, keep, left)
        up.server.instruments.log = written
        files = _allow_files(CONNECTIONS_MAX + FILES_MORE)
        config = configured(
            application(
                up.server,
                started=up.started,
                stopped=up.stopped,
                annexes=annexes(up.server),
                hosts=allowed_hosts(settings, host),
            ),
            proxies=trusted_proxies(settings),
            connections=max(1, min(CONNECTIONS_MAX, files - FILES_MORE)),
            host=host,
            port=port,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
        # A thread that comes back from the database waits this long for one that computes: at each statement.
        sys.setswitchinterval(SWITCH_S)

        def listening(url: str) -> None:
            try:
                token = _local_token(service, url, make=check is None) if loopback else None
            except InterlockError as error:
                trouble.append(error)
                listener.should_exit = True
                return
            tell(reachable(url, settings), token)
            if not loopback and certificate is None and not listed(settings.trusted_proxies):
                log.warning("unencrypted", why=_UNENCRYPTED)
            if check is not None:
                threading.Thread(target=_checked, args=(check, url, listener), daemon=True).start()

        def stopping() -> None:
            absence.hurry(time.monotonic())
            up.server.stop()

        listener = Listener(config, listening=listening, stopping=stopping)
        trouble: list[InterlockError] = []
        failures: list[OSError] = []
        with _overheard(failures):
            try:
                listener.run()
            except SystemExit:
                raise _cannot_listen(host, port, failures) from None
        if trouble:
            raise trouble[0]


def check_pair(certificate: str, key: str) -> None:
    """Raise unless TLS can be done with these files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_verify_locations(certificate)
    except OSError:
        raise InvalidInput(
            f"{certificate} is not a certificate.", "Name a PEM file: BEGIN CERTIFICATE is in it."
        ) from None
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")  # nobody is there to type one
    except OSError as error:
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            raise InvalidInput(
                f"{key} is not the key of the first certificate in {certificate}.",
                "The server's own certificate comes first, then its chain.",
            ) from None
        raise InvalidInput(
            f"{key} is not a private key that a server can use.",
            "Name a PEM file without a passphrase: BEGIN PRIVATE KEY is in it.",
        ) from None


@contextmanager
def _overheard(failures: list[OSError]) -> Iterator[None]:
    """Keep the errors for which uvicorn does not start, instead of showing them."""

    def hear(record: logging.LogRecord) -> bool:
        if isinstance(record.msg, OSError):
            failures.append(record.msg)
        return not isinstance(record.msg, OSError)

    logger = logging.getLogger("uvicorn.error")
    logger.addFilter(hear)
    try:
        yield
    finally:
        logger.removeFilter(hear)


def _cannot_listen(host: str, port: int, failures: Sequence[OSError]) -> InvalidInput:
    sentence = f"{host}:{port} cannot be listened on"
    match failures[0].errno if failures else None:
        case errno.EADDRINUSE:
            why, hint = (
                "the port is taken",
                'Choose another --port (make up ARGS="--port 18000"); 0 takes a free one.',
            )
        case errno.EACCES:
            why, hint = "this user may not use the port", "Choose a --port of 1024 or more."
        case _:
            why = f"{host} is not an address of this machine"
            hint = "Choose another --host: 127.0.0.1 is this machine alone, 0.0.0.0 is all its addresses."
    return InvalidInput(f"{sentence}: {why}.", hint)


def configured(
    app: Any, *, proxies: Sequence[Network] = (), connections: int | None = None, **more: Any
) -> uvicorn.Config:
    """How uvicorn serves an application here."""
    most = CONNECTIONS_MAX if connections is None else connections
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        loop="asyncio",
        http=protocol(Crowd(proxies, most + REFUSED_MAX)),
        ws="none",
        lifespan="on",
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(map(str, proxies)),
        limit_concurrency=most,
        h11_max_incomplete_event_size=HEAD_MAX_BYTES,
        timeout_keep_alive=REST_S,
        timeout_graceful_shutdown=STOP_S,
        **more,
    )


def allowed_hosts(settings: Settings, host: str) -> frozenset[str] | None:
    """The hosts by which this server may be asked for; None if by any."""
    chosen = listed(settings.allowed_hosts)
    if "*" in chosen:
        return None
    if wrong := next((each for each in chosen if not _HOST.fullmatch(each)), None):
        raise InvalidInput(
            f"allowed_hosts has {wrong[:100]!r}, which is not a host.",
            "Use names alone, as in interlock.example.com, or [::1]; * is any.",
        )
    if chosen:
        return frozenset(map(host_name, chosen))
    return HERE | {host_name(f"[{host}]" if ":" in host else host)} if is_loopback(host) else None


def reachable(url: str, settings: Settings) -> str:
    """An address by which other machines may ask; one that stands for all is of no use to them."""
    scheme, _, place = url.partition("://")
    host, _, port = place.rpartition(":")
    if host not in ("0.0.0.0", "[::]"):  # noqa: S104  (looked for)
        return url
    named = [each for each in listed(settings.allowed_hosts) if each != "*"]
    return f"{scheme}://{host_name(named[0]) if named else socket.gethostname()}:{port}"


def trusted_proxies(settings: Settings) -> tuple[Network, ...]:
    """The networks of proxies that are believed."""
    try:
        return tuple(ipaddress.ip_network(each, strict=False) for each in listed(settings.trusted_proxies))
    except ValueError as error:
        raise InvalidInput(
            f"trusted_proxies is not a list of addresses: {error}.", "Use 10.0.0.7, or 10.0.0.0/24."
        ) from None


def _allow_files(count: int) -> int:
    """Let this process have as many files open as connections need, as far as it may say so itself; how many
    it may have open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        most = count if hard == resource.RLIM_INFINITY else min(count, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return count


def _checked(check: Callable[[str], None], url: str, listener: Listener) -> None:
    try:
        check(url)
    finally:
        listener.should_exit = True


@contextmanager
def _opened(
    settings: Settings, notify: Callable[[Any], Callable[[], object]]
) -> Iterator[tuple[LocalService, list[app.Upkeep], app.Keep, app.Allowances]]:
    service = cast("LocalService", app.open_service(settings=settings))
    try:
        app.check_sessions(service)
        preload(service)
        limits = Limits(clock=time.time)  # all of them ask with one token
        with (
            app.open_upkeep(settings, service, limits, notify(service), _no_traces, _put_off) as opened,
            app.last_look(service, settings, _unseen, patience_s=LOOK_S, limits=limits) as service.last_look,
        ):
            yield service, *opened
    finally:
        service.close()


def _put_off(delivery: str, event: str, why: str) -> None:
    log.warning("delivery_put_off", delivery=delivery, github_event=event, why=why)


def _no_traces(why: str) -> None:
    log.warning("no_traces", why=why)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _local_token(service: LocalService, url: str, *, make: bool) -> str | None:
    """A token for the user's own commands, in the user's own file; where that is, if one was made now."""
    try:
        if (known := credentials.token_for(url, os.environ)) is not None:
            service.bearer(known)
            return None
    except NoToken:
        pass
    if not make:
        return None
    made = service.create_token("local", scope="admin")
    assert made.token is not None
    try:
        path = credentials.keep_token(url, made.token, os.environ)
    except InterlockError:
        service.revoke_token(made.id)
        raise
    return None if path is None else str(path)


class _Libraries(logging.Handler):
    """What libraries log, in the form of our own lines."""

    def emit(self, record: logging.LogRecord) -> None:
        log.log(record.levelno, record.name, said=record.getMessage(), exc_info=record.exc_info)


@contextmanager
def _logging(level: int, file: int | None = None) -> Iterator[LogWriter]:
    """The log goes to standard error while this is open; if there is a file, there, and warnings to both."""
    screen = LogWriter(sys.stderr.fileno())
    writer = screen if file is None else LogWriter(file)
    for_people, for_programs = structlog.dev.ConsoleRenderer(), structlog.processors.JSONRenderer()

    def shown(logger: Any, name: str, event: MutableMapping[str, Any]) -> Any:
        if writer is screen:
            return (for_people if sys.stderr.isatty() else for_programs)(logger, name, event)
        if event["level"] != "info":
            screen.write(f"{for_people(logger, name, dict(event))}\n")
        return for_programs(logger, name, event)

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            shown,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", writer)),
    )
    logging.basicConfig(handlers=[_Libraries()], level=logging.WARNING, force=True)
    try:
        yield writer
    finally:
        for each in {screen, writer}:
            each.close()
