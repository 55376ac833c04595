"""`token`: give programs on other machines access to a server."""

from __future__ import annotations

from typing import Annotated

from interlock.cli import typer, views
from interlock.cli.command import Group
from interlock.cli.invocation import invocation_of
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
) -> int:
    """Create a token and print it once. The store keeps only a hash."""
    call = invocation_of(ctx)
    expires_s = None if expires is None else span_s("--expires", expires)
    if expires_s is not None and not EXPIRES_MIN_S <= expires_s <= EXPIRES_MAX_S:
        low, high = f"{EXPIRES_MIN_S:.0f}s", f"{EXPIRES_MAX_S / 86_400:.0f}d"
        raise InvalidInput(f"--expires {expires} is out of range.", f"Use {low} to {high}.")
    with call.service() as service:
        made = service.create_token(name, scope=scope, expires_s=expires_s)
    return call.out.answer(made, str(made.token))


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
