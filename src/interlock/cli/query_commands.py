"""Read-only commands: list, show, why, events, stats, top."""

from __future__ import annotations

import sys
from typing import Annotated

from interlock.cli import typer, views
from interlock.cli.invocation import Invocation, invocation_of, mention_near_agent
from interlock.cli.options import Every, ItemOrHandle, Limit, OnlyLane, every_s_of, limit_of
from interlock.cli.output import tell
from interlock.cli.values import item_number, whole_or_none
from interlock.core.ci import CiFilter
from interlock.core.errors import Exit
from interlock.core.names import SEARCHED, lane_key, nearest
from interlock.core.states import ItemStatus
from interlock.service.contract import EndedRunView, ItemFilter, Service, StatsBy
from interlock.service.item_fields import choice, span_s
from interlock.service.item_view import ItemView


def list_items(
    ctx: typer.Context,
    *,
    all_: Annotated[bool, typer.Option("--all", help="Ended items as well.")] = False,
    status: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATUS", autocompletion=lambda: list(ItemStatus), help="Only this status; repeatable."
        ),
    ] = None,
    dead: Annotated[
        bool, typer.Option("--dead", help="Dead letters: failed after the last attempt.")
    ] = False,
    asking: Annotated[
        bool, typer.Option("--asking", help="Only items that wait for a person's answer, with the question.")
    ] = False,
    ci: Annotated[
        str | None,
        typer.Option(
            metavar="OUTCOME",
            autocompletion=lambda: list(CiFilter),
            help="Only this outcome of the checks: pending, success, failure, cancelled, none.",
        ),
    ] = None,
    lane: OnlyLane = None,
    agent: Annotated[str | None, typer.Option(metavar="NAME", of="items.agent")] = None,
    project: Annotated[str | None, typer.Option(metavar="NAME", of="items.project")] = None,
    type_: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="Only items of this type; repeatable.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="LABEL", help="Only items that need this label.")
    ] = None,
    grep: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Only items with this text in title, lane, agent or dedupe key.",
        ),
    ] = None,
    limit: Limit = "100",
    watch: Annotated[bool, typer.Option("--watch", help="Keep showing it; q or Ctrl-C ends it.")] = False,
    every: Every = "1s",
) -> int:
    """List running and waiting items."""
    call = invocation_of(ctx)
    lawful = tuple(ItemStatus)
    statuses = tuple(choice("--status", text, lawful) for text in status or ())
    if dead:
        statuses += (ItemStatus.FAILED.value,)
    count = limit_of(limit)
    wanted = ItemFilter(
        all=all_,
        statuses=statuses,
        lane=lane,
        agent=agent,
        project=project,
        types=tuple(type_ or ()),
        label=label,
        text=grep,
        asking=asking,
        ci=None if ci is None else choice("--ci", ci, tuple(CiFilter)),
        limit=count,
    )
    unfinished = wanted == ItemFilter(limit=count)
    if watch:
        every_s = every_s_of(every)
        with call.watching() as service:
            views.itemwatch.watch(call, service, wanted, every_s, unfinished=unfinished)
        return Exit.OK
    unsent = None
    with call.reading() as service:
        found = service.items(wanted)
        if not call.out.json and (unfinished or dead):
            unsent = views.github.unsent(service.owed_to_github())
        if not (found or call.out.json):
            mention_near_agent(service, agent)
            _mention_near_lane(service, lane)
    call.out.answer(
        {"items": found},
        lambda out: views.items.listing(
            out,
            found,
            limit=count,
            unfinished=unfinished,
            searched=SEARCHED if grep or label else None,
            below=unsent,
        ),
    )
    call.name_store(found)
    return Exit.OK


def _mention_near_lane(service: Service, lane: str | None) -> None:
    """Warn if a lane that never had an item looks like a typo of a lane with recent items."""
    if lane is None or service.items(ItemFilter(all=True, lane=lane, limit=1)):
        return
    lanes = {item.lane or "" for item in service.items(ItemFilter(all=True, limit=1_000))}
    if (near := nearest(lane_key(lane), lanes, likeness=0.8)) is not None:
        tell(f"No item is on lane {lane!r}; did you mean {near!r}?")


