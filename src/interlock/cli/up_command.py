"""`interlock up`: the server."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from interlock.cli import typer
from interlock.cli.invocation import Invocation, invocation_of
from interlock.cli.store_commands import notifier_of
from interlock.core.errors import Exit, InterlockError, InvalidInput, StoreUnavailable
from interlock.core.names import check_whole
from interlock.service.intake import whole

if TYPE_CHECKING:
    from interlock.http.application import Annex, Server
    from interlock.service.contract import Service

PORT = 8420
#: How long a server may take until it is ready.
WELL_S = 20.0


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
    once: Annotated[bool, typer.Option("--once", help="Start, check that all is well, and end.")] = False,
) -> int:
    """Serve the API, tools for models and webhooks, sweep, send what is owed to GitHub, and run notices.

    Any number of servers may run on one PostgreSQL. A signal ends it; open requests are finished first.
    """
    from interlock import app
    from interlock.http.server import serve

    call = invocation_of(ctx)
    number = whole("--port", port)
    check_whole("--port", number, 0, 65_535)
    if (certificate is None) != (key is None):
        raise InvalidInput("TLS needs a certificate and its key.", "Give --certificate and --key.")
    for file in filter(None, (certificate, key)):
        if not os.access(file, os.R_OK):
            raise InvalidInput(f"{file} cannot be read.", "Name a PEM file.")
    if app.scheme_of(call.settings.url) == "http":
        raise InvalidInput(
            f"A server needs a store of its own, and INTERLOCK_URL names the server {call.settings.url}.",
            "Type `unset INTERLOCK_URL`, or let it name a database.",
        )
    trouble: list[InterlockError] = []
    log_file = None if once or call.out.json else _log_file(call)

    def tell(url: str, token_file: str | None) -> None:
        if call.out.json:
            call.out.print_json({"url": url, "token_file": token_file, "store": app.place_of(call.settings)})
        else:
            sys.stdout.write(_words(call, url, token_file, log_file and log_file[1], once=once))
            sys.stdout.flush()

    def check(url: str) -> None:
        try:
            well = _is_well(url)
            call.out.answer(well, f"All is well: {', '.join(well['checks'])}.")
        except InterlockError as error:
            trouble.append(error)

    serve(
        call.settings,
        host=host,
        port=number,
        certificate=certificate,
        key=key,
        notify=lambda service: _notices(call, service),
        tell=tell,
        check=check if once else None,
        annexes=_annexes(call),
        log_file=log_file and log_file[0],
    )
    if trouble:
        raise trouble[0]
    if not once and not call.out.json:
        _say_stopped()
    return Exit.OK


def _log_file(call: Invocation) -> tuple[int, str] | None:
    """A file for the log, open, and its path, if a person watches the terminal: a line for each request would
    scroll away what the server said at its start. None elsewhere, and where no file can be made."""
    from interlock.settings.places import inside, make_home

    if not sys.stderr.isatty():
        return None
    home = call.settings.home
    logs = inside(call.settings.root, home / "logs")
    try:
        make_home(home)
        logs.mkdir(exist_ok=True)
        path = logs / "server.log"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(path, flags, 0o600), str(path)
    except OSError:
        return None


def _say_stopped() -> None:
    """A pipe that nobody reads must not hold up the end."""
    import select

    if select.select([], [sys.stdout], [], 0)[1]:
        sys.stdout.write("Stopped.\n")
        sys.stdout.flush()


def _annexes(call: Invocation) -> Callable[[Server], list[Annex]]:
    """What the server has beside its API: the tools for models."""
    from interlock.http.application import Annex, log
    from interlock.mcp.door import PATH, Door
    from interlock.mcp.tools import Defaults

    defaults = Defaults(call.settings.types, call.settings.lanes)

    def made(server: Server) -> list[Annex]:
        def tell_defect(error: Exception) -> None:
            log.error("defect", where="mcp", exc_info=error)

        door = Door(server, defaults, tell_defect)
        return [Annex(PATH, door, door.running)]

    return made


def _notices(call: Invocation, service: Service) -> Callable[[], object]:
    return notifier_of(call, service).run


def _words(call: Invocation, url: str, token_file: str | None, log_file: str | None, *, once: bool) -> str:
    from interlock import app

    where = f"Interlock serves {app.place_of(call.settings)} at {url}\n"
    if once:
        return where
    token = f"Your own commands find a token for it in {token_file}.\n" if token_file else ""
    logged = f"Its log is {log_file}; only warnings are shown here.\n" if log_file else ""
    return (
        f"{where}{token}{logged}"
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
    """How a terminal finds this command, if it does not yet: as in a clone after `make up`."""
    import shlex
    import shutil
    from pathlib import Path

    own = Path(sys.executable).with_name("interlock")
    if shutil.which("interlock") is not None or not own.exists():
        return ""
    return f"  export PATH={shlex.quote(str(own.parent))}:$PATH\n"


def _is_well(url: str) -> dict[str, Any]:
    """Ask the server itself whether it is ready, for a while."""
    import ssl
    import time
    import urllib.error
    import urllib.request

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it talks to itself
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    deadline_s = time.monotonic() + WELL_S
    while True:
        try:
            with opener.open(f"{url}/readyz", timeout=10.0) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (OSError, ValueError) as error:
            if time.monotonic() > deadline_s:
                raise _unwell(url, error) from None
            time.sleep(0.1)


def _unwell(url: str, error: Exception) -> InterlockError:
    from urllib.error import HTTPError

    if isinstance(error, HTTPError) and error.code == 503:
        checks = json.load(error)["checks"].values()
        return StoreUnavailable(
            "The server does not become ready. "
            + " ".join(each["detail"] for each in checks if not each["ok"]),
            "interlock doctor looks at the store.",
        )
    return StoreUnavailable(
        f"The server has started, but did not answer at {url} within {WELL_S:g} s.",
        "Something on this machine keeps connections to that address away, such as a firewall.",
    )
