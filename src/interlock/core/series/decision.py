"""The next steps of a series, from its facts and its snapshot: level-triggered, round by round.

    facts and snapshot as they should be  ->  ()
    else                                  ->  steps; carry them out in order, look again, decide again

Every step is a write of its own that is refused, or changes nothing, if another process was faster. So a
process may die anywhere, and several may decide at once.

- **One is active.** Nothing is started while an owner has a run.
- **An issue leaves in order**: its gate is shut, its runs end, its run ends, and the kernel promotes.
- **On a free series** an assigned issue comes first; else the first of the line.
- **On a taken series** every other issue is unassigned. The active issue is assigned only after all others
  were seen unassigned.
"""

from __future__ import annotations

from interlock.core.row import NamedTuple
from interlock.core.series.snapshot import (
    APART_S,
    SWAP_S,
    AssignmentLooks,
    Departure,
    LanePlacement,
    Member,
    RolloutStage,
    SeriesFacts,
    SeriesOptions,
    SeriesSnapshot,
    Stopped,
    Unassigned,
    position,
)


class Add(NamedTuple):
    """Put an issue in line."""

    number: int
    position: int
    title: str


class Withdraw(NamedTuple):
    """Take an item without a run out of the line."""

    item: int
    number: int
    why: str


class Start(NamedTuple):
    """Start the owner. `adopted` is the login already assigned to it."""

    item: int
    number: int
    adopted: str | None = None


class EndRun(NamedTuple):
    """End the active issue's run, iff it is still that run."""

    item: int
    number: int
    run: int
    completed: bool
    why: str
    #: It gives its place to a later one of its series that it needs.
    yields: bool = False


class SetMemberGate(NamedTuple):
    """Open or shut a member's gate; None removes it."""

    number: int
    open: bool | None
    why: str


class Assign(NamedTuple):
    """Assign the active issue, once these issues are seen not to be assigned to these logins."""

    number: int
    run: int
    after: tuple[tuple[int, tuple[str, ...]], ...] = ()


class Unassign(NamedTuple):
    """Remove assignees."""

    number: int
    logins: tuple[str, ...]
    why: str


class MarkDuplicate(NamedTuple):
    """Mark an issue assigned in addition to the active one, and count it once."""

    number: int


class UnmarkDuplicate(NamedTuple):
    """Remove the mark of a duplicate."""

    number: int


class NoteAssignment(NamedTuple):
    """Note what was seen of the assignment."""

    looks: AssignmentLooks


class Release(NamedTuple):
    """Note that an issue was released. `out`: it has been seen unassigned since."""

    number: int
    out: bool


class Requeue(NamedTuple):
    """Remove an issue from the released ones: a user assigned it again, or it left the series."""

    number: int


Step = (
    Add
    | Withdraw
    | Start
    | EndRun
    | SetMemberGate
    | Assign
    | Unassign
    | MarkDuplicate
    | UnmarkDuplicate
    | NoteAssignment
    | Release
    | Requeue
)


def decide(
    facts: SeriesFacts, snapshot: SeriesSnapshot, choices: SeriesOptions, now_s: float
) -> tuple[Step, ...]:
    """The next steps. `now_s` is GitHub's clock."""
    active = snapshot.active
    if active is None:
        return _start_next(facts, snapshot, choices)
    why = _reason_to_leave(active, facts, snapshot, choices, now_s)
    if why is not None:
        return _leave_steps(active, why, facts, snapshot, choices)
    return (
        *_queue_steps(facts, snapshot, {m.number for m in _queueable(facts, snapshot)} - {active.number}),
        *_gate_steps(facts, snapshot, choices, active.number),
        *_duplicate_steps(facts, snapshot, choices, active.number),
        *_assignment_steps(active, facts, snapshot, choices, now_s),
        *_release_steps(facts, snapshot),
    )


def _start_next(facts: SeriesFacts, snapshot: SeriesSnapshot, choices: SeriesOptions) -> tuple[Step, ...]:
    """The series has no active issue: an assigned issue comes first, else the first of the queue."""
    assigned = [m for m in _sorted(facts, snapshot) if m.assigned and _may_be_adopted(m, snapshot)]
    ready = {m.number for m in _queueable(facts, snapshot)}
    first = assigned[0] if assigned else None
    if first is not None:
        ready |= {first.number}
        ahead = position(first, snapshot.order)
        ready -= {m.number for m in facts.members if position(m, snapshot.order) < ahead}
    marks, line = _release_steps(facts, snapshot), _queue_steps(facts, snapshot, ready)
    gates = _gate_steps(facts, snapshot, choices, None)
    if marks or line:
        return (*gates, *marks, *line)
    owner = snapshot.owner
    if owner is not None:
        head = min(snapshot.placed, key=lambda placed: placed.position)
        if owner.number != head.number:
            return (*gates, Withdraw(owner.item, owner.number, f"#{head.number} goes first"))
    if owner is None or (first is None and choices.stage is RolloutStage.OBSERVE):
        return (*gates, *_duplicate_steps(facts, snapshot, choices, None))
    return (*gates, Start(owner.item, owner.number, adopted=first.assigned[0] if first is not None else None))


