"""`interlock open`: the dashboard in a browser, signed in by a one-time link."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from interlock.cli import typer
from interlock.cli.invocation import Invocation, invocation_of
from interlock.cli.values import item_number
from interlock.core.errors import InterlockError, NotFound

if TYPE_CHECKING:
    from interlock.service.contract import LinkToSignIn, Service

#: How long a server of this machine may take to answer.
PATIENCE_S = 5.0


def open_dashboard(
    ctx: typer.Context,
    item: Annotated[str | None, typer.Argument(metavar="[ITEM]", help="The item whose page to open.")] = None,
    *,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the link, but open no browser.")
    ] = False,
) -> int:
    """Open the dashboard, or the page of an item, with a one-time link. The link is valid for ten minutes."""
    from urllib.parse import quote

    from interlock.cli.browser import show_in_browser

    call, number = invocation_of(ctx), None
    if item is not None:
        with call.reading(stand_in=False) as service:
            number = service.show(item_number(service, item)).item.id  # an unknown item has no page
    url, made = _link(call)
    link = f"{url}{made.path}" + ("" if number is None else f"&next={quote(f'/items/{number}')}")
    opened = not no_browser and not call.out.json and show_in_browser(link, call)
    said = f"{link}\nThe link works once, within {made.expires_s / 60:.0f} minutes."
    answer = {"url": link, "expires_s": made.expires_s, "opened": opened}
    return call.out.answer(answer, f"{said}{' A browser is opening it.' if opened else ''}")


def _link(call: Invocation) -> tuple[str, LinkToSignIn]:
    """A server of the chosen store, and a link to it."""
    from interlock.settings.store_url import scheme_of

    if scheme_of(call.settings.url) in ("http", "https"):
        with call.service() as service:
            return call.settings.url.rstrip("/"), service.sign_in_link()
    for url, server in servers_of(call):
        try:
            return url, server.sign_in_link()
        except InterlockError:  # it has just stopped
            continue
    raise NotFound(
        "No server of this store runs on this machine.",
        "Start one with `interlock up`, or set INTERLOCK_URL.",
    )


def servers_of(call: Invocation) -> Iterator[tuple[str, Service]]:
    """The servers of the chosen store that run on this machine."""
    from contextlib import closing

    from interlock.remote.service import connect
    from interlock.settings import credentials

    with call.reading(stand_in=False) as service:
        store = service.lineage().store
    for url, token in credentials.local_servers(os.environ):
        with closing(connect(url, token, patience_s=PATIENCE_S)) as server:
            try:
                its_own = server.lineage().store == store
            except InterlockError:  # it has stopped, or serves another store
                continue
            if its_own:
                yield url, server
