"""Agents and lanes: who can do what, who holds what, and how strictly."""

from __future__ import annotations

from typing import Annotated

import typer

from interlock.cli.command import Command, group
from interlock.cli.options import Limit, Reason, limit_of
from interlock.cli.session import session_of
from interlock.core.errors import Exit, InvalidInput
from interlock.core.model import Mode
from interlock.service.contract import AgentView
from interlock.service.intake import choice, whole

agents = group("List agents, or change one.")
lanes = group("List lanes and their holders, or say how strict they are.")


def _modes() -> list[str]:
    return list(Mode)


@agents.callback()
def list_agents(ctx: typer.Context) -> int:
    """List agents: what they can do, what they do now."""
    if ctx.invoked_subcommand is not None:
        return Exit.OK
    session = session_of(ctx)
    with session.service() as service:
        found = service.agents()
    if session.out.json:
        session.out.print_json({"agents": found})
    else:
        from interlock.cli.views import fleet

        fleet.agents(session.out.console, found)
    return Exit.OK


@agents.command("set", cls=Command)
def set_agent(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The agent; made if new.")],
    max_: Annotated[
        str | None, typer.Option("--max", metavar="N|none", help="How many runs at once; none: no limit.")
    ] = None,
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="A type it does; repeatable, replaces all."),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="LABEL", help="A label it has; repeatable, replaces all.")
    ] = None,
) -> int:
    """Say what an agent can do and how many runs it may have at once."""
    unlimited = max_ is not None and max_.strip().lower() == "none"
    limit = None if max_ is None or unlimited else whole("max", max_)
    session = session_of(ctx)
    with session.service() as service:
        answer = service.set_agent(
            name,
            max_concurrency=limit,
            unlimited=unlimited,
            types=type_,
            labels=label,
            by=session.settings.actor,
        )
    return _print_agent(ctx, answer)


@agents.command("pause", cls=Command)
def pause_agent(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    reason: Reason,
) -> int:
    """Let an agent start nothing new; what runs goes on."""
    return _pause(ctx, name, reason, paused=True)


@agents.command("resume", cls=Command)
def resume_agent(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    reason: Reason = "",
) -> int:
    """Let a paused agent start again."""
    return _pause(ctx, name, reason, paused=False)


def _pause(ctx: typer.Context, name: str, reason: str, *, paused: bool) -> int:
    session = session_of(ctx)
    with session.service() as service:
        answer = service.pause_agent(name, paused=paused, why=reason, by=session.settings.actor)
    return _print_agent(ctx, answer)


@lanes.callback()
def list_lanes(
    ctx: typer.Context,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="Only lanes that start so.")] = "",
    limit: Limit = "100",
) -> int:
    """List lanes that are held or have a line, and who holds them."""
    if ctx.invoked_subcommand is not None:
        return Exit.OK
    session = session_of(ctx)
    count = limit_of(limit)
    with session.lanes() as service:
        found = service.lanes(prefix=prefix, limit=count)
    if session.out.json:
        session.out.print_json({"lanes": found})
    else:
        from interlock.cli.views import fleet

        fleet.lanes(session.out.console, found)
    return Exit.OK


@lanes.command("mode", cls=Command)
def set_mode(
    ctx: typer.Context,
    mode: Annotated[str | None, typer.Argument(metavar="enforce|observe|off", autocompletion=_modes)] = None,
    project: Annotated[
        str | None, typer.Option(metavar="NAME", help="For every lane of this project.")
    ] = None,
    prefix: Annotated[str | None, typer.Option(metavar="TEXT", help="For every lane that starts so.")] = None,
) -> int:
    """Say how strictly lanes are kept: enforce (default), observe (only count what would happen), off.

    Without a mode it lists those that were set.
    """
    if mode is None:
        if project is not None or prefix is not None:
            raise InvalidInput("There is no mode.", "Give enforce, observe or off.")
        return _list_modes(ctx)
    chosen = choice("mode", mode, tuple(Mode))
    if (project is None) == (prefix is None):
        raise InvalidInput("It is not clear which lanes are meant.", "Give --project NAME or --prefix TEXT.")
    scope, value = ("project", project) if project is not None else ("lane", prefix)
    assert value is not None
    session = session_of(ctx)
    with session.service() as service:
        service.set_mode(scope=scope, value=value, mode=chosen, by=session.settings.actor)
    if session.out.json:
        session.out.print_json({"scope": scope, "value": value, "mode": chosen})
    else:
        session.out.console.print(_mode_sentence(scope, value, chosen))
    return Exit.OK


def _list_modes(ctx: typer.Context) -> int:
    session = session_of(ctx)
    with session.service() as service:
        found = service.modes()
    if session.out.json:
        session.out.print_json({"modes": found})
        return Exit.OK
    for rule in found:
        session.out.console.print(_mode_sentence(rule.scope, rule.value, rule.mode))
    session.out.console.print("All others: enforce." if found else "Every lane is enforced.")
    return Exit.OK


def _mode_sentence(scope: str, value: str, mode: str) -> str:
    named = f"Lanes of project {value}" if scope == "project" else f"Lanes that start with {value}"
    return f"{named}: {mode}."


@lanes.command("mend", cls=Command)
def mend_lane(
    ctx: typer.Context,
    lane: Annotated[str, typer.Argument(metavar="LANE")],
    reason: Reason,
) -> int:
    """Rebuild a lane in git that cannot be read, from its history; whoever held it has lost it."""
    from interlock import app

    session = session_of(ctx)
    answer = app.mend_lane(session.settings, lane, why=reason)
    if session.out.json:
        session.out.print_json(answer)
    else:
        session.out.console.print(f"The lane {answer.lane} is mended; {answer.waiting} in line.")
    return Exit.OK


def _print_agent(ctx: typer.Context, agent: AgentView) -> int:
    out = session_of(ctx).out
    if out.json:
        out.print_json(agent)
    else:
        from interlock.cli.views import fleet

        fleet.agents(out.console, [agent])
    return Exit.OK
