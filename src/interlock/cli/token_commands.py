"""`token`: let programs on other machines in, through a server."""

from __future__ import annotations

from typing import Annotated

from interlock.cli import typer, views
from interlock.cli.command import Group
from interlock.cli.invocation import invocation_of
from interlock.core.errors import Exit, InvalidInput
from interlock.service.access import EXPIRES_MAX_S, EXPIRES_MIN_S
from interlock.service.intake import span_s

token = Group("List, create and revoke tokens, with which programs on other machines use a server.")


@token.callback(lists=True)
def list_tokens(ctx: typer.Context) -> int:
    """List tokens: who has one, what it allows, when it was used last."""
    if ctx.invoked_subcommand is not None:
        return Exit.OK
    call = invocation_of(ctx)
    with call.reading() as service:
        found = service.tokens()
    return call.out.answer({"tokens": found}, lambda out: views.access.tokens(out, found))


@token.command("create")
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who or what it is for, such as a machine.")],
    *,
    scope: Annotated[
        str,
        typer.Option(metavar="SCOPE", help="admin, read, or agent:NAME, which acts for that agent only."),
    ],
    expires: Annotated[
        str | None, typer.Option(metavar="SPAN", help="After how long it ends, as in 30d; default: never.")
    ] = None,
) -> int:
    """Make a token, and print it. It is shown this once; the store has a hash of it."""
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
