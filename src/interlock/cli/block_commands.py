"""`interlock block` and `interlock unblock`: work waits for something outside."""

from __future__ import annotations

from typing import Annotated

from interlock.cli import typer
from interlock.cli.invocation import invocation_of
from interlock.cli.options import Reason
from interlock.core.errors import InvalidInput
from interlock.service.contract import BlockView
from interlock.service.item_fields import whole

_TARGET = typer.Argument(metavar="LANE|ITEM", help="A lane, or an item's number.")


def block(
    ctx: typer.Context,
    target: Annotated[str | None, _TARGET] = None,
    by: Annotated[str | None, typer.Option(metavar="WHAT", of="block.blocker")] = None,
    reason: Reason = "",
    link: Annotated[str, typer.Option(metavar="URL", of="block.url")] = "",
) -> int:
    """Block a lane or an item until `unblock`; running work continues.

    Without arguments, the command lists all blocks.
    """
    call = invocation_of(ctx)
    if target is None:
        if by is not None or reason or link:
            raise InvalidInput("No lane or item was given.", "Name a lane or an item.")
        with call.reading() as service:
            found = service.blocks(limit=1_000)
        return call.out.answer({"blocks": found}, "\n".join(map(_line, found)) or "Nothing is blocked.")
    if by is None:
        raise InvalidInput("--by is missing.", "Name the blocker, as in --by acme/app#3.")
    lane, item = _of(target)
    with call.service() as service:
        made = service.block(lane=lane, item=item, blocker=by, why=reason, url=link, by=call.settings.actor)
    return call.out.answer({"blocks": [made]}, f"{_line(made)} Running work continues.")


def unblock(
    ctx: typer.Context,
    target: Annotated[str, _TARGET],
    by: Annotated[str | None, typer.Option(metavar="WHAT", of="unblock.blocker")] = None,
    reason: Reason = "",
) -> int:
    """Unblock a lane or an item."""
    call = invocation_of(ctx)
    lane, item = _of(target)
    with call.service() as service:
        gone = service.unblock(lane=lane, item=item, blocker=by, why=reason, by=call.settings.actor)
    text = f"{_named(lane, item)} is no longer blocked by {', '.join(gone)}."
    nothing = f"{_named(lane, item)} was not blocked{f' by {by}' if by else ''}."
    return call.out.answer({"unblocked": gone}, text if gone else nothing)


def _of(target: str) -> tuple[str | None, int | None]:
    return (None, whole("item", target)) if target.strip().isdecimal() else (target, None)


def _named(lane: str | None, item: int | None) -> str:
    return f"Item {item}" if lane is None else f"Lane {lane}"


def _line(block: BlockView) -> str:
    seen = f", see {block.url}" if block.url else ""
    return f"{_named(block.lane, block.item)} is blocked by {block.blocker} ({block.reason}{seen})."
