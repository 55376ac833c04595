"""A series at one moment: what its issues are, by GitHub; who has its lane, by the store; what was noted."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from interlock.core.record import Record

#: Positions of issues begin here; below are those whose order an older tool had chosen.
_MICRO = 1_000_000
_MICRO_MAX = 2_000
#: Two looks that find an assignment gone count if they are at least this far apart: GitHub's reads lag.
APART_S = 60.0
#: An assignment that its history shows as removed counts as gone after this time: people swap assignees.
SWAP_S = 10.0


class Mode(StrEnum):
    """How far the rollout has come."""

    #: The state issue and the metrics only.
    OBSERVE = "observe"
    ENFORCE = "enforce"
    #: The same, with a comment for each promotion.
    COMMENT = "comment"


class Unassigned(StrEnum):
    """What it means that somebody takes the assignment of the active issue away."""

    RELEASED = "released"
    KEPT = "kept"


class Choices(Record):
    """What a repository has chosen."""

    mode: Mode = Mode.ENFORCE
    unassigned: Unassigned = Unassigned.RELEASED
    #: Whether the store has gates.
    gated: bool = True

    @property
    def gates(self) -> bool:
        """Whether work on an issue waits until it is the active one."""
        return self.gated and self.mode is not Mode.OBSERVE


class Member(Record):
    """An open issue of the series."""

    number: int
    micro: int
    title: str = ""
    #: Who is assigned, of those whose assignment counts.
    assigned: tuple[str, ...] = ()
    #: What must come first, as `#12`, `acme/lib#3` or `RFC-092`; and what of it is in this series.
    needs: tuple[str, ...] = ()
    needs_own: tuple[int, ...] = ()
    #: When its last assignee was removed, by its history; None if that was not asked for, or never happened.
    unassigned_s: float | None = None


class How(StrEnum):
    """How an issue left the series."""

    #: A pull request that closes it was merged.
    COMPLETED = "completed"
    #: Closed without.
    ABANDONED = "abandoned"
    RETITLED = "retitled"
    TRANSFERRED = "transferred"
    #: Made a discussion: the issue stays behind, closed and locked.
    CONVERTED = "converted"
    DELETED = "deleted"
    #: Its author may not write to the repository.
    IGNORED = "ignored"


class Facts(Record):
    """What GitHub says of a series."""

    members: tuple[Member, ...] = ()
    #: Issues that were in it, and how they left.
    left: Mapping[int, How] = {}

    def member(self, number: int | None) -> Member | None:
        return next((m for m in self.members if m.number == number), None)


class Stopped(StrEnum):
    """Whether a run was asked to end through the store."""

    NO = ""
    BY_OPERATOR = "by an operator"
    #: We took its item out of the line, and somebody else had just started it.
    WITHDRAWN = "withdrawn"


class Placed(Record):
    """An issue's item on the lane."""

    item: int
    number: int
    position: int
    #: Its external run, if it is the active one.
    run: int | None = None
    stopped: Stopped = Stopped.NO


class Looks(Record):
    """What was seen of one run's assignment, by GitHub's clock."""

    run: int = 0
    #: It was seen once, and when first.
    seen: bool = False
    seen_s: float = 0.0
    missing_since_s: float | None = None


class Standing(Record):
    """The lane, its gates, and what was noted."""

    #: The owner of the lane first, then its line in order.
    placed: tuple[Placed, ...] = ()
    #: Members' gates; true is open.
    gates: Mapping[int, bool] = {}
    #: Issues on whose lanes a run goes on that the gate holds back.
    busy: frozenset[int] = frozenset()
    looks: Looks = Looks()
    #: Issues that were given back and wait until somebody wants them again; true once seen unassigned.
    released: Mapping[int, bool] = {}
    #: The order that an older tool left.
    order: tuple[int, ...] = ()
    #: Doubles that were counted and are still assigned.
    flagged: frozenset[int] = frozenset()

    @property
    def owner(self) -> Placed | None:
        return self.placed[0] if self.placed else None

    @property
    def active(self) -> Placed | None:
        """The issue that has the series, with a run."""
        return self.owner if self.owner is not None and self.owner.run is not None else None


def position(member: Member, order: tuple[int, ...] = ()) -> int:
    """A member's place in the line: an older tool's order first, then micro number, then number."""
    if member.number in order:
        return order.index(member.number)
    return (min(member.micro, _MICRO_MAX) + 1) * _MICRO + min(member.number, _MICRO - 1)
