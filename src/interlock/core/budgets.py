"""Budgets: how much agents, pools and projects may spend in a day or a month.

    spent + reserved + reserve <= budget, and something is left

Each claim keeps this for every budget of its agent, of the agent's pool and of the item's project. `spent` is
what reports added in the period. `reserved` is, of each live run, what its type's reserve has more than the
run has reported. `reserve` is that of the item's type. Without reserves a claim needs only that something is
left.

Not promised: that spending stays below a budget. A run may use more than its reserve.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta, tzinfo
from enum import StrEnum

from interlock.core.claims import Claim
from interlock.core.costs import MICRO, Spender, day_of, dollars
from interlock.core.model import HOLD, US_PER_S
from interlock.core.record import Record, replace
from interlock.core.row import NamedTuple

#: The most that a budget can have; the most budgets, and the most types with a reserve.
BUDGET_USD_MAX, BUDGETS_MAX, RESERVES_MAX = 1_000_000_000.0, 1_000, 1_000


class Period(StrEnum):
    """The span that a budget is for."""

    DAY = "day"
    MONTH = "month"


class WhenSpent(StrEnum):
    """What happens to running work when a budget is used up."""

    FINISH = "finish"
    CANCEL = "cancel"


class MoneyBudget(NamedTuple):
    """An amount that may be spent in each period."""

    scope: str
    #: The key of an agent, or the name of a pool or project.
    name: str
    per: str
    micro_usd: int
    when_spent: str = WhenSpent.FINISH

    @property
    def whose(self) -> str:
        return f"{self.scope} {self.name}"


class BudgetState(NamedTuple):
    """A budget in its present period."""

    budget: MoneyBudget
    spent: int
    reserved: int

    @property
    def room(self) -> int:
        return self.budget.micro_usd - self.spent - self.reserved

    @property
    def is_spent(self) -> bool:
        """Whether reports alone use it up."""
        return self.spent >= self.budget.micro_usd


class Allowance(Record):
    """What budgets leave for a claim of one agent."""

    #: What the budgets of the agent and of its pool leave; null without such a budget.
    own: int | None = None
    #: What the budgets of projects leave.
    projects: Mapping[str, int]
    #: The reserves of types, where they are not zero.
    reserves: Mapping[str, int]

    def affords(self, project: str, type_: str) -> bool:
        """Whether a claim may start an item."""
        if type_ == HOLD:
            return True
        rooms = [room for room in (self.own, self.projects.get(project)) if room is not None]
        return not rooms or _fits(min(rooms), self.reserves.get(type_, 0))

    @property
    def barred(self) -> tuple[str, ...]:
        """The projects and types that a claim must not start, as `project type`. `*` is any."""
        found = [] if self.own is None else self._dear("*", self.own)
        for project, room in self.projects.items():
            found += self._dear(project, room)
        return tuple(found)

    def _dear(self, project: str, room: int) -> list[str]:
        if room <= 0:
            return [f"{project} *"]
        return [f"{project} {each}" for each, reserve in self.reserves.items() if not _fits(room, reserve)]

    def at_once(self, limit: int) -> int:
        """How many items one statement may start: more than one only if all fit, whatever they are."""
        dearest = max(self.reserves.values(), default=0)
        rooms = [room for room in (self.own, *self.projects.values()) if room is not None]
        return limit if not rooms or not dearest or dearest * limit <= min(rooms) else 1

    def after(self, project: str, type_: str) -> Allowance:
        """What is left when an item was started."""
        reserve = self.reserves.get(type_, 0)
        projects = dict(self.projects)
        if project in projects:
            projects[project] -= reserve
        return replace(self, own=None if self.own is None else self.own - reserve, projects=projects)


def _fits(room: int, reserve: int) -> bool:
    return 0 < room >= reserve


def is_bound(claim: Claim) -> bool:
    """Whether budgets apply to a claim. A hold costs nothing."""
    return HOLD not in claim.labels


def affordable(claim: Claim, allowance: Allowance) -> Claim | None:
    """The claim limited to what its agent can pay for at all; None if that is nothing."""
    if not is_bound(claim) or allowance.own is None:
        return claim
    return claim if allowance.own > 0 else None


def allowance_of(states: Iterable[BudgetState], reserves: Mapping[str, int]) -> Allowance:
    """What these budgets leave: those of one agent, of its pool, and of projects."""
    own: int | None = None
    projects: dict[str, int] = {}
    for state in states:
        budget, room = state.budget, state.room
        if budget.scope == Spender.PROJECT:
            projects[budget.name] = min(room, projects.get(budget.name, room))
        else:
            own = room if own is None else min(own, room)
    return Allowance(own=own, projects=projects, reserves={t: n for t, n in reserves.items() if n})


def first_day(per: str, today: date) -> date:
    """The first day of the present period."""
    return today if per == Period.DAY else today.replace(day=1)


def spent_in(per: str, today: date, days: Mapping[str, int]) -> int:
    """What was spent in the present period, from the sums by day."""
    first = first_day(per, today).isoformat()
    return sum(amount for day, amount in days.items() if first <= day <= today.isoformat())


def ends_us(per: str, now_us: int, zone: tzinfo) -> int:
    """When the present period ends."""
    today = day_of(now_us, zone)
    later = today + timedelta(days=1) if per == Period.DAY else first_day(per, today) + timedelta(days=31)
    following = first_day(per, later)
    begins = datetime(following.year, following.month, following.day, tzinfo=zone)
    return round(begins.timestamp()) * US_PER_S


def told(state: BudgetState, reserve: int = 0) -> str:
    """A budget that stops claims, as a clause. `reserve` is that of the item which does not fit."""
    budget, reserved = state.budget, state.reserved
    amount = f"{dollars(state.spent / MICRO)} of {dollars(budget.micro_usd / MICRO)} per {budget.per}"
    more = f", and {dollars(reserved / MICRO)} reserved for running work" if reserved else ""
    if state.room > 0:
        needs = f"{dollars(reserve / MICRO)} which its type reserves"
        return f"the budget of {budget.whose} lacks the {needs} ({amount}{more})"
    return f"the budget of {budget.whose} is used up ({amount}{more})"