def _may_be_adopted(member: Member, snapshot: SeriesSnapshot) -> bool:
    """Whether it may start: not if an issue of its own series must come first, nor while we still unassign
    it."""
    return not member.needs_own and snapshot.released.get(member.number) is not False


def _is_reassigned(member: Member, snapshot: SeriesSnapshot) -> bool:
    """Whether a user assigned a released issue after it was seen unassigned."""
    return bool(snapshot.released.get(member.number) and member.assigned)


def _queueable(facts: SeriesFacts, snapshot: SeriesSnapshot) -> list[Member]:
    """Members that may queue."""
    return [m for m in facts.members if not m.needs and m.number not in snapshot.released]


def _sorted(facts: SeriesFacts, snapshot: SeriesSnapshot) -> list[Member]:
    return sorted(facts.members, key=lambda m: (position(m, snapshot.order), m.number))


# -- who leaves ----------------------------------------------------------------------------------------


class _LeaveReason(NamedTuple):
    why: str
    completed: bool = False
    #: It waits until a user assigns it again.
    released: bool = False
    yields: bool = False


_LEFT = {
    Departure.COMPLETED: "closed by a merged pull request",
    Departure.ABANDONED: "closed without a merged pull request",
    Departure.RETITLED: "retitled out of the series",
    Departure.TRANSFERRED: "transferred to another repository",
    Departure.CONVERTED: "converted to a discussion",
    Departure.DELETED: "deleted",
    Departure.IGNORED: "its author has no write access",
}


def _reason_to_leave(
    active: LanePlacement, facts: SeriesFacts, snapshot: SeriesSnapshot, choices: SeriesOptions, now_s: float
) -> _LeaveReason | None:
    member = facts.member(active.number)
    if member is None:
        how = facts.left.get(active.number, Departure.DELETED)
        return _LeaveReason(_LEFT[how], completed=how is Departure.COMPLETED)
    if active.number in snapshot.released and not _is_reassigned(member, snapshot):
        return _LeaveReason("released", released=True)
    if active.stopped is not Stopped.NO:
        return _LeaveReason("ended by an operator", released=active.stopped is Stopped.BY_OPERATOR)
    if member.needs_own:
        first = ", ".join(f"#{n}" for n in member.needs_own)
        return _LeaveReason(f"blocked by {first} of its series", yields=True)
    if choices.unassigned is Unassigned.RELEASED and _is_missing(active, member, snapshot.looks, now_s):
        return _LeaveReason("unassigned by hand", released=True)
    return None


def _is_missing(active: LanePlacement, member: Member, looks: AssignmentLooks, now_s: float) -> bool:
    """Whether a seen assignment is gone: by its history, or by two reads far enough apart."""
    if member.assigned or looks.run != active.run or not looks.seen:
        return False
    if member.unassigned_s is not None and int(looks.seen_s) <= member.unassigned_s <= now_s - SWAP_S:
        return True
    return looks.missing_since_s is not None and now_s - looks.missing_since_s >= APART_S


def _leave_steps(
    active: LanePlacement,
    leaving: _LeaveReason,
    facts: SeriesFacts,
    snapshot: SeriesSnapshot,
    choices: SeriesOptions,
) -> tuple[Step, ...]:
    """Shut the gate, wait for the runs behind it, then end: each in a separate round."""
    number, member = active.number, facts.member(active.number)
    steps: list[Step] = []
    # An assignment from before the release does not count as a new request.
    again = member is not None and _is_reassigned(member, snapshot)
    if leaving.released and (number not in snapshot.released or again):
        steps.append(Release(number, out=not (member and member.assigned)))
    if choices.gates and snapshot.gates.get(number) is not False:
        steps.append(SetMemberGate(number, False, leaving.why))
    if steps:
        return tuple(steps)
    if choices.gates and number in snapshot.busy:
        return ()
    assert active.run is not None
    return (EndRun(active.item, number, active.run, leaving.completed, leaving.why, leaving.yields),)


# -- the line, the gates, the assignments --------------------------------------------------------------


