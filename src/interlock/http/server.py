"""`interlock up`: the API, the webhooks and the periodic jobs in one process, until a signal ends it."""

from __future__ import annotations

import errno
import gc
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
from functools import partial
from types import FrameType
from typing import Any, TextIO, cast

import structlog
import uvicorn

from interlock.core.errors import InterlockError, InvalidInput, NoToken
from interlock.core.record import replace
from interlock.core.row import NamedTuple
from interlock.core.store_outage import StoreOutage
from interlock.github import signature
from interlock.github.limits import Limits
from interlock.github.series.triggers import repository_of
from interlock.github.wiring import start_check
from interlock.http import periodic_jobs
from interlock.http.application import Application, MountedApp
from interlock.http.arguments import RequestReader
from interlock.http.connections import ConnectionCounts, Network, protocol
from interlock.http.doctor_rounds import DoctorRounds
from interlock.http.execution import SQLITE_THREADS, THREADS
from interlock.http.handlers import SECRET_VARIABLE, Server
from interlock.http.log_writer import LogWriter
from interlock.http.periodic_jobs import Allowances, Keep, PeriodicJob, open_periodic_jobs
from interlock.http.preload import preload
from interlock.http.problems import Problem
from interlock.http.request_guard import host_name
from interlock.http.request_log import log
from interlock.service.demo import Fleet
from interlock.service.item_view import moment
from interlock.service.local import LocalService
from interlock.service.opening import open_local
from interlock.settings import Settings, credentials, listed
from interlock.settings.store_url import scheme_of
from interlock.store.migrate import pending

#: How long open requests may take after a signal.
STOP_S = 15
#: The sweeper is unhealthy if its last success is older than this.
SWEEPER_S = 30.0
CONNECTIONS_MAX = 4_000
HEAD_MAX_BYTES = 64 << 10
#: Open files besides connections, including refused connections above the limit.
FILES_MORE, REFUSED_MAX = 200, 50
#: How long a connection may be idle between requests.
REST_S = 75
#: The time-out of the check before a run starts. After it, the run starts unchecked.
LOOK_S = 10.0
#: How often the doctor is asked whether a check is due.
DOCTOR_S = 10.0
#: How long a thread may compute while others wait.
SWITCH_S = 0.001
#: How many new objects the cyclic garbage collector waits for. Requests leave few cycles, and each pass looks
#: at all that many clients have under way.
YOUNG_MAX = 10_000
_UNENCRYPTED = (
    "Tokens cross the network unencrypted. Give --certificate and --key, or name the proxy that does TLS in"
    " trusted_proxies."
)
#: A host as requests name it, with or without a port.
_HOST = re.compile(r"([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?", re.ASCII)
#: The host names that mean this machine only.
HERE = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Listening(NamedTuple):
    """A server that has begun to listen."""

    url: str
    #: The path of a new token for the user's own commands, if one was created.
    token_file: str | None
    #: A one-time link to the dashboard, if the server listens on this machine alone.
    link: str | None


class UvicornListener(uvicorn.Server):
    """uvicorn that reports its address, ends waits before it stops, and exits cleanly after a signal."""

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
        """The first signal stops the server, and a second one also aborts open requests. Then the process
        closes its store and exits. Further signals have no effect."""
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


