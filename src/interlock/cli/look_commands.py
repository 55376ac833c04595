"""Looking without changing anything: list, show, why, events, stats, top."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated

import typer

from interlock.cli.options import Every, ItemOrHandle, Limit, OnlyLane, every_s_of, limit_of
from interlock.cli.session import session_of
from interlock.cli.values import whole_or_none
from interlock.core.errors import Exit, InvalidInput
from interlock.core.names import lane_key
from interlock.core.states import ItemStatus
from interlock.service.contract import EventView, ItemFilter, Service
from interlock.service.intake import choice, span_s, whole


def _statuses() -> list[str]:
    return list(ItemStatus)


def list_items(
    ctx: typer.Context,
    *,
    all_: Annotated[bool, typer.Option("--all", help="Ended items as well.")] = False,
    status: Annotated[
        list[str] | None,
        typer.Option(metavar="STATUS", autocompletion=_statuses, help="Only this status; repeatable."),
    ] = None,
    dead: Annotated[
        bool, typer.Option("--dead", help="Dead letters: failed after the last attempt.")
    ] = False,
    lane: OnlyLane = None,
    agent: Annotated[str | None, typer.Option(metavar="NAME", help="Only this agent's.")] = None,
    project: Annotated[str | None, typer.Option(metavar="NAME", help="Only this project.")] = None,
    type_: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only this type.")] = None,
    limit: Limit = "100",
) -> int:
    """List items: what runs, what waits and for whom."""
    session = session_of(ctx)
    lawful = tuple(ItemStatus)
    statuses = tuple(choice("status", text, lawful) for text in status or ())
    if dead:
        statuses += (ItemStatus.FAILED.value,)
    count = limit_of(limit)
    wanted = ItemFilter(
        all=all_, statuses=statuses, lane=lane, agent=agent, project=project, type=type_, limit=count
    )
    with session.service() as service:
        found = service.items(wanted)
    if session.out.json:
        session.out.print_json({"items": found})
    else:
        from interlock.cli.views import items

        items.listing(session.out.console, found, limit=count, unfinished=not all_ and not statuses)
    return Exit.OK


def show(
    ctx: typer.Context,
    item: ItemOrHandle = None,
) -> int:
    """Show one item: its state, runs, messages and history."""
    session = session_of(ctx)
    with session.service() as service:
        answer = service.show(_item(service, item))
    if session.out.json:
        session.out.print_json(answer)
    else:
        from interlock.cli.views import items

        items.detail(session.out.console, answer)
    return Exit.OK


def why(
    ctx: typer.Context,
    item: ItemOrHandle = None,
) -> int:
    """Say what an item waits for and what will move it."""
    session = session_of(ctx)
    with session.service() as service:
        answer = service.why(_item(service, item))
    if session.out.json:
        session.out.print_json(answer)
    else:
        from interlock.cli.views import words

        session.out.console.print(words.harmless(answer.why))
    return Exit.OK


def events(
    ctx: typer.Context,
    *,
    after: Annotated[
        str | None, typer.Option(metavar="SEQ", help="Only what came after this number.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on printing as things happen.")] = False,
    item: Annotated[str | None, typer.Option(metavar="ITEM", help="Only this item.")] = None,
    lane: OnlyLane = None,
    limit: Limit = "100",
) -> int:
    """Print the history: the newest events, or those after a number."""
    session = session_of(ctx)
    start, number = whole_or_none("after", after), whole_or_none("item", item)
    count = limit_of(limit)
    with session.service() as service:
        if follow:
            return _follow(ctx, service.follow(after=start), number, None if lane is None else lane_key(lane))
        found = service.events(after=start or 0, limit=count, item=number, lane=lane, newest=start is None)
    if session.out.json:
        session.out.print_json({"events": found})
    else:
        from interlock.cli.views import history

        history.listing(session.out.console, found)
    return Exit.OK


def stats(
    ctx: typer.Context,
    window: Annotated[
        str, typer.Option(metavar="SPAN", help="Rates and spans over the last 1h, 10m …")
    ] = "1h",
) -> int:
    """Count items, claims, endings and losses."""
    session = session_of(ctx)
    window_s = span_s("window", window)
    with session.service() as service:
        answer = service.stats(window_s=window_s)
    if session.out.json:
        session.out.print_json(answer)
    else:
        from interlock.cli.views import figures

        figures.stats(session.out.console, answer)
    return Exit.OK


def top(
    ctx: typer.Context,
    every: Every = "1s",
) -> int:
    """Watch lanes, runs and the queue live. q or Ctrl-C ends it."""
    session = session_of(ctx)
    every_s = every_s_of(every)
    with session.service() as service:
        from interlock.cli.views import live

        if session.out.json:
            session.out.print_json(live.look(service))
        else:
            live.watch(session.out.console, service, every_s)
    return Exit.OK


def _follow(ctx: typer.Context, happening: Iterator[EventView], item: int | None, lane: str | None) -> int:
    out = session_of(ctx).out
    for event in happening:
        if item not in (None, event.item) or lane not in (None, event.lane):
            continue
        if out.json:
            out.print_json(event)
        else:
            from interlock.cli.views import history

            history.line(out.console, event)
    return Exit.OK


def _item(service: Service, text: str | None) -> int:
    """An item's number, from a number or a run's handle."""
    text = text or os.environ.get("INTERLOCK_RUN", "")
    if not text:
        raise InvalidInput(
            "There is no item.", "Give its number, as `interlock ls` shows it, or a run's handle."
        )
    if "." in text:
        return service.item_of(text)
    if not text.removeprefix("-").isdecimal():
        raise InvalidInput(
            f"{text[:80]!r} is neither the number of an item nor the handle of a run.",
            "Give the number that `interlock ls` shows, or the handle that `interlock next` printed.",
        )
    return whole("item", text)
