"""`token`: give programs on other machines access to a server."""

from __future__ import annotations

import sys
from typing import Annotated

from interlock.cli import typer, views
from interlock.cli.command import Group
from interlock.cli.invocation import Invocation, invocation_of
from interlock.cli.output import tell
from interlock.core.errors import Exit, InvalidInput
from interlock.service.access import EXPIRES_MAX_S, EXPIRES_MIN_S
from interlock.service.item_fields import span_s

token = Group("List, create and revoke tokens, with which programs on other machines use a server.")


@token.callback(lists=True)
def list_tokens(ctx: typer.Context) -> int:
    """List tokens: name, scope and last use."""
    if ctx.invoked_subcommand is not None:
        return Exit.OK
    call = invocation_of(ctx)
    with call.reading() as service:
        found = service.tokens()
    return call.out.answer({"tokens": found}, lambda out: views.access.tokens(out, found))


@token.command("create")
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", of="create_token.name")],
    *,
    scope: Annotated[
        str,
        typer.Option(metavar="SCOPE", of="create_token.scope"),
    ],
    expires: Annotated[
        str | None, typer.Option(metavar="SPAN", help="When it expires, as in 30d; default: never.")
    ] = None,
    export: Annotated[
        bool,
        typer.Option("--export", help="Print `export` lines for the other machine instead of the token."),
    ] = False,
) -> int:
    """Create a token and print it once. The store keeps only a hash."""
    call = invocation_of(ctx)
    url = _url(call)
    if export and url is None:
        raise InvalidInput(
            "The server's address is not known here.", "Set public_url, as in INTERLOCK_PUBLIC_URL=https://…"
        )
    expires_s = None if expires is None else span_s("--expires", expires)
    if expires_s is not None and not EXPIRES_MIN_S <= expires_s <= EXPIRES_MAX_S:
        low, high = f"{EXPIRES_MIN_S:.0f}s", f"{EXPIRES_MAX_S / 86_400:.0f}d"
        raise InvalidInput(f"--expires {expires} is out of range.", f"Use {low} to {high}.")
    with call.service() as service:
        made = service.create_token(name, scope=scope, expires_s=expires_s)
    lines = exports(url, str(made.token))
    if export:
        return call.out.answer(made, lines)
    if sys.stdout.isatty() and not call.out.json:
        tell(f"On the other machine:\n{lines}")
    return call.out.answer(made, str(made.token))


def exports(url: str | None, token: str) -> str:
    """The lines with which a shell on another machine uses the server."""
    from shlex import quote

    where = "https://…  # the server's address" if url is None else quote(url)
    return f"export INTERLOCK_URL={where}\nexport INTERLOCK_TOKEN={quote(token)}"


def _url(call: Invocation) -> str | None:
    """The server's address as other machines reach it, if it is known here."""
    from urllib.parse import urlsplit

    from interlock.settings.store_url import scheme_of

    chosen = call.settings.public_url
    if chosen and urlsplit(chosen).scheme not in ("http", "https"):
        raise InvalidInput(
            f"public_url is {chosen[:80]!r}, which is not the address of a server.", "Use https://HOST."
        )
    if chosen or scheme_of(call.settings.url) != "http":
        return chosen or None
    host = urlsplit(call.settings.url).hostname or ""
    here = host in ("localhost", "::1") or host.startswith("127.")
    return None if here else call.settings.url


@token.command("revoke")
def revoke(
    ctx: typer.Context,
    token: Annotated[str, typer.Argument(metavar="NAME|ID", help="Its name, or its id, as in the list.")],
) -> int:
    """Revoke a token. Servers notice within five seconds."""
    call = invocation_of(ctx)
    with call.service() as service:
        before = {each.id for each in service.tokens() if each.revoked_at is not None}
        gone = service.revoke_token(token)
    state = "was already revoked" if gone.id in before else "is revoked"
    return call.out.answer(gone, f"Token {gone.id} ({gone.name}) {state}.")
