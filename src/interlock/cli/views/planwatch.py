"""`plan watch`: draws a plan until it ends; without a terminal, prints a line for each change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from interlock.cli.views import live, plans, words
from interlock.core.store_outage import StoreOutage
from interlock.plans.drawing.symbols import sign
from interlock.plans.render import picture
from interlock.service.contract import Service, to_json
from interlock.service.plan_view import PlanView

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_BUSY_FIRST = ("in_progress", "failed", "pending", "deferred", "waiting", "cancelled", "completed")


def watch(
    console: Console,
    service: Service,
    plan: int,
    every_s: float,
    outage: StoreOutage,
    *,
    warning: str | None = None,
) -> PlanView:
    """Draw until the plan ends or the reader quits; gives the last view."""
    if not console.is_terminal:
        return _print_changes(console, service, plan, every_s)
    seen = service.plan(plan)

    def frame() -> RenderableType | None:
        nonlocal seen
        seen = service.plan(plan)
        return draw(seen, console.width, console.height) if seen.ended_at is None else None

    live.redraw(console, frame, every_s, outage, warning=warning)
    console.print(draw(seen, console.width, None))
    return seen


def emit(service: Service, plan: int, every_s: float, write: Callable[[PlanView], None]) -> PlanView:
    """Write every state that differs from the one before, until the plan ends; gives the last view."""
    for before, view in _views(service, plan, every_s):
        if before is None or to_json(view) != to_json(before):
            write(view)
    return view


def draw(plan: PlanView, width: int, height: int | None) -> RenderableType:
    """A frame that fits the terminal: the graph if there is room, else the most active tasks."""
    from rich.console import Group

    from interlock.cli.page import Text

    doing = plans.now_doing(plan)
    head: list[RenderableType] = [
        Text.assemble(plans.headline(plan), ("   q ends" if height else "", words.QUIET)),
        Text.assemble(plans.counts(plan), no_wrap=True, overflow="ellipsis"),
        Text(words.harmless(doing or ""), style="yellow", no_wrap=True, overflow="ellipsis"),
    ]
    drawn = plans.drawing(picture(plan), width)
    room = None if height is None else max(height - len(head) - 2, 3)
    if room is None or str(drawn).count("\n") < room:
        return Group(*head, drawn)
    order = {word: n for n, word in enumerate(_BUSY_FIRST)}
    tasks = sorted(plan.tasks, key=lambda t: order.get(t.status, len(order)))
    return Group(*head, plans.task_table(plan, tasks[: room - 1], width))


def _print_changes(console: Console, service: Service, plan: int, every_s: float) -> PlanView:
    for before, view in _views(service, plan, every_s):
        for line in _changes(before, view):
            console.print(words.harmless(line), soft_wrap=True)
        console.file.flush()
    return view


def _views(service: Service, plan: int, every_s: float) -> Iterator[tuple[PlanView | None, PlanView]]:
    """Views of the plan until it ends, each with the previous view."""
    before, view = None, service.plan(plan)
    yield before, view
    while view.ended_at is None:
        time.sleep(every_s)
        before, view = view, service.plan(plan)
        yield before, view


def _changes(before: PlanView | None, after: PlanView) -> Iterator[str]:
    """One line for each change since the view before."""
    old: dict[str, Any] = {} if before is None else {t.key: t.status for t in before.tasks}
    if before is None or before.revision != after.revision:
        tasks = f"{len(after.tasks)} task{'' if len(after.tasks) == 1 else 's'}"
        yield f"plan {after.id} {after.name}: revision {after.revision}, {tasks}"
    for task in after.tasks:
        if old.get(task.key) != task.status:
            who = f" by {task.run_agent}" if task.run_agent else ""
            yield f"{sign(task.status)} {task.key} {task.status}{who}"
    paused, editing = (False, False) if before is None else (before.paused, before.cycle is not None)
    doing = plans.now_doing(after)
    if doing is not None and (after.paused > paused or (after.cycle is not None) > editing):
        yield f"plan {after.id} {doing}"
    elif paused and not after.paused:
        yield f"plan {after.id} resumed"
    if after.ended_at is not None:
        yield f"plan {after.id} {after.status}"
