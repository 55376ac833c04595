"""`agents`, `pools`, `workers` and `lanes`: list and set them."""

from __future__ import annotations

from typing import Annotated

from interlock.cli import typer, views
from interlock.cli.command import Group
from interlock.cli.invocation import Invocation, invocation_of
from interlock.cli.options import Create, Limit, Reason, limit_of
from interlock.cli.output import tell
from interlock.cli.values import name_or_none
from interlock.core.errors import Exit, InvalidInput
from interlock.core.model import Mode
from interlock.core.names import BATCH_MAX
from interlock.service.contract import AgentView
from interlock.service.item_fields import choice, span_s, whole

agents = Group("List agents, or change one.")
pools = Group("List pools, capacities that agents share, or change one.")
workers = Group("List workers.")
lanes = Group("List lanes and their holders, or set how strictly they are kept.")


@agents.callback(lists=True)
def list_agents(ctx: typer.Context) -> int:
    """List agents: what they can do, and their current runs."""
    if ctx.invoked_subcommand is not None:
        return Exit.OK
    call = invocation_of(ctx)
    with call.reading() as service:
        found = service.agents()
    call.out.answer({"agents": found}, lambda out: views.agents.agents(out, found))
    call.name_store(found)
    return Exit.OK


@agents.command("set")
def set_agent(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", of="set_agent.name")],
    *,
    max_: Annotated[
        str | None, typer.Option("--max", metavar="N|none", help="Limit of runs at once; none: no limit.")
    ] = None,
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="A type it does; repeatable, replaces all."),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="LABEL", help="A label it has; repeatable, replaces all.")
    ] = None,
    pool: Annotated[
        str | None, typer.Option(metavar="NAME|none", help="The pool whose capacity it shares.")
    ] = None,
    overtake_after: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN",
            help="Others may overtake its items after this time without a claim; default: 60s, 0: never.",
        ),
    ] = None,
) -> int:
    """Set what an agent can do and how many runs it may have at once."""
    unlimited = max_ is not None and max_.strip().lower() == "none"
    limit = None if max_ is None or unlimited else whole("--max", max_)
    call = invocation_of(ctx)
    with call.service() as service:
        near = service.near_agent(name)
        answer = service.set_agent(
            name,
            max_concurrency=limit,
            unlimited=unlimited,
            types=type_,
            labels=label,
            overtake_after_s=None
            if overtake_after is None
            else span_s("--overtake-after", overtake_after, or_else="0 means never."),
            pool="" if pool is not None and pool.strip().lower() == "none" else name_or_none("--pool", pool),
            by=call.settings.actor,
        )
    if near is not None:
        tell(
            f"Created a new agent, {answer.name}. If you meant {near}, remove it:"
            f" interlock agents remove {answer.name}"
        )
    return _print_agent(ctx, answer)


@agents.command("remove")
def remove_agent(ctx: typer.Context, name: Annotated[str, typer.Argument(metavar="NAME")]) -> int:
    """Forget an agent that has no run and no unfinished item; exit 4 while it has. Its history stays."""
    call = invocation_of(ctx)
    with call.service() as service:
        key = service.remove_agent(name, by=call.settings.actor)
    return call.out.answer({"removed": key}, f"The agent {key} is removed; its history stays.")


@pools.callback(lists=True)
def list_pools(ctx: typer.Context) -> int:
    """List pools: the limit of their agents' runs, and current runs."""
    if ctx.invoked_subcommand is not None:
        return Exit.OK
    call = invocation_of(ctx)
    with call.reading() as service:
        found = service.pools()
    call.out.answer({"pools": found}, lambda out: views.agents.pools(out, found))
    call.name_store(found)
    return Exit.OK


@pools.command("set")
def set_pool(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", of="set_pool.name")],
    max_: Annotated[str, typer.Option("--max", metavar="N", of="set_pool.max_concurrency")],
) -> int:
    """Set the limit of runs that the agents of a pool share."""
    call, limit = invocation_of(ctx), whole("--max", max_)
    with call.service() as service:
        answer = service.set_pool(name, max_concurrency=limit, by=call.settings.actor)
    return call.out.answer(answer, lambda out: views.agents.pools(out, [answer]))


@pools.command("remove")
def remove_pool(ctx: typer.Context, name: Annotated[str, typer.Argument(metavar="NAME")]) -> int:
    """Forget a pool that no agent shares; exit 4 while one does. Its history stays."""
    call = invocation_of(ctx)
    with call.service() as service:
        key = service.remove_pool(name, by=call.settings.actor)
    return call.out.answer({"removed": key}, f"The pool {key} is removed; its history stays.")


@agents.command("pause")
def pause_agent(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    reason: Reason,
    create: Create = False,
) -> int:
    """Pause an agent: it starts nothing new, and running work continues."""
    return _pause(ctx, name, reason, create=create, paused=True)


