"""What runs used, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.cli.page import Console, Text
from interlock.cli.views import words
from interlock.core.costs import dollars, told
from interlock.service.contract import CostView, SpendingView


def total(console: Console, cost: CostView) -> None:
    """The total of a run."""
    console.print(f"The run has used {in_words(cost)} so far.")


def in_words(cost: CostView) -> str:
    """A cost, as in `$0.42, 12,000 tokens in, 900 out`."""
    return told(cost.usd, cost.input_tokens, cost.output_tokens)


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
