"""`cost` and `spending`: report what a run used, and look at what was used by day."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Annotated

from interlock.cli import typer, views
from interlock.cli.invocation import invocation_of
from interlock.core.errors import InterlockError, InvalidInput
from interlock.core.names import agent_key
from interlock.service.contract import BudgetView, Service
from interlock.service.item_fields import whole


def cost(
    ctx: typer.Context,
    handle: Annotated[str | None, typer.Argument(metavar="HANDLE", help="Default: INTERLOCK_RUN.")] = None,
    *,
    usd: Annotated[str | None, typer.Option("--usd", metavar="USD", of="cost.usd")] = None,
    input_: Annotated[str | None, typer.Option("--input", metavar="N", of="cost.input_tokens")] = None,
    output: Annotated[str | None, typer.Option("--output", metavar="N", of="cost.output_tokens")] = None,
) -> int:
    """Report what a run has used so far, as a total; its end or a lost lease does not matter.

    Of each figure the greater value wins, so you may repeat a report.
    """
    call = invocation_of(ctx)
    run = handle or os.environ.get("INTERLOCK_RUN", "")
    if not run:
        raise InvalidInput("HANDLE is missing.", "Use the handle that `next` returned, or set INTERLOCK_RUN.")
    money = None if usd is None else dollars_of("--usd", usd)
    read = None if input_ is None else whole("--input", input_)
    written = None if output is None else whole("--output", output)
    with call.service() as service:
        total = service.cost(run, usd=money, input_tokens=read, output_tokens=written)
        spent: list[BudgetView] = []
        if not call.out.json:
            with suppress(InterlockError):  # the report itself is stored
                spent = _used_up(service, run)
    return call.out.answer(total, lambda out: views.costs.total(out, total, spent))


def _used_up(service: Service, run: str) -> list[BudgetView]:
    """The budgets that a run counts for, where reports have used them up."""
    spent = [each for each in service.budgets().budgets if each.spent_usd >= each.usd]
    if not spent:
        return []
    found = service.show(service.item_of(run))
    key = next(agent_key(each.agent) for each in found.runs if run.startswith(f"{each.run}."))
    pools = {agent.pool for agent in service.agents() if agent.key == key}
    mine = {("agent", key), ("project", found.item.project), *(("pool", pool) for pool in pools)}
    return [each for each in spent if (each.scope, each.name) in mine]


def spending(
    ctx: typer.Context,
    *,
    days: Annotated[str, typer.Option(metavar="N", of="spending.days")] = "7",
) -> int:
    """List what agents, pools and projects used on the last days."""
    call, count = invocation_of(ctx), whole("--days", days)
    with call.reading() as service:
        found = service.spending(days=count)
    return call.out.answer({"spending": found}, lambda out: views.costs.spending(out, found))


def dollars_of(option: str, text: str) -> float:
    """An amount in dollars, as in `0.42` or `$20`."""
    try:
        return float(text.strip().removeprefix("$"))
    except ValueError:
        raise InvalidInput(f"{option} {text!r} is not an amount.", "Use dollars, as in 0.42.") from None
