"""What the checks of a commit say together.

    failure    if one has failed, whatever the others say
    pending    else, if one has not ended, or one that is required was not heard of
    cancelled  else, if one was cancelled
    success    else

Where the repository says which checks are required, only those count; else all do. A commit that nothing
checks has no outcome, unless checks are expected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from interlock.core.record import Record
from interlock.core.row import NamedTuple

#: How many checks an explanation names.
NAMED_MAX = 3
#: How the name of a check is cut in it.
_NAME_MAX = 60


class CiOutcome(StrEnum):
    """What checks say about a commit."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"
    CANCELLED = "cancelled"


class CiFilter(StrEnum):
    """What items can be listed by."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"
    CANCELLED = "cancelled"
    #: Nothing checks it, or nobody knows.
    NONE = "none"


class PullOutcome(StrEnum):
    """What became of a pull request."""

    OPEN = "open"
    MERGED = "merged"
    #: Without a merge.
    CLOSED = "closed"


class Check(NamedTuple):
    """A check of a commit. `app` is the number of the app that made it; None of a commit status."""

    name: str
    outcome: CiOutcome
    app: int | None = None
    #: Of two with the same name and app, the later one counts.
    order: int = 0


class Required(NamedTuple):
    """A check that has to succeed, by whichever app unless one is named."""

    name: str
    app: int | None = None

    def is_met_by(self, check: Check) -> bool:
        return self.name == check.name and self.app in (None, check.app)


class Verdict(Record):
    """What the checks say together, and why, in words."""

    outcome: CiOutcome | None
    why: str


def verdict(checks: Iterable[Check], required: Sequence[Required] = (), *, expected: bool = False) -> Verdict:
    """The outcome of a commit. `expected`: checks will come, though none may be there yet."""
    newest: dict[tuple[str, int | None], Check] = {}
    for check in sorted(checks, key=lambda each: each.order):
        newest[check.name, check.app] = check
    counted = [c for c in newest.values() if not required or any(r.is_met_by(c) for r in required)]
    missing = [r.name for r in required if not any(r.is_met_by(c) for c in counted)]

    def named(outcome: CiOutcome) -> list[str]:
        return [c.name for c in counted if c.outcome is outcome]

    if failed := named(CiOutcome.FAILURE):
        return Verdict(outcome=CiOutcome.FAILURE, why=f"{_listed(failed)} failed")
    if waiting := [*named(CiOutcome.PENDING), *missing]:
        return Verdict(outcome=CiOutcome.PENDING, why=f"waits for {_listed(waiting)}")
    if cancelled := named(CiOutcome.CANCELLED):
        return Verdict(outcome=CiOutcome.CANCELLED, why=f"{_listed(cancelled)} was cancelled")
    if counted:
        kind = "required check" if required else "check"
        passed = f"all {len(counted)} {kind}s" if len(counted) > 1 else f"its {kind}"
        return Verdict(outcome=CiOutcome.SUCCESS, why=f"{passed} passed")
    if expected:
        return Verdict(outcome=CiOutcome.PENDING, why="no check has begun yet")
    return Verdict(outcome=None, why="nothing checks it")


def _listed(names: Sequence[str]) -> str:
    """Names, each once, the first few of them."""
    each = sorted({name[:_NAME_MAX] for name in names})
    more = len(each) - NAMED_MAX
    shown = each[:NAMED_MAX] + ([f"{more} more"] if more > 0 else [])
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
