"""What runs used: money and tokens.

    total = max(total, reported), for each figure by itself

A report is the run's total so far, so a repeated or late one changes nothing. Money is whole micro-dollars:
sums are exact. What a report adds counts on the day on which it arrives, for the run's agent, for the pool
that the agent shares on that day, and for the item's project.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum

from interlock.core import names
from interlock.core.errors import InvalidInput
from interlock.core.model import US_PER_S
from interlock.core.row import NamedTuple

MICRO = 1_000_000
#: The most that one run may report.
USD_MAX, TOKENS_MAX = 1_000_000.0, 10**12
#: The most days of an answer about spending, and the most rows.
DAYS_MAX, SPENDING_MAX = 366, 10_000
#: The time zone of days, unless another is set.
TIME_ZONE = "UTC"


class Cost(NamedTuple):
    """Money in micro-dollars, and tokens."""

    micro_usd: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def usd(self) -> float:
        return self.micro_usd / MICRO

    def plus(self, other: Cost) -> Cost:
        return Cost(*(a + b for a, b in zip(self, other, strict=True)))


class Spender(StrEnum):
    """Whose spending is added up, in the order in which their rows are locked."""

    AGENT = "agent"
    POOL = "pool"
    PROJECT = "project"


class Spending(NamedTuple):
    """What one of them used on a day."""

    scope: str
    name: str
    #: As in `2026-11-19`, in the time zone of the store's days.
    day: str
    cost: Cost


def grown(total: Cost, reported: Cost) -> tuple[Cost, Cost]:
    """The total of a run after a report, and what the report adds."""
    new = Cost(*map(max, total, reported))
    return new, Cost(*(a - b for a, b in zip(new, total, strict=True)))


def checked_cost(usd: float | None, input_tokens: int | None, output_tokens: int | None) -> Cost:
    """The cost of a report. What is left out was not used, or is unknown."""
    if usd is None and input_tokens is None and output_tokens is None:
        raise InvalidInput(
            "The report has no figure: neither `usd` nor `input_tokens` nor `output_tokens`.",
            "Pass what the run has used so far.",
            fields=("usd", "input_tokens", "output_tokens"),
        )
    for what, tokens in (("input tokens", input_tokens), ("output tokens", output_tokens)):
        if tokens is not None:
            names.check_whole(f"number of {what}", tokens, 0, TOKENS_MAX)
    return Cost(0 if usd is None else micro(usd), input_tokens or 0, output_tokens or 0)


def micro(usd: float, most: float = USD_MAX) -> int:
    """Dollars as whole micro-dollars."""
    names.check_number("amount in USD", usd, 0, most)
    return round(usd * MICRO)


def day_of(at_us: int, zone: tzinfo) -> date:
    """The day of a time."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=at_us // US_PER_S)).astimezone(zone).date()


def dollars(usd: float) -> str:
    """An amount for people. Less than a cent keeps four digits."""
    return f"${usd:,.4f}" if 0 < usd < 0.01 else f"${usd:,.2f}"


def told(usd: float, input_tokens: int, output_tokens: int) -> str:
    """A cost in words, such as `$0.42, 12,000 tokens in, 900 out`."""
    tokens = f"{input_tokens:,} tokens in, {output_tokens:,} out" if input_tokens or output_tokens else ""
    return ", ".join(filter(None, (dollars(usd) if usd or not tokens else "", tokens)))
