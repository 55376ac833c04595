"""Budgets, for a terminal."""

from __future__ import annotations

from interlock.cli.page import Console, Text
from interlock.cli.views import words
from interlock.core.costs import dollars
from interlock.service.contract import BudgetsView


def budgets(console: Console, found: BudgetsView) -> None:
    """Budgets with what is left of them, then reserves and the time zone."""
    if found.budgets:
        numbers = ("BUDGET", "SPENT", "RESERVED", "LEFT")
        made = words.table("WHOSE", "PER", *numbers, "WHEN SPENT", "UNTIL", right=numbers, wrapped=("WHOSE",))
        for each in found.budgets:
            left = Text(dollars(each.left_usd), style="" if each.left_usd else "yellow")
            made.add_row(
                Text(words.harmless(f"{each.scope}:{each.name}")),
                each.per,
                dollars(each.usd),
                dollars(each.spent_usd),
                dollars(each.reserved_usd),
                left,
                each.when_spent,
                words.at(each.until),
            )
        console.print(made)
    else:
        console.print("No budgets. Set one: interlock budget set agent:NAME --per day --usd 20")
    for name, usd in found.reserves.items():
        console.print(f"A run of type {name} reserves {dollars(usd)}.")
    if found.budgets:
        console.print(Text(f"Days begin in {found.time_zone}.", style=words.QUIET))