@agents.command("resume")
def resume_agent(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    reason: Reason = "",
) -> int:
    """Let a paused agent start again."""
    return _pause(ctx, name, reason, create=False, paused=False)


def _pause(ctx: typer.Context, name: str, reason: str, *, create: bool, paused: bool) -> int:
    call = invocation_of(ctx)
    with call.service() as service:
        answer = service.pause_agent(name, paused=paused, why=reason, by=call.settings.actor, create=create)
    return _print_agent(ctx, answer)


@workers.callback(lists=True)
def list_workers(ctx: typer.Context, limit: Limit = "100") -> int:
    """List the processes of `interlock work`: which are alive, where they run, and their load.

    A worker is alive if it reached the store within the last 30 s. A silent one was killed, is stopped or is
    cut off from the store. It is forgotten after an hour.
    """
    if ctx.invoked_subcommand is not None:
        return Exit.OK
    call = invocation_of(ctx)
    count = limit_of(limit)
    with call.reading() as service:
        found = service.workers(limit=count)
    call.out.answer({"workers": found}, lambda out: views.workers.workers(out, found))
    call.name_store(found)
    return Exit.OK


@lanes.callback(lists=True)
def list_lanes(
    ctx: typer.Context,
    prefix: Annotated[str, typer.Option(metavar="TEXT", of="lanes.prefix")] = "",
    gates: Annotated[
        bool, typer.Option("--gates", help="List the gates of all lanes, idle ones too.")
    ] = False,
    limit: Limit = "100",
) -> int:
    """List the lanes that are held or waited for, and their holders."""
    if ctx.invoked_subcommand is not None:
        return Exit.OK
    call = invocation_of(ctx)
    count = limit_of(limit)
    if gates:
        return _list_gates(call, prefix, count)
    with call.reading_lanes() as service:
        found = service.lanes(prefix=prefix, limit=count)
    call.out.answer({"lanes": found}, lambda out: views.agents.lanes(out, found))
    call.name_store(found)
    return Exit.OK


def _list_gates(call: Invocation, prefix: str, count: int) -> int:
    if prefix:
        raise InvalidInput("--prefix and --gates exclude each other.", "Use one of them.")
    with call.reading() as service:
        found = service.gates(limit=min(count, BATCH_MAX))
    call.out.answer({"gates": found}, lambda out: views.agents.gates(out, found))
    call.name_store(found)
    return Exit.OK


@lanes.command("mode")
def set_mode(
    ctx: typer.Context,
    mode: Annotated[
        str | None, typer.Argument(metavar="enforce|observe|off", autocompletion=lambda: list(Mode))
    ] = None,
    project: Annotated[
        str | None, typer.Option(metavar="NAME", help="For every lane of this project.")
    ] = None,
    prefix: Annotated[
        str | None, typer.Option(metavar="TEXT", help="For every lane with this prefix.")
    ] = None,
) -> int:
    """Set how strictly lanes are kept: enforce (default), observe (only count what would happen), off.

    Without a mode, list the modes that were set.
    """
    if mode is None:
        if project is not None or prefix is not None:
            raise InvalidInput("The mode is missing.", "Give enforce, observe or off.")
        return _list_modes(ctx)
    chosen = choice("mode", mode, tuple(Mode))
    if (project is None) == (prefix is None):
        raise InvalidInput("No lanes were given.", "Give --project NAME or --prefix TEXT.")
    scope, value = ("project", project) if project is not None else ("lane", prefix)
    assert value is not None
    call = invocation_of(ctx)
    with call.lanes() as service:
        service.set_mode(scope=scope, value=value, mode=chosen, by=call.settings.actor)
    return call.out.answer(
        {"scope": scope, "value": value, "mode": chosen}, _mode_sentence(scope, value, chosen)
    )


def _list_modes(ctx: typer.Context) -> int:
    call = invocation_of(ctx)
    with call.reading_lanes() as service:
        found = service.modes()
    lines = [_mode_sentence(rule.scope, rule.value, rule.mode) for rule in found]
    lines.append("All others: enforce." if found else "Every lane is enforced.")
    return call.out.answer({"modes": found}, "\n".join(lines))


def _mode_sentence(scope: str, value: str, mode: str) -> str:
    named = f"Lanes of project {value}" if scope == "project" else f"Lanes that start with {value}"
    return f"{named}: {mode}."


@lanes.command("mend")
def mend_lane(
    ctx: typer.Context,
    lane: Annotated[str, typer.Argument(metavar="LANE")],
    reason: Reason,
) -> int:
    """Rebuild an unreadable lane on a git remote from its history; its holder loses it."""
    from interlock import app

    call = invocation_of(ctx)
    answer = app.repair_lane(call.settings, lane, why=reason)
    return call.out.answer(answer, f"The lane {answer.lane} is repaired; {answer.waiting} wait for it.")


def _print_agent(ctx: typer.Context, agent: AgentView) -> int:
    out = invocation_of(ctx).out
    return out.answer(agent, lambda console: views.agents.agents(console, [agent]))
