"""What runs used, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.cli.page import Console, Text
from interlock.cli.views import words
from interlock.core import costs
from interlock.core.costs import dollars
from interlock.service.contract import BudgetView, CostView, SpendingView


def total(console: Console, cost: CostView, spent: Sequence[BudgetView] = ()) -> None:
    """The total of a run, and the budgets that are used up."""
    console.print(f"The run has used {in_words(cost)} so far.")
    for each in spent:
        amount = f"{dollars(each.spent_usd)} of {dollars(each.usd)} per {each.per}"
        told = f"The budget of {each.scope} {each.name} is used up: {amount}."
        console.print(Text(words.harmless(told), style="yellow"))


def in_words(cost: CostView) -> str:
    """A cost, as in `$0.42, 12,000 tokens in, 900 out`."""
    return costs.told(cost.usd, cost.input_tokens, cost.output_tokens)


def spending(console: Console, found: Sequence[SpendingView]) -> None:
    """The sums by day, the newest day first."""
    if not found:
        console.print("No run has reported what it used. Report it: interlock cost HANDLE --usd 0.42")
        return
    numbers = ("USD", "TOKENS IN", "TOKENS OUT")
    made = words.table("DAY", "WHOSE", "NAME", *numbers, right=numbers, wrapped=("NAME",))
    last = ""
    for each in found:
        made.add_row(
            each.day if each.day != last else "",
            each.scope,
            Text(words.harmless(each.name)),
            dollars(each.usd),
            f"{each.input_tokens:,}",
            f"{each.output_tokens:,}",
        )
        last = each.day
    console.print(made)