def show(
    ctx: typer.Context,
    item: ItemOrHandle = None,
) -> int:
    """Show one item: its state, runs, messages and history."""
    call = invocation_of(ctx)
    with call.reading(stand_in=False) as service:
        answer = service.show(item_number(service, item))
    call.out.answer(answer, lambda out: views.items.detail(out, answer))
    if not call.out.json and answer.runs:
        _name_log(call, answer.runs[-1].run)
    return Exit.OK


def why(
    ctx: typer.Context,
    item: ItemOrHandle = None,
) -> int:
    """Explain what an item waits for and what will move it."""
    call = invocation_of(ctx)
    with call.reading(stand_in=False) as service:
        answer = service.why(item_number(service, item))
        failed = None if call.out.json else _failed_run(service, answer.item)
    call.out.answer(answer, lambda out: views.items.explained(out, answer, failed))
    if failed is not None:
        _name_log(call, failed.run)
    return Exit.OK


def events(
    ctx: typer.Context,
    *,
    after: Annotated[str | None, typer.Option(metavar="SEQ", help="Only events after this number.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new events.")] = False,
    item: Annotated[str | None, typer.Option(metavar="ITEM", of="events.item")] = None,
    lane: OnlyLane = None,
    limit: Limit = "100",
) -> int:
    """Print the history: the newest events, or all after a number."""
    call = invocation_of(ctx)
    start, number = whole_or_none("--after", after), whole_or_none("--item", item)
    count = limit_of(limit)
    with call.watching() if follow else call.reading(stand_in=number is None) as service:
        if number is not None:
            service.why(number)  # raises if there is no such item
        if follow:
            return _follow(call, service, start, number, None if lane is None else lane_key(lane))
        found = service.events(after=start or 0, limit=count, item=number, lane=lane, newest=start is None)
    filtered = not (start is None and number is None and lane is None)
    call.out.answer({"events": found}, lambda out: views.history.listing(out, found, filtered=filtered))
    call.name_store(found)
    return Exit.OK


def stats(
    ctx: typer.Context,
    window: Annotated[
        str, typer.Option(metavar="SPAN", help="Rates and spans over the last 1h, 10m …")
    ] = "1h",
    by: Annotated[
        str | None, typer.Option(metavar="WHAT", help="Also by project, type, agent or priority.")
    ] = None,
) -> int:
    """Count items, claims, endings and losses."""
    call = invocation_of(ctx)
    window_s = span_s("--window", window)
    by = None if by is None else choice("--by", by, tuple(StatsBy))
    with call.reading() as service:
        answer = service.stats(window_s=window_s, by=by)
    return call.out.answer(answer, lambda out: views.figures.stats(out, answer))


def top(
    ctx: typer.Context,
    every: Every = "1s",
) -> int:
    """Watch lanes, runs and the queue live. q or Ctrl-C ends it."""
    call = invocation_of(ctx)
    every_s = every_s_of(every)
    if call.out.json:
        with call.reading() as service:
            call.out.print_json(views.live.look(service))
    else:
        with call.watching() as service:
            views.live.watch(call.out.console, service, every_s, call.outage, warning=call.warning)
    return Exit.OK


def _failed_run(service: Service, item: ItemView) -> EndedRunView | None:
    """The last run of an item, if the item is in back-off after its failure."""
    if item.run_at is None or item.asking or item.run is not None:
        return None
    runs = service.show(item.id).runs
    return runs[-1] if runs and runs[-1].error and runs[-1].status in ("failed", "timed_out") else None


def _name_log(call: Invocation, run: int) -> None:
    """Print the path of the last run's log, if it is on this host."""
    from interlock.settings.places import run_log

    path = run_log(call.settings.home, run)
    if path.is_file():
        call.out.answer(None, f"\nLog of run {run}: {path} (interlock log {run})")


def _follow(call: Invocation, service: Service, after: int | None, item: int | None, lane: str | None) -> int:
    out = call.out
    if after is None:
        newest = service.events(limit=1, newest=True)
        after = newest[0].seq if newest else 0
    if sys.stderr.isatty():  # nothing may happen for a long time
        tell(f"Following events after {after}; Ctrl-C ends it.")
    for event in service.follow(after=after):
        if item not in (None, event.item) or lane not in (None, event.lane):
            continue
        if out.json:
            out.print_json(event)
        else:
            views.history.line(out.page, event)
    return Exit.OK
