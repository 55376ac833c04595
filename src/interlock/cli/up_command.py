"""`interlock up`: the server."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from interlock.cli import typer
from interlock.cli.invocation import Invocation, invocation_of
from interlock.cli.store_commands import notifier_of
from interlock.core.errors import Exit, InterlockError, InvalidInput, StoreUnavailable
from interlock.core.names import check_whole
from interlock.service.item_fields import whole

if TYPE_CHECKING:
    from interlock.http.application import MountedApp
    from interlock.http.handlers import Server
    from interlock.http.server import Listening
    from interlock.service.contract import Service
    from interlock.settings import Settings

PORT = 8420
#: A server must be ready within this time.
READY_S = 20.0


def up(
    ctx: typer.Context,
    *,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen. Beyond this machine a token must exist.")
    ] = "127.0.0.1",
    port: Annotated[str, typer.Option(metavar="PORT", help="The port; 0 takes a free one.")] = str(PORT),
    certificate: Annotated[
        str | None, typer.Option(metavar="FILE", help="For TLS: the certificate, with its chain (PEM).")
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="FILE", help="For TLS: the private key (PEM).")] = None,
    once: Annotated[bool, typer.Option("--once", help="Start, check readiness, and stop.")] = False,
    demo: Annotated[
        bool, typer.Option("--demo", help="On an empty store: run a small fleet of agents to look at.")
    ] = False,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the link to the dashboard, but open no browser.")
    ] = False,
) -> int:
    """Serve the dashboard, the API, tools for models and webhooks; sweep, send effects, and run notices.

    Any number of servers may run on one PostgreSQL. A signal ends it; open requests are finished first.
    """
    from interlock.http.server import PortInUse, serve
    from interlock.settings.store_url import scheme_of, store_location

    call = invocation_of(ctx)
    number = whole("--port", port)
    check_whole("--port", number, 0, 65_535)
    if (certificate is None) != (key is None):
        raise InvalidInput("TLS needs a certificate and its key.", "Give --certificate and --key.")
    for file in filter(None, (certificate, key)):
        if not os.access(file, os.R_OK):
            raise InvalidInput(f"{file} cannot be read.", "Name a PEM file.")
    if scheme_of(call.settings.url) == "http":
        raise InvalidInput(
            f"A server needs a store of its own, and INTERLOCK_URL names the server {call.settings.url}.",
            "Type `unset INTERLOCK_URL`, or let it name a database.",
        )
    trouble: list[InterlockError] = []
    log_file = None if once or call.out.json else _log_file(call)

    def tell(server: Listening) -> None:
        if call.out.json:
            call.out.print_json(
                {
                    "url": server.url,
                    "token_file": server.token_file,
                    "store": store_location(call.settings),
                }
            )
            return
        # A pipe may be a log, and no log may have the link.
        link = server.link if sys.stdout.isatty() else None
        sys.stdout.write(
            _start_message(call, server._replace(link=link), log_file and log_file[1], once=once)
        )
        sys.stdout.flush()
        if link is not None and not no_browser:
            from interlock.cli.browser import show_in_browser

            show_in_browser(link, call)

    def check(url: str) -> None:
        try:
            well = _ready_answer(url)
            call.out.answer(well, f"All is well: {', '.join(well['checks'])}.")
        except InterlockError as error:
            trouble.append(error)

    try:
        serve(
            call.settings,
            host=host,
            port=number,
            certificate=certificate,
            key=key,
            notify=lambda service: _notices(call, service),
            tell=tell,
            check=check if once else None,
            mounted=_mounted(call),
            log_file=log_file and log_file[0],
            demo=demo,
        )
    except PortInUse:
        _explain_own_server(call, number)
        raise
    if trouble:
        raise trouble[0]
    if not once and not call.out.json:
        _print_stopped()
    return Exit.OK


def _explain_own_server(call: Invocation, port: int) -> None:
    """Raise if the server on the port is one of this store."""
    from urllib.parse import urlsplit

    from interlock.cli.open_command import servers_of

    for url, _server in servers_of(call):
        if urlsplit(url).port == port:
            raise InvalidInput(
                f"This store is already served at {url}.", "`interlock open` opens it."
            ) from None


def _log_path(settings: Settings) -> Path:
    """The log of the server of a store, which no server of another store writes: beside a SQLite database,
    else in the repository, with a name made of the URL."""
    from hashlib import sha256

    from interlock.settings import sqlite_path, without_password
    from interlock.settings.places import DATABASE_NAME
    from interlock.settings.store_url import scheme_of

    if scheme_of(settings.url) == "sqlite":
        file = sqlite_path(settings.url, settings.root).absolute()
        name = "server.log" if file.name == DATABASE_NAME else f"server-{file.name}.log"
        return file.parent / "logs" / name
    digest = sha256(without_password(settings.url).encode()).hexdigest()
    return settings.home / "logs" / f"server-{digest[:8]}.log"


def _log_file(call: Invocation) -> tuple[int, str] | None:
    """An open log file and its path, if a person watches the terminal: request lines would scroll the
    server's first messages away. None elsewhere, or if no file can be created."""
    from interlock.settings.places import inside, make_home

    if not sys.stderr.isatty():
        return None
    path = _log_path(call.settings)
    logs = inside(call.settings.root, path.parent)
    try:
        make_home(logs.parent)
        logs.mkdir(exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(path, flags, 0o600), str(path)
    except OSError:
        return None


def _print_stopped() -> None:
    """A pipe without a reader must not delay the shutdown."""
    import select

    if select.select([], [sys.stdout], [], 0)[1]:
        sys.stdout.write("Stopped.\n")
        sys.stdout.flush()


def _mounted(call: Invocation) -> Callable[[Server], list[MountedApp]]:
    """The server's extra apps: the tools for models, and the dashboard."""
    from contextlib import nullcontext

    from interlock.dashboard.endpoint import Dashboard
    from interlock.http.application import MountedApp
    from interlock.http.request_log import log
    from interlock.mcp.endpoint import PATH, McpEndpoint
    from interlock.mcp.tools import Defaults

    defaults = Defaults(call.settings.types, call.settings.lanes)

    def made(server: Server) -> list[MountedApp]:
        def tell_defect(error: Exception) -> None:
            log.error("defect", where="mcp", exc_info=error)

        endpoint = McpEndpoint(server, defaults, tell_defect)
        dashboard = Dashboard(server)
        pages = [MountedApp(path, dashboard, nullcontext) for path in dashboard.paths]
        return [MountedApp(PATH, endpoint, endpoint.running), *pages]

    return made


def _notices(call: Invocation, service: Service) -> Callable[[], object]:
    return notifier_of(call, service).run


def _start_message(call: Invocation, server: Listening, log_file: str | None, *, once: bool) -> str:
    from interlock.settings.store_url import store_location

    url, token_file, link = server
    where = f"Interlock serves {store_location(call.settings)} at {url}\n"
    if once:
        return where
    token = f"Your own commands find a token for it in {token_file}.\n" if token_file else ""
    logged = f"Its log is {log_file}; only warnings are shown here.\n" if log_file else ""
    shown = f"The dashboard: {link}\nThat link works once, for ten minutes; `interlock open` makes another.\n"
    return (
        f"{where}{shown if link else ''}{token}{logged}"
        f"What it can do: {url}/docs; tools for models: {url}/mcp\n\n"
        "In another terminal:\n"
        f"{_path_words()}"
        f"  export INTERLOCK_URL={url}\n"
        "  interlock add 'Say hello' --lane issue:acme/app#1 --agent greeter\n"
        "  interlock next --agent greeter\n"
        "For another machine: interlock token create NAME --scope agent:coder\n"
        "Ctrl-C ends it.\n"
    )


def _path_words() -> str:
    """How to put this command on the PATH, if needed: as in a clone after `make up`."""
    import shlex
    import shutil
    from pathlib import Path

    own = Path(sys.executable).with_name("interlock")
    if shutil.which("interlock") is not None or not own.exists():
        return ""
    return f"  export PATH={shlex.quote(str(own.parent))}:$PATH\n"


def _ready_answer(url: str) -> dict[str, Any]:
    """Poll the server until it is ready, or time out."""
    import ssl
    import time
    import urllib.error
    import urllib.request

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it calls itself
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    deadline_s = time.monotonic() + READY_S
    while True:
        try:
            with opener.open(f"{url}/readyz", timeout=10.0) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (OSError, ValueError) as error:
            if time.monotonic() > deadline_s:
                raise _not_ready(url, error) from None
            time.sleep(0.1)


def _not_ready(url: str, error: Exception) -> InterlockError:
    from urllib.error import HTTPError

    if isinstance(error, HTTPError) and error.code == 503:
        checks = json.load(error)["checks"].values()
        return StoreUnavailable(
            "The server did not become ready. "
            + " ".join(each["detail"] for each in checks if not each["ok"]),
            "Run interlock doctor to check the store.",
        )
    return StoreUnavailable(
        f"The server has started, but did not answer at {url} within {READY_S:g} s.",
        "A firewall may block that address.",
    )
