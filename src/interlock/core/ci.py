"""The combined outcome of the checks of a commit.

    failure    if one has failed, whatever the others say
    pending    else, if one has not ended, or a required one is missing
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

#: An explanation names at most this many checks.
NAMED_MAX = 3
#: Longer names of checks are cut.
_NAME_MAX = 60


class CiOutcome(StrEnum):
    """The outcome of a commit's checks."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"
    CANCELLED = "cancelled"


class CiFilter(StrEnum):
    """The outcomes that items can be filtered by."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"
    CANCELLED = "cancelled"
    #: It has no checks, or they are unknown.
    NONE = "none"


class PullOutcome(StrEnum):
    """The state of a pull request."""

    OPEN = "open"
    MERGED = "merged"
    #: Closed without merging.
    CLOSED = "closed"


class Check(NamedTuple):
    """A check of a commit. `app` is the number of the app that made it; None of a commit status."""

    name: str
    outcome: CiOutcome
    app: int | None = None
    #: Of two with the same name and app, the later one counts.
    order: int = 0


class Required(NamedTuple):
    """A check that must succeed; any app may run it unless one is named."""

    name: str
    app: int | None = None

    def is_met_by(self, check: Check) -> bool:
        return self.name == check.name and self.app in (None, check.app)


class CheckVerdict(Record):
    """The combined outcome, and the reason in words."""

    outcome: CiOutcome | None
    why: str


def verdict(
    checks: Iterable[Check], required: Sequence[Required] = (), *, expected: bool = False
) -> CheckVerdict:
    """The outcome of a commit. `expected`: checks will run, even if none has started."""
    newest: dict[tuple[str, int | None], Check] = {}
    for check in sorted(checks, key=lambda each: each.order):
        newest[check.name, check.app] = check
    counted = [c for c in newest.values() if not required or any(r.is_met_by(c) for r in required)]
    missing = [r.name for r in required if not any(r.is_met_by(c) for c in counted)]

    def names_with(outcome: CiOutcome) -> list[str]:
        return [c.name for c in counted if c.outcome is outcome]

    if failed := names_with(CiOutcome.FAILURE):
        return CheckVerdict(outcome=CiOutcome.FAILURE, why=f"{_listed(failed)} failed")
    if waiting := [*names_with(CiOutcome.PENDING), *missing]:
        return CheckVerdict(outcome=CiOutcome.PENDING, why=f"waiting for {_listed(waiting)}")
    if cancelled := names_with(CiOutcome.CANCELLED):
        return CheckVerdict(outcome=CiOutcome.CANCELLED, why=f"{_listed(cancelled)} was cancelled")
    if counted:
        kind = "required check" if required else "check"
        passed = f"all {len(counted)} {kind}s" if len(counted) > 1 else f"its {kind}"
        return CheckVerdict(outcome=CiOutcome.SUCCESS, why=f"{passed} passed")
    if expected:
        return CheckVerdict(outcome=CiOutcome.PENDING, why="no check has started")
    return CheckVerdict(outcome=None, why="no checks")


def _listed(names: Sequence[str]) -> str:
    """Names, each once, the first few of them."""
    each = sorted({name[:_NAME_MAX] for name in names})
    more = len(each) - NAMED_MAX
    shown = each[:NAMED_MAX] + ([f"{more} more"] if more > 0 else [])
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
