"""The values that decisions on a series read: facts of GitHub, the lane, its gates, the note, the options."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from interlock.core.record import Record

#: Positions of issues begin here. Lower ones keep the order of an older tool.
_MICRO = 1_000_000
_MICRO_MAX = 2_000
#: Two reads without an assignment count if they are at least this far apart: GitHub's reads lag.
APART_S = 60.0
#: An assignment removed in the history counts as gone after this time: people swap assignees.
SWAP_S = 10.0


class RolloutStage(StrEnum):
    """The rollout stage."""

    #: The state issue and the metrics only.
    OBSERVE = "observe"
    ENFORCE = "enforce"
    #: Like enforce, with a comment for each promotion.
    COMMENT = "comment"


class Unassigned(StrEnum):
    """What happens when a user unassigns the active issue."""

    RELEASED = "released"
    KEPT = "kept"


class SeriesOptions(Record):
    """The options of a repository."""

    stage: RolloutStage = RolloutStage.ENFORCE
    unassigned: Unassigned = Unassigned.RELEASED
    #: Whether the store has gates.
    gated: bool = True

    @property
    def gates(self) -> bool:
        """Whether work on an issue waits until it is the active one."""
        return self.gated and self.stage is not RolloutStage.OBSERVE


class Member(Record):
    """An open issue of the series."""

    number: int
    micro: int
    title: str = ""
    #: The assignees whose assignment counts.
    assigned: tuple[str, ...] = ()
    #: Its dependencies, as `#12`, `acme/lib#3` or `RFC-092`; and those in this series.
    needs: tuple[str, ...] = ()
    needs_own: tuple[int, ...] = ()
    #: When its last assignee was removed, by its history; None if not read, or if it never happened.
    unassigned_s: float | None = None


class Departure(StrEnum):
    """How an issue left the series."""

    #: A pull request that closes it was merged.
    COMPLETED = "completed"
    #: Closed without a merged pull request.
    ABANDONED = "abandoned"
    RETITLED = "retitled"
    TRANSFERRED = "transferred"
    #: Converted to a discussion: the issue stays, closed and locked.
    CONVERTED = "converted"
    DELETED = "deleted"
    #: Its author may not write to the repository.
    IGNORED = "ignored"


class SeriesFacts(Record):
    """The facts of a series on GitHub."""

    members: tuple[Member, ...] = ()
    #: Issues that were in it, and how they left.
    left: Mapping[int, Departure] = {}

    def member(self, number: int | None) -> Member | None:
        return next((m for m in self.members if m.number == number), None)


class Stopped(StrEnum):
    """Whether a run was asked to end through the store."""

    NO = ""
    BY_OPERATOR = "by an operator"
    #: We withdrew its item while another process started it.
    WITHDRAWN = "withdrawn"


class LanePlacement(Record):
    """An issue's item on the lane."""

    item: int
    number: int
    position: int
    #: Its external run, if it is the active one.
    run: int | None = None
    stopped: Stopped = Stopped.NO


class AssignmentLooks(Record):
    """The observed assignment of one run, by GitHub's clock."""

    run: int = 0
    #: Whether it was seen, and when first.
    seen: bool = False
    seen_s: float = 0.0
    missing_since_s: float | None = None


class SeriesSnapshot(Record):
    """The lane, its gates, and our notes."""

    #: The owner of the lane first, then its line in order.
    placed: tuple[LanePlacement, ...] = ()
    #: Members' gates; true is open.
    gates: Mapping[int, bool] = {}
    #: Issues whose lanes have a current run that the gate holds back.
    busy: frozenset[int] = frozenset()
    looks: AssignmentLooks = AssignmentLooks()
    #: Released issues, which wait until a user assigns them again; true once seen unassigned.
    released: Mapping[int, bool] = {}
    #: The order of an older tool.
    order: tuple[int, ...] = ()
    #: Counted duplicates that are still assigned.
    flagged: frozenset[int] = frozenset()

    @property
    def owner(self) -> LanePlacement | None:
        return self.placed[0] if self.placed else None

    @property
    def active(self) -> LanePlacement | None:
        """The active issue, with its run."""
        return self.owner if self.owner is not None and self.owner.run is not None else None


def position(member: Member, order: tuple[int, ...] = ()) -> int:
    """A member's place in the line: an older tool's order first, then micro number, then number."""
    if member.number in order:
        return order.index(member.number)
    return (min(member.micro, _MICRO_MAX) + 1) * _MICRO + min(member.number, _MICRO - 1)
