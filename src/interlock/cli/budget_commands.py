"""`budget`: list, set and remove what agents, pools and projects may spend."""

from __future__ import annotations

from typing import Annotated

from interlock.cli import typer, views
from interlock.cli.command import Group
from interlock.cli.cost_commands import dollars_of
from interlock.cli.invocation import Invocation, invocation_of, mention_near_agent
from interlock.cli.output import tell
from interlock.core.budgets import WhenSpent
from interlock.core.errors import Exit, InvalidInput
from interlock.core.names import agent_key, pool_key
from interlock.service.contract import BudgetsView, ItemFilter, Service
from interlock.service.item_fields import choice

budget = Group("List budgets, or change one.")

_Whose = Annotated[
    str, typer.Argument(metavar="WHOSE", help="Whose, as in agent:coder, pool:account or project:acme/app.")
]
_Per = Annotated[str, typer.Option(metavar="day|month", of="set_budget.per")]


@budget.callback(lists=True)
def list_budgets(ctx: typer.Context) -> int:
    """List budgets, and what is spent and reserved of each."""
    if ctx.invoked_subcommand is not None:
        return Exit.OK
    call = invocation_of(ctx)
    with call.reading() as service:
        found = service.budgets()
    return _shown(call, found)


@budget.command("set")
def set_budget(
    ctx: typer.Context,
    whose: _Whose,
    *,
    usd: Annotated[str, typer.Option("--usd", metavar="USD", of="set_budget.usd")],
    per: _Per = "day",
    when_spent: Annotated[
        str, typer.Option("--when-spent", metavar="finish|cancel", of="set_budget.when_spent")
    ] = "finish",
) -> int:
    """Set how much an agent, a pool or a project may spend in each day or month.

    When it is used up, nothing new starts until the next one begins.
    """
    call = invocation_of(ctx)
    scope, name = _split(whose)
    then = choice("--when-spent", when_spent, tuple(WhenSpent))
    with call.service() as service:
        answer = service.set_budget(
            scope,
            name,
            per=per,
            usd=dollars_of("--usd", usd),
            when_spent=then,
            by=call.settings.actor,
        )
        _mention_unknown(service, scope, name)
    return _shown(call, answer)


@budget.command("rm")
def remove_budget(ctx: typer.Context, whose: _Whose, per: _Per = "day") -> int:
    """Remove a budget."""
    call = invocation_of(ctx)
    scope, name = _split(whose)
    with call.service() as service:
        answer = service.remove_budget(scope, name, per=per, by=call.settings.actor)
    return _shown(call, answer)


@budget.command("reserve")
def reserve(
    ctx: typer.Context,
    type_: Annotated[str, typer.Argument(metavar="TYPE", of="set_reserve.type")],
    *,
    usd: Annotated[str, typer.Option("--usd", metavar="USD", of="set_reserve.usd")],
) -> int:
    """Set what a run of a type holds back of its budgets until it has reported as much."""
    call = invocation_of(ctx)
    with call.service() as service:
        answer = service.set_reserve(type_, usd=dollars_of("--usd", usd), by=call.settings.actor)
    return _shown(call, answer)


@budget.command("time-zone")
def time_zone(
    ctx: typer.Context,
    zone: Annotated[str, typer.Argument(metavar="ZONE", of="set_time_zone.time_zone")],
) -> int:
    """Set the time zone in which days and months begin."""
    call = invocation_of(ctx)
    with call.service() as service:
        answer = service.set_time_zone(zone, by=call.settings.actor)
    return _shown(call, answer)


def _mention_unknown(service: Service, scope: str, name: str) -> None:
    """Say that nothing counts for a budget yet, since its name may be a typo. It is set anyway."""
    if scope == "agent":
        if agent_key(name) not in {agent.key for agent in service.agents()}:
            tell(f"Agent {name} has never asked for work.")
            mention_near_agent(service, name)
    elif scope == "pool":
        if pool_key(name) not in {pool_key(pool.name) for pool in service.pools()}:
            tell(f"There is no pool {name} yet.")
    elif not service.items(ItemFilter(all=True, project=name, limit=1)):
        tell(f"Project {name} has no items yet.")


def _split(whose: str) -> tuple[str, str]:
    """Scope and name of `agent:coder`."""
    scope, colon, name = whose.partition(":")
    if not colon or not name:
        raise InvalidInput(
            f"WHOSE {whose!r} has no scope.", "Write it as agent:NAME, pool:NAME or project:NAME."
        )
    return scope, name


def _shown(call: Invocation, answer: BudgetsView) -> int:
    return call.out.answer(answer, lambda out: views.budgets.budgets(out, answer))
