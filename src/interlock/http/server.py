"""`interlock up`: the API, the webhooks and the duties in one process, until a signal ends it."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

import structlog
import uvicorn

from interlock import app
from interlock.core.errors import InterlockError, InvalidInput, NoToken
from interlock.github import signature
from interlock.github.series.hearing import repository_of
from interlock.http.application import SQLITE_THREADS, THREADS, Server, application, log
from interlock.http.arguments import Reading
from interlock.http.duties import Duty
from interlock.http.problems import Problem
from interlock.service.local import LocalService
from interlock.settings import Settings, credentials

SECRET_VARIABLE = "INTERLOCK_WEBHOOK_SECRET"  # noqa: S105  (its name)
#: How long open requests may take after a signal.
STOP_S = 15
#: A sweeper that came through longer ago than this is not well.
SWEEPER_S = 30.0
CONNECTIONS_MAX = 4_000
HEAD_MAX_BYTES = 64 << 10


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

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.force_exit = self.should_exit
        self.should_exit = True


class Up:
    """One server on one store."""

    def __init__(
        self, settings: Settings, service: LocalService, upkeep: list[app.Upkeep], keep: app.Keep
    ) -> None:
        self._service, self._keep = service, keep
        self.duties = {each.name: Duty(*each, failed=_failed) for each in upkeep}
        self._secret = os.environ.get(SECRET_VARIABLE, "")
        self.server = Server(
            service,
            Reading(settings.types, settings.lanes),
            ready=self.ready,
            webhook=self.webhook,
            poll_s=settings.poll_s,
            threads=SQLITE_THREADS if app.scheme_of(settings.url) == "sqlite" else THREADS,
        )

    def ready(self) -> Mapping[str, Any]:
        """Whether it can serve."""
        checks = {"store": _check(self._store), "schema": _check(self._schema)}
        checks["sweeper"] = _check(self._sweeper)
        return {"ready": all(check["ok"] for check in checks.values()), "checks": checks}

    def _store(self) -> str:
        self._service.store.now_us()
        return "The store answers."

    def _schema(self) -> str:
        if missing := app.missing_migrations(self._service):
            raise InvalidInput(f"Migrations are missing: {missing}.", "Run interlock migrate.")
        return "The schema is this version's."

    def _sweeper(self) -> str:
        sweeper = self.duties["sweeper"]
        age_s = sweeper.age_s()
        if age_s is None or age_s > SWEEPER_S:
            raise InvalidInput(f"The sweeper has not come through: {sweeper.error or 'it has just begun'}.")
        return f"The sweeper came through {age_s:.0f} s ago."

    def webhook(self, headers: Mapping[str, str], body: bytes) -> Mapping[str, Any]:
        """Keep a delivery that has the right signature; it is decided on next."""
        if not self._secret:
            raise Problem("not_allowed", "This server takes no webhooks.", f"Set {SECRET_VARIABLE}.")
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

    def started(self) -> None:
        for duty in self.duties.values():
            duty.start()

    def stopped(self) -> None:
        for duty in self.duties.values():
            duty.stop()
        for duty in self.duties.values():
            duty.join()


def _check(work: Callable[[], str]) -> dict[str, Any]:
    try:
        return {"ok": True, "detail": work()}
    except InterlockError as error:
        return {"ok": False, "detail": error.sentence}


def _failed(name: str, error: Exception) -> None:
    said = error.sentence if isinstance(error, InterlockError) else repr(error)
    log.warning("duty_failed", duty=name, error=said)


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
) -> None:
    """Serve until a signal comes; `tell` gets the address and where a token for it was put, if one was made.

    With `check`, serve until that has looked at the server at its address.
    """
    _configure_log()
    with _opened(settings, notify) as (service, upkeep, keep):
        loopback = is_loopback(host)
        if not loopback and not service.has_tokens():
            raise InvalidInput(
                "Nobody could use a server beyond this machine: there is no token yet.",
                "Make one first: interlock token create NAME --scope admin.",
            )
        up = Up(settings, service, upkeep, keep)
        config = uvicorn.Config(
            application(up.server, started=up.started, stopped=up.stopped),
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            server_header=False,
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="on",
            proxy_headers=False,
            ssl_certfile=certificate,
            ssl_keyfile=key,
            limit_concurrency=CONNECTIONS_MAX,
            h11_max_incomplete_event_size=HEAD_MAX_BYTES,
            timeout_graceful_shutdown=STOP_S,
        )

        def listening(url: str) -> None:
            tell(url, _local_token(service, url) if loopback and check is None else None)
            if check is not None:
                threading.Thread(target=_checked, args=(check, url, listener), daemon=True).start()

        listener = Listener(config, listening=listening, stopping=up.server.pulse.stop)
        try:
            listener.run()
        except SystemExit:  # it could not listen, and uvicorn's log has no reader
            raise InvalidInput(
                f"{host}:{port} cannot be listened on.", "Is a server there already? Choose another --port."
            ) from None


def _checked(check: Callable[[str], None], url: str, listener: Listener) -> None:
    try:
        check(url)
    finally:
        listener.should_exit = True


@contextmanager
def _opened(
    settings: Settings, notify: Callable[[Any], Callable[[], object]]
) -> Iterator[tuple[LocalService, list[app.Upkeep], app.Keep]]:
    service = cast("LocalService", app.open_service(settings=settings))
    try:
        with app.open_upkeep(settings, service, notify(service)) as (upkeep, keep):
            yield service, upkeep, keep
    finally:
        service.close()


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _local_token(service: LocalService, url: str) -> str | None:
    """A token for the user's own commands, in the user's own file; where that is, if one was made now."""
    try:
        if (known := credentials.token_for(url, os.environ)) is not None:
            service.bearer(known)
            return None
    except NoToken:
        pass
    made = service.create_token("local", scope="admin")
    assert made.token is not None
    path = credentials.keep_token(url, made.token, os.environ)
    return None if path is None else str(path)


def _configure_log() -> None:
    shown: Any = (
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            shown,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