class ServerProcess:
    """One server on one store."""

    def __init__(
        self,
        settings: Settings,
        service: LocalService,
        jobs: list[PeriodicJob],
        keep: Keep,
        allowances: Allowances,
        rounds: DoctorRounds,
    ) -> None:
        self._service, self._keep = service, keep
        #: Why each check last failed.
        self._unready: dict[str, str | None] = {}
        self._secret = os.environ.get(SECRET_VARIABLE, "")
        self.server = Server(
            service,
            RequestReader(settings.types, settings.lanes),
            ready=self.ready,
            webhook=self.webhook if self._secret else None,
            poll_s=settings.poll_s,
            threads=SQLITE_THREADS if scheme_of(settings.url) == "sqlite" else THREADS,
            findings=lambda: rounds.report,
        )
        self._instruments = self.server.instruments
        self.jobs = {each.name: each for each in jobs}
        self._instruments.attend(self.jobs, allowances)

    def ready(self) -> Mapping[str, Any]:
        """Whether the server is ready. No token is needed, so errors of the store go only to the log."""
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
        self._service.store.database.probe()
        return "The store can be written."

    def _schema(self) -> str:
        database = self._service.store.database
        if missing := len(pending(database.backend, database.applied())):
            raise InvalidInput(f"Migrations are missing: {missing}.", "Run interlock migrate.")
        return "The schema is this version's."

    def _sweeper(self) -> str:
        sweeper = self.jobs["sweeper"]
        age_s = sweeper.age_s()
        if age_s is None or age_s > SWEEPER_S:
            raise InvalidInput(sweeper.error or "The sweeper has just started.")
        return f"The last sweep was {age_s:.0f} s ago."

    def webhook(self, headers: Mapping[str, str], body: bytes) -> Mapping[str, Any]:
        """Store a delivery with a valid signature. It is decided on afterwards."""
        try:
            signature.check(self._secret, body, headers.get("x-hub-signature-256"))
        except InvalidInput as error:
            raise Problem("bad_signature", error.sentence, error.hint) from None
        delivery = headers.get("x-github-delivery", "")
        event = headers.get("x-github-event", "")
        new = self._keep(event, delivery, body)
        self.jobs["deliveries"].request()
        if "series" in self.jobs and repository_of(event, body) is not None:
            self.jobs["series"].request()
        return {"delivery": delivery, "new": new}

    def _failed(self, name: str, error: Exception) -> None:
        self._instruments.failed(name)
        said = error.sentence if isinstance(error, InterlockError) else repr(error)
        log.warning("duty_failed", duty=name, error=said)

    def started(self) -> None:
        for job in self.jobs.values():
            job.start(done=self._instruments.done, failed=self._failed)

    def stopped(self) -> None:
        for job in self.jobs.values():
            job.stop()
        end_s = time.monotonic() + periodic_jobs.STOP_S
        for job in self.jobs.values():
            job.join(max(0.0, end_s - time.monotonic()))


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
    tell: Callable[[Listening], None],
    check: Callable[[str], None] | None = None,
    mounted: Callable[[Server], Sequence[MountedApp]] = lambda _: (),
    log_file: int | None = None,
    demo: bool = False,
) -> None:
    """Serve until a signal. `tell` gets the address and what was created for the user.

    With `demo`, the demo fleet runs too, and the store must be empty.

    With `check`, serve until `check` has tested the server at its address. With an open `log_file`, the log
    goes there, and only warnings and errors go to standard error.
    """
    if certificate is not None and key is not None:
        check_pair(certificate, key)
    outage = settings.outage or StoreOutage()
    settings = replace(settings, outage=outage)
    level = logging.INFO if check is None else logging.WARNING  # without the requests of our own check
    with _logging(level, log_file) as written, _opened(settings, notify) as (service, jobs, keep, allowances):
        loopback = is_loopback(host)
        if not loopback and not service.has_tokens():
            raise InvalidInput(
                "This server has no token, so other machines cannot use it.",
                "Create one first: interlock token create NAME --scope admin.",
            )
        if demo:
            service.start_demo()
        rounds = DoctorRounds(service.doctor, lambda: moment(service.store.now_us()))
        jobs.append(PeriodicJob("doctor", DOCTOR_S, rounds.look))
        process = ServerProcess(settings, service, jobs, keep, allowances, rounds)
        process.server.instruments.log = written
        files = _allow_files(CONNECTIONS_MAX + FILES_MORE)
        config = configured(
            Application(
                process.server,
                started=process.started,
                stopped=process.stopped,
                mounted=mounted(process.server),
                hosts=allowed_hosts(settings, host),
            ),
            proxies=trusted_proxies(settings),
            connections=max(1, min(CONNECTIONS_MAX, files - FILES_MORE)),
            host=host,
            port=port,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
        # A thread that returns from the database waits this long for a computing one, at each statement.
        sys.setswitchinterval(SWITCH_S)
        gc.set_threshold(YOUNG_MAX)

        def listening(url: str) -> None:
            try:
                token, path = _local_token(service, url, make=check is None) if loopback else (None, None)
                link = None if token is None or check is not None else service.sign_in_link(caller=token)
            except InterlockError as error:
                trouble.append(error)
                listener.should_exit = True
                return
            tell(Listening(reachable(url, settings), path, None if link is None else f"{url}{link.path}"))
            if not loopback and certificate is None and not listed(settings.trusted_proxies):
                log.warning("unencrypted", why=_UNENCRYPTED)
            if check is not None:
                threading.Thread(target=_checked, args=(check, url, listener), daemon=True).start()

        def stopping() -> None:
            outage.shut_down(time.monotonic())
            process.server.stop()

        listener = UvicornListener(config, listening=listening, stopping=stopping)
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
    """Raise unless these files work for TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_verify_locations(certificate)
    except OSError:
        raise InvalidInput(
            f"{certificate} is not a certificate.", "Name a PEM file: BEGIN CERTIFICATE is in it."
        ) from None
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")  # there is no terminal for a password
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


class PortInUse(InvalidInput):
    """Another program listens on the port."""


@contextmanager
def _overheard(failures: list[OSError]) -> Iterator[None]:
    """Collect the errors that stop uvicorn's start, instead of printing them."""

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
    match failures[0].errno if failures else None:
        case errno.EADDRINUSE:
            return PortInUse(
                f"Port {port} is already in use on {host}.",
                'Choose another --port (make up ARGS="--port 18000"); 0 takes a free one.',
            )
        case errno.EACCES:
            return InvalidInput(
                f"Permission denied: this user may not use port {port}.", "Choose a --port of 1024 or more."
            )
        case _:
            return InvalidInput(
                f"{host} is not an address of this machine.",
                "Choose another --host: 127.0.0.1 is this machine alone, 0.0.0.0 is all its addresses.",
            )


def configured(
    app: Any, *, proxies: Sequence[Network] = (), connections: int | None = None, **more: Any
) -> uvicorn.Config:
    """uvicorn's configuration for an application."""
    most = CONNECTIONS_MAX if connections is None else connections
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        loop="asyncio",
        http=protocol(ConnectionCounts(proxies, most + REFUSED_MAX)),
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
    """The host names that this server accepts; None for any."""
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
    """The server's URL for other machines. A wildcard address is replaced by a host name."""
    scheme, _, place = url.partition("://")
    host, _, port = place.rpartition(":")
    if host not in ("0.0.0.0", "[::]"):  # noqa: S104  (looked for)
        return url
    named = [each for each in listed(settings.allowed_hosts) if each != "*"]
    return f"{scheme}://{host_name(named[0]) if named else socket.gethostname()}:{port}"


def trusted_proxies(settings: Settings) -> tuple[Network, ...]:
    """The networks of trusted proxies."""
    try:
        return tuple(ipaddress.ip_network(each, strict=False) for each in listed(settings.trusted_proxies))
    except ValueError as error:
        raise InvalidInput(
            f"trusted_proxies is not a list of addresses: {error}.", "Use 10.0.0.7, or 10.0.0.0/24."
        ) from None


def _allow_files(count: int) -> int:
    """Raise the limit of open files to what connections need, or to the allowed maximum; gives the new
    limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        most = count if hard == resource.RLIM_INFINITY else min(count, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return count


def _checked(check: Callable[[str], None], url: str, listener: UvicornListener) -> None:
    try:
        check(url)
    finally:
        listener.should_exit = True


@contextmanager
def _opened(
    settings: Settings, notify: Callable[[Any], Callable[[], object]]
) -> Iterator[tuple[LocalService, list[PeriodicJob], Keep, Allowances]]:
    service = open_local(settings)
    service.demo_operations.open_fleet = partial(_demo_fleet, service, settings)
    try:
        service.store.database.check_sessions()
        preload(service)
        limits = Limits(clock=time.time)  # all parts use one token
        with (
            open_periodic_jobs(settings, service, limits, notify(service), _no_traces, _put_off) as opened,
            start_check(service, settings, _unseen, patience_s=LOOK_S, limits=limits) as last_look,
        ):
            service.run_starts.last_look = last_look
            yield service, *opened
    finally:
        service.demo_operations.leave_demo()
        service.close()


def _demo_fleet(service: LocalService, settings: Settings) -> Fleet:
    from interlock.demo.fleet import DemoFleet  # noqa: PLC0415  (few servers ever need it)

    return DemoFleet(service, settings, lambda error: log.error("defect", where="demo", exc_info=error))


def _put_off(delivery: str, event: str, why: str) -> None:
    log.warning("delivery_put_off", delivery=delivery, github_event=event, why=why)


def _no_traces(why: str) -> None:
    log.warning("no_traces", why=why)


def is_loopback(host: str) -> bool:
    """Whether an address is reachable only from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _local_token(service: LocalService, url: str, *, make: bool) -> tuple[str | None, str | None]:
    """Ensure a token for the user's own commands in the user's own file. Gives the token's id, and the path
    if the token is new."""
    try:
        if (known := credentials.token_for(url, os.environ)) is not None:
            return service.bearer(known)[0].id, None
    except NoToken:
        pass
    if not make:
        return None, None
    made = service.create_token("local", scope="admin")
    assert made.token is not None
    try:
        path = credentials.keep_token(url, made.token, os.environ)
    except InterlockError:
        service.revoke_token(made.id)
        raise
    return made.id, None if path is None else str(path)


class _Libraries(logging.Handler):
    """Logs records of libraries in the format of our own lines."""

    def emit(self, record: logging.LogRecord) -> None:
        log.log(record.levelno, record.name, said=record.getMessage(), exc_info=record.exc_info)


@contextmanager
def _logging(level: int, file: int | None = None) -> Iterator[LogWriter]:
    """Send the log to standard error while open. With a file, it goes there, and warnings go to both."""
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
