"""What a worker types: claim, renew, end a run, read and write messages."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated

import typer

from interlock.cli.options import OnlyTypes, OwnLabels, limit_of
from interlock.cli.session import Session, session_of
from interlock.cli.values import json_text, span_or_none, text_of, whole_or_none
from interlock.core.errors import Exit, InvalidInput
from interlock.core.names import MESSAGE_MAX_BYTES, WAIT_MAX_S, check_number
from interlock.service.contract import Report, RunView
from interlock.service.intake import span_s, whole

_Handles = Annotated[
    list[str] | None, typer.Argument(metavar="HANDLE…", help="From next; without one INTERLOCK_RUN is taken.")
]
_Seen = Annotated[
    str | None, typer.Option(metavar="N", help="The last message you have read: moves the run's read mark.")
]


def claim(
    ctx: typer.Context,
    *,
    agent: Annotated[str, typer.Option(metavar="NAME", help="Who asks. Names are compared without case.")],
    type_: OnlyTypes = None,
    label: OwnLabels = None,
    limit: Annotated[str, typer.Option(metavar="N", help="Claim up to so many.")] = "1",
    wait: Annotated[str, typer.Option(metavar="SPAN", help="Wait for work, at most 60 s.")] = "0",
    lease: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Length of the lease, as in 90s or 5m.")
    ] = None,
    worker: Annotated[
        str | None, typer.Option(metavar="NAME", help="The process that asks, for the history.")
    ] = None,
    item: Annotated[
        str | None, typer.Option(metavar="ITEM", help="Only this item, if it may be claimed.")
    ] = None,
) -> int:
    """Claim the next item; its handle is the right to end it."""
    session = session_of(ctx)
    count, wait_s = limit_of(limit), span_s("wait", wait)
    check_number("wait", wait_s, 0, WAIT_MAX_S)
    lease_s = span_or_none("lease", lease)
    number = whole_or_none("item", item)
    with session.service() as service:
        leases = service.next(
            agent,
            types=type_ or (),
            labels=label or (),
            limit=count,
            wait_s=wait_s,
            lease_s=lease_s,
            worker=worker,
            item=number,
        )
        why = service.why(number).why if number is not None and not leases else None
    if session.out.json:
        session.out.print_json({"leases": leases})
    else:
        from interlock.cli.views import runs

        runs.leases(session.out.console, agent, leases, why=why)
    return Exit.OK if leases else Exit.NO_WORK


def renew(ctx: typer.Context, handles: _Handles = None, seen: _Seen = None) -> int:
    """Keep your leases; learn of cancel requests and new messages."""
    session = session_of(ctx)
    reports = _reports(handles, seen)
    with session.lanes() as service:
        return _print_runs(session, service.renew(reports))


def done(
    ctx: typer.Context,
    handles: _Handles = None,
    seen: _Seen = None,
    result: Annotated[
        str | None, typer.Option(metavar="JSON", help="Kept with the run: JSON, @FILE or -.")
    ] = None,
) -> int:
    """Say that the work is finished."""
    session = session_of(ctx)
    reports = _reports(handles, seen, result=None if result is None else json_text("result", result))
    with session.lanes() as service:
        return _print_runs(session, service.done(reports))


def fail(
    ctx: typer.Context,
    handles: _Handles = None,
    seen: _Seen = None,
    error: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What went wrong: text, @FILE or -.")
    ] = None,
    no_retry: Annotated[
        bool, typer.Option("--no-retry", help="Fail for good, although attempts are left.")
    ] = False,
) -> int:
    """Say that the attempt failed.

    The item is tried again after a back-off while attempts are left.
    """
    session = session_of(ctx)
    text = None if error is None else text_of("error", error, MESSAGE_MAX_BYTES)
    reports = _reports(handles, seen, error=text, retry=not no_retry)
    with session.lanes() as service:
        return _print_runs(session, service.fail(reports))


def release(
    ctx: typer.Context,
    handles: _Handles = None,
    seen: _Seen = None,
    item: Annotated[
        str | None, typer.Option(metavar="ITEM", help="As operator: take this item from its run.")
    ] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why, for the history; with --item.")
    ] = None,
) -> int:
    """Give the item back without a result; it is offered again."""
    session = session_of(ctx)
    if item is None:
        if reason is not None:
            raise InvalidInput("A reason goes with --item.", "A holder releases with its handle alone.")
        reports = _reports(handles, seen)
        with session.lanes() as service:
            return _print_runs(session, service.release(reports))
    if handles or seen is not None:
        raise InvalidInput("Handles and --item are given at once.", "Use one or the other.")
    if not reason:
        raise InvalidInput("There is no reason.", "Say why with --reason TEXT; it is kept in the history.")
    number = whole("item", item)
    with session.service() as service:
        change = service.take_back(number, why=reason, by=session.settings.actor)
    if session.out.json:
        session.out.print_json({"changes": [change]})
    else:
        from interlock.cli.views import items

        items.change(session.out.console, "was taken from its run", change)
    return Exit.OK


def inbox(
    ctx: typer.Context,
    handle: Annotated[
        str | None, typer.Argument(metavar="HANDLE", help="Without one INTERLOCK_RUN is taken.")
    ] = None,
    seen: _Seen = None,
) -> int:
    """Read the messages your run has not seen yet."""
    session = session_of(ctx)
    run = _handles([handle] if handle else None)[0]
    mark = whole_or_none("seen", seen) or 0
    with session.lanes() as service:
        messages = service.inbox(run, seen=mark)
    if session.out.json:
        session.out.print_json({"messages": messages})
    else:
        from interlock.cli.views import runs

        runs.inbox(session.out.console, run, messages)
    return Exit.OK


def msg(
    ctx: typer.Context,
    item: Annotated[str, typer.Argument(metavar="ITEM", help="The item's number.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say, or - for stdin.")],
    author: Annotated[str | None, typer.Option(metavar="NAME", help="Who says it; default: you.")] = None,
    from_bot: Annotated[bool, typer.Option("--from-bot", help="From our own bot: it wakes nothing.")] = False,
) -> int:
    """Send a message to whoever works on an item, now or later."""
    session = session_of(ctx)
    number = whole("item", item)
    said = text_of("message", text, MESSAGE_MAX_BYTES) if text == "-" else text
    signed = session.settings.actor if author is None else author
    with session.lanes() as service:
        change = service.msg(number, said, author=signed, from_bot=from_bot)
    if session.out.json:
        session.out.print_json(change)
    else:
        from interlock.cli.views import items

        items.told(session.out.console, number, change)
    return Exit.OK


def _handles(given: list[str] | None) -> list[str]:
    handles = given or os.environ.get("INTERLOCK_RUN", "").split()
    if not handles:
        raise InvalidInput(
            "There is no handle.", "Give the one that `interlock next` printed, or set INTERLOCK_RUN."
        )
    return handles


def _reports(
    given: list[str] | None,
    seen: str | None,
    *,
    result: str | None = None,
    error: str | None = None,
    retry: bool = True,
) -> list[Report]:
    handles = _handles(given)
    mark = whole_or_none("seen", seen) or 0
    if mark and len(handles) > 1:
        raise InvalidInput(
            "--seen is given for several runs.", "Each run has its own read mark: report them one by one."
        )
    return [Report(run=handle, seen=mark, result=result, error=error, retry=retry) for handle in handles]


def _print_runs(session: Session, answers: list[RunView]) -> int:
    """All answers, and exit 5 if one of them is a refusal."""
    if session.out.json:
        session.out.print_json({"runs": answers})
    else:
        from interlock.cli.views import runs

        refuse: Callable[[str, str], None] = session.out.refuse
        runs.reports(session.out.console, answers, refuse)
    return Exit.LEASE_LOST if any(answer.refusal is not None for answer in answers) else Exit.OK