def _queue_steps(facts: SeriesFacts, snapshot: SeriesSnapshot, wanted: set[int]) -> tuple[Step, ...]:
    """Queue members that may queue, and take out items that may not."""
    members = {m.number: m for m in facts.members}
    there: set[int] = set()
    steps: list[Step] = []
    for placed in snapshot.placed:
        if placed.run is not None:
            continue
        number = placed.number
        if number not in wanted:
            steps.append(Withdraw(placed.item, number, _why_not(facts, snapshot, number)))
        elif number in there or placed.position != position(members[number], snapshot.order):
            steps.append(Withdraw(placed.item, number, "its position changed"))
        else:
            there.add(number)
    missing = [m for m in _sorted(facts, snapshot) if m.number in wanted - there]
    # If an item of the same number is withdrawn now, the number is queued again in the next round.
    gone = {step.number for step in steps if isinstance(step, Withdraw)}
    steps += [Add(m.number, position(m, snapshot.order), m.title) for m in missing if m.number not in gone]
    return tuple(steps)


def _why_not(facts: SeriesFacts, snapshot: SeriesSnapshot, number: int) -> str:
    member = facts.member(number)
    if member is None:
        return _LEFT[facts.left.get(number, Departure.DELETED)]
    if member.needs:
        return f"blocked by {', '.join(member.needs)}"
    if number in snapshot.released:
        return "released"
    if snapshot.active is not None and snapshot.active.number == number:
        return "already active"
    return "an assigned issue goes first"


def _gate_steps(
    facts: SeriesFacts, snapshot: SeriesSnapshot, choices: SeriesOptions, active: int | None
) -> tuple[Step, ...]:
    """Work on an issue may start while it is the active one. Non-members are not held back."""
    if not choices.gates:
        return tuple(SetMemberGate(number, None, "not enforced") for number in sorted(snapshot.gates))
    members = {m.number for m in facts.members}
    steps: list[Step] = [
        SetMemberGate(number, None, "not in the series")
        for number in sorted(snapshot.gates)
        if number not in members
    ]
    # A gate opens only while all others are shut.
    for member in sorted(_sorted(facts, snapshot), key=lambda m: m.number == active):
        should = member.number == active
        if snapshot.gates.get(member.number) is not should:
            why = "the active issue" if should else "another issue of the series comes first"
            steps.append(SetMemberGate(member.number, should, why))
    return tuple(steps)


def _assignment_steps(
    active: LanePlacement, facts: SeriesFacts, snapshot: SeriesSnapshot, choices: SeriesOptions, now_s: float
) -> tuple[Step, ...]:
    """Request the assignment until it is seen; note when it is gone again."""
    member, looks = facts.member(active.number), snapshot.looks
    assert member is not None and active.run is not None
    mine = looks if looks.run == active.run else AssignmentLooks(run=active.run)
    if member.assigned:
        if mine.seen and mine.missing_since_s is None:
            return ()
        return (
            NoteAssignment(
                AssignmentLooks(run=active.run, seen=True, seen_s=mine.seen_s if mine.seen else now_s)
            ),
        )
    if not mine.seen:
        if choices.stage is RolloutStage.OBSERVE:
            return ()
        others = ((m.number, m.assigned) for m in _sorted(facts, snapshot) if m.assigned)
        return (Assign(active.number, active.run, tuple(others)),)
    if mine.missing_since_s is None or mine.missing_since_s > now_s:
        return (
            NoteAssignment(
                AssignmentLooks(run=active.run, seen=True, seen_s=mine.seen_s, missing_since_s=now_s)
            ),
        )
    return ()


def _duplicate_steps(
    facts: SeriesFacts, snapshot: SeriesSnapshot, choices: SeriesOptions, active: int | None
) -> tuple[Step, ...]:
    """Issues assigned in addition to the active one, or before an issue of the series that must come
    first."""
    steps: list[Step] = []
    flagged = set(snapshot.flagged)
    for member in _sorted(facts, snapshot):
        if not member.assigned or member.number == active:
            continue
        if snapshot.released.get(member.number) is False:
            if choices.stage is not RolloutStage.OBSERVE:
                steps.append(Unassign(member.number, member.assigned, "released"))
            continue
        if active is not None:
            why = f"#{active} is active"
        elif member.needs_own:
            why = f"blocked by {', '.join(f'#{n}' for n in member.needs_own)}"
        else:
            continue
        if member.number not in snapshot.flagged:
            steps.append(MarkDuplicate(member.number))
        if choices.stage is not RolloutStage.OBSERVE:
            steps.append(Unassign(member.number, member.assigned, why))
        flagged.discard(member.number)
    return (*steps, *(UnmarkDuplicate(number) for number in sorted(flagged)))


def _release_steps(facts: SeriesFacts, snapshot: SeriesSnapshot) -> tuple[Step, ...]:
    """Update the released issues: seen unassigned, assigned again by a user, or no longer in the series."""
    steps: list[Step] = []
    for number, out in sorted(snapshot.released.items()):
        member = facts.member(number)
        if member is None or _is_reassigned(member, snapshot):
            steps.append(Requeue(number))
        elif not out and not member.assigned:
            steps.append(Release(number, out=True))
    return tuple(steps)
