"""An operator's commands on items, agents and projects. The history keeps each reason."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

from interlock.cli import typer, views
from interlock.cli.invocation import Invocation, caller_of, invocation_of, mention_near_agent
from interlock.cli.options import Create, OnlyLane, OnlyTypes, Reason
from interlock.cli.output import as_json
from interlock.cli.values import name_or_none
from interlock.core.errors import Exit, InterlockError, InvalidInput
from interlock.service.contract import BulkView, ChangeView, RefusedItemView
from interlock.service.item_fields import item_changes, whole

_Items = Annotated[
    list[str] | None, typer.Argument(metavar="ITEM…", help="Numbers, as `interlock ls` shows them.")
]
_SCOPES = ("agent", "project")
_WHAT = typer.Argument(metavar="[agent|project]", autocompletion=lambda: list(_SCOPES))
_NAME = typer.Argument(metavar="NAME", help="An agent's name needs no word before it.")


def cancel(
    ctx: typer.Context,
    items: _Items = None,
    *,
    reason: Reason,
    lane: Annotated[str | None, typer.Option(metavar="LANE", help="All items of this lane.")] = None,
    force: Annotated[bool, typer.Option("--force", of="cancel.force")] = False,
) -> int:
    """Cancel items; a running one is asked to stop, with a grace."""
    call = invocation_of(ctx)
    by = call.settings.actor
    if lane is not None:
        if items:
            raise InvalidInput("Items and --lane exclude each other.", "Give one of them.")
        with call.service() as service:
            return _all(
                call,
                lambda _: service.cancel_lane(lane, why=reason, by=by, force=force),
                did="Cancelled",
                nothing=f"Lane {lane} has no unfinished item.",
            )
    numbers = _numbers(items, "--lane LANE")
    with call.lanes() as service:
        return _each(
            call, numbers, lambda item: service.cancel(item, why=reason, by=by, force=force), "is cancelled"
        )


def retry(
    ctx: typer.Context,
    items: _Items = None,
    *,
    reason: Reason = "",
    dead: Annotated[
        bool, typer.Option("--dead", help="All dead letters, or those that the other options choose.")
    ] = False,
    type_: OnlyTypes = None,
    agent: Annotated[str | None, typer.Option(metavar="NAME", of="retry_dead.agent")] = None,
    lane: OnlyLane = None,
    project: Annotated[str | None, typer.Option(metavar="NAME", of="retry_dead.project")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", of="retry_dead.dry_run")] = False,
) -> int:
    """Give failed or cancelled items one more attempt, or cut a back-off short."""
    call = invocation_of(ctx)
    by = call.settings.actor
    if dead:
        if items:
            raise InvalidInput("Items and --dead exclude each other.", "Give one of them.")
        with call.service() as service:
            mention_near_agent(service, agent)
            sender = caller_of(service)
            return _all(
                call,
                lambda before: service.retry_dead(
                    types=type_ or (),
                    agent=agent,
                    lane=lane,
                    project=project,
                    before=before,
                    dry_run=dry_run,
                    why=reason,
                    by=by,
                    sender=sender,
                ),
                did="Would retry" if dry_run else "Retried",
                nothing="No dead letter matches.",
            )
    if type_ or agent or lane or project or dry_run:
        raise InvalidInput("These options choose dead letters.", "Add --dead.")
    numbers = _numbers(items, "--dead")
    with call.service() as service:
        sender = caller_of(service)
        again = partial(service.retry, why=reason, by=by, sender=sender)
        return _each(call, numbers, again, "is tried again")


def edit(
    ctx: typer.Context,
    item: Annotated[str, typer.Argument(metavar="ITEM", help="A number, as `interlock ls` shows it.")],
    *,
    title: Annotated[str | None, typer.Option(metavar="TEXT", of="edit.title")] = None,
    priority: Annotated[str | None, typer.Option(metavar="N", help="Higher goes first.")] = None,
    agent: Annotated[
        str | None, typer.Option(metavar="NAME|none", help="The agent it is for; none: any.")
    ] = None,
    type_: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Its kind.")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="LABEL|none", help="A label it needs; repeatable, replaces all."),
    ] = None,
    position: Annotated[
        str | None, typer.Option(metavar="N|none", help="Its position on its lane; none: by arrival.")
    ] = None,
    run_at: Annotated[
        str | None, typer.Option(metavar="TIME|now", help="When it is due: ISO 8601, +2h, or now.")
    ] = None,
) -> int:
    """Change an item that has not started; the history keeps old and new.

    Tasks of plans are changed by `plan edit`.
    """
    fields: dict[str, str | list[str] | None] = {
        "title": title,
        "priority": priority,
        "agent": name_or_none("--agent", agent),
        "type": type_,
        "labels": label,
        "position": position,
        "run_at": run_at,
    }
    absent: dict[str, object] = {"agent": "none", "labels": ["none"], "position": "none", "run_at": "now"}
    given = {name: value for name, value in fields.items() if value is not None}
    if not given:
        raise InvalidInput("The edit changes nothing.", "Pass an option, such as --priority 5.")
    changes = item_changes(
        {k: None if v == absent.get(k, ...) else v for k, v in given.items()}, or_now=", or now"
    )
    call, number = invocation_of(ctx), whole("item", item)
    with call.service() as service:
        mention_near_agent(service, agent)
        change = service.edit(number, changes, by=call.settings.actor, sender=caller_of(service))
    return call.out.answer({"changes": [change]}, lambda out: views.items.change(out, "is changed", change))


def pause(
    ctx: typer.Context,
    what: Annotated[str | None, _WHAT] = None,
    name: Annotated[str | None, _NAME] = None,
    reason: Reason = "",
    create: Create = False,
) -> int:
    """Pause an agent or a project: it starts nothing new, and running work continues.

    A reason is needed. Without arguments, the command lists paused agents and projects with reasons.
    """
    if what is None and not reason:
        return _list_paused(ctx)
    return _pause(ctx, what, name, reason, create=create, paused=True)


def resume(
    ctx: typer.Context,
    what: Annotated[str | None, _WHAT] = None,
    name: Annotated[str | None, _NAME] = None,
    reason: Reason = "",
) -> int:
    """Let a paused agent or project start again."""
    return _pause(ctx, what, name, reason, create=False, paused=False)


def _list_paused(ctx: typer.Context) -> int:
    call = invocation_of(ctx)
    with call.reading() as service:
        agents = [agent for agent in service.agents() if agent.paused]
        projects = service.paused_projects()
    lines = [f"Agent {agent.name} is paused: {agent.paused_reason}" for agent in agents]
    lines += [f"Project {name} is paused: {why}" for name, why in projects.items()]
    text = "\n".join(lines) or "No agent and no project is paused."
    reasons = [{"project": name, "reason": why} for name, why in projects.items()]
    return call.out.answer({"agents": agents, "projects": reasons}, text)


def _pause(
    ctx: typer.Context, what: str | None, name: str | None, reason: str, *, create: bool, paused: bool
) -> int:
    if name is None and what is not None and what.strip().lower() not in _SCOPES:
        what, name = "agent", what
    if what is None or name is None:
        raise InvalidInput("NAME is missing.", "Give NAME, or project NAME.")
    if (scope := what.strip().lower()) not in _SCOPES:
        raise InvalidInput(f"{what[:80]!r} is neither agent nor project.", "Give NAME, or project NAME.")
    call = invocation_of(ctx)
    by = call.settings.actor
    with call.service() as service:
        if scope == "agent":
            answer: object = service.pause_agent(name, paused=paused, why=reason, by=by, create=create)
        else:
            service.pause_project(name, paused=paused, why=reason, by=by, create=create)
            answer = {"project": name, "paused": paused, "reason": reason}
    now = "is paused: it starts nothing new, and running work continues" if paused else "may start again"
    return call.out.answer(answer, f"{scope.capitalize()} {name} {now}.")


def _numbers(items: list[str] | None, other: str) -> list[int]:
    """The numbers of the items, which may be named by an option instead."""
    if not items:
        raise InvalidInput("ITEM is missing.", f"Give its number, as `interlock ls` shows it, or {other}.")
    return [whole("item", text) for text in items]


def _all(call: Invocation, act: Callable[[int | None], BulkView], *, did: str, nothing: str) -> int:
    """Act on all items that there are, a part at a time."""
    items: list[int] = []
    stopping: list[int] = []
    refused: list[RefusedItemView] = []
    part = BulkView(items=(), more=True)
    while part.more:
        part = act(part.before)
        items += part.items
        stopping += part.stopping
        refused += part.refused
    done = BulkView(items=tuple(items), stopping=tuple(stopping), refused=tuple(refused))
    return call.out.answer(done, lambda out: views.items.batch(out, done, did=did, nothing=nothing))


def _each(call: Invocation, numbers: list[int], act: Callable[[int], ChangeView], verb: str) -> int:
    """Act on every item, even after an error; the first error decides the exit code."""
    changes: list[ChangeView] = []
    errors: list[tuple[int, InterlockError]] = []
    for number in numbers:
        try:
            changes.append(act(number))
        except InterlockError as error:
            if len(numbers) == 1:
                raise
            errors.append((number, error))
    if call.out.json:
        refused = [{"item": number, **as_json(error)} for number, error in errors]
        call.out.print_json({"changes": changes, "errors": refused} if refused else {"changes": changes})
    else:
        for change in changes:
            views.items.change(call.out.page, verb, change)
        for refusal in {(each.sentence, each.hint, each.cures): each for _, each in errors}.values():
            call.out.refuse(refusal)
    return errors[0][1].exit_code if errors else Exit.OK
