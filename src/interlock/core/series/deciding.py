"""What must happen next in a series, by its facts and its standing: level-triggered, one round at a time.

    facts and standing as they should be  ->  ()
    else                                  ->  steps; carry them out in order, look again, decide again

Every step is a write of its own that is refused, or changes nothing, if somebody else was faster. So it does
not matter where a process dies, or how many decide at once.

- **One is active.** Nothing is started while an owner has a run.
- **Who leaves, leaves in order**: its gate is shut, its runs end, its run ends, and the kernel promotes.
- **On a free series** an issue that is assigned already comes first; else the first of the line.
- **On a taken one** nobody else stays assigned, and the active issue is assigned only after everybody else
  was seen to be unassigned.
"""

from __future__ import annotations

from interlock.core.row import NamedTuple
from interlock.core.series.standing import (
    APART_S,
    SWAP_S,
    Choices,
    Facts,
    How,
    Looks,
    Member,
    Mode,
    Placed,
    Standing,
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
    """Take an item out of the line that has no run."""

    item: int
    number: int
    why: str


class Start(NamedTuple):
    """Start the owner. With a login it is assigned to, it is adopted: nobody needs to assign it."""

    item: int
    number: int
    adopted: str | None = None


class End(NamedTuple):
    """End the active issue's run, iff it is still that run."""

    item: int
    number: int
    run: int
    completed: bool
    why: str
    #: It gives its place to a later one of its series that it needs.
    yields: bool = False


class Gate(NamedTuple):
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


class Flag(NamedTuple):
    """Count a double, once."""

    number: int


class Unflag(NamedTuple):
    """The issue is no double any more."""

    number: int


class Look(NamedTuple):
    """Note what was seen of the assignment."""

    looks: Looks


class Release(NamedTuple):
    """Note that an issue was given back. True: it has been seen unassigned since."""

    number: int
    out: bool


class Want(NamedTuple):
    """Somebody wants an issue again that was given back, or it has left."""

    number: int


Step = Add | Withdraw | Start | End | Gate | Assign | Unassign | Flag | Unflag | Look | Release | Want


def decide(facts: Facts, standing: Standing, choices: Choices, now_s: float) -> tuple[Step, ...]:
    """The next steps. `now_s` is GitHub's clock."""
    active = standing.active
    if active is None:
        return _free(facts, standing, choices)
    why = _leaves(active, facts, standing, choices, now_s)
    if why is not None:
        return _leave(active, why, facts, standing, choices)
    return (
        *_line(facts, standing, {m.number for m in _ready(facts, standing)} - {active.number}),
        *_gates(facts, standing, choices, active.number),
        *_doubles(facts, standing, choices, active.number),
        *_watch(active, facts, standing, choices, now_s),
        *_marks(facts, standing),
    )


def _free(facts: Facts, standing: Standing, choices: Choices) -> tuple[Step, ...]:
    """Nobody has it: whoever is assigned already comes first, else the first of the line."""
    assigned = [m for m in _sorted(facts, standing) if m.assigned and _may_be_adopted(m, standing)]
    ready = {m.number for m in _ready(facts, standing)}
    first = assigned[0] if assigned else None
    if first is not None:
        ready |= {first.number}
        ahead = position(first, standing.order)
        ready -= {m.number for m in facts.members if position(m, standing.order) < ahead}
    marks, line = _marks(facts, standing), _line(facts, standing, ready)
    gates = _gates(facts, standing, choices, None)
    if marks or line:
        return (*gates, *marks, *line)
    owner = standing.owner
    if owner is not None:
        head = min(standing.placed, key=lambda placed: placed.position)
        if owner.number != head.number:
            return (*gates, Withdraw(owner.item, owner.number, f"#{head.number} goes first"))
    if owner is None or (first is None and choices.mode is Mode.OBSERVE):
        return (*gates, *_doubles(facts, standing, choices, None))
    return (*gates, Start(owner.item, owner.number, adopted=first.assigned[0] if first is not None else None))


def _may_be_adopted(member: Member, standing: Standing) -> bool:
    """Not if one of its own series must come first, nor while we still take its assignment away."""
    return not member.needs_own and standing.released.get(member.number) is not False


def _is_wanted_again(member: Member, standing: Standing) -> bool:
    """Whether somebody assigned an issue that was given back, and had been seen unassigned."""
    return bool(standing.released.get(member.number) and member.assigned)


def _ready(facts: Facts, standing: Standing) -> list[Member]:
    """Members that may be in line."""
    return [m for m in facts.members if not m.needs and m.number not in standing.released]


def _sorted(facts: Facts, standing: Standing) -> list[Member]:
    return sorted(facts.members, key=lambda m: (position(m, standing.order), m.number))


# -- who leaves ----------------------------------------------------------------------------------------


class _Leaving(NamedTuple):
    why: str
    completed: bool = False
    #: It waits until somebody wants it again.
    released: bool = False
    yields: bool = False


_LEFT = {
    How.COMPLETED: "a pull request that closes it was merged",
    How.ABANDONED: "closed without a merged pull request",
    How.RETITLED: "its title has another series, or none",
    How.TRANSFERRED: "transferred to another repository",
    How.CONVERTED: "converted to a discussion",
    How.DELETED: "deleted",
    How.IGNORED: "its author may not write to the repository",
}


def _leaves(
    active: Placed, facts: Facts, standing: Standing, choices: Choices, now_s: float
) -> _Leaving | None:
    member = facts.member(active.number)
    if member is None:
        how = facts.left.get(active.number, How.DELETED)
        return _Leaving(_LEFT[how], completed=how is How.COMPLETED)
    if active.number in standing.released and not _is_wanted_again(member, standing):
        return _Leaving("given back", released=True)
    if active.stopped is not Stopped.NO:
        return _Leaving("ended by an operator", released=active.stopped is Stopped.BY_OPERATOR)
    if member.needs_own:
        first = ", ".join(f"#{n}" for n in member.needs_own)
        return _Leaving(f"{first} of its series must come first", yields=True)
    if choices.unassigned is Unassigned.RELEASED and _is_missing(active, member, standing.looks, now_s):
        return _Leaving("unassigned by hand", released=True)
    return None


def _is_missing(active: Placed, member: Member, looks: Looks, now_s: float) -> bool:
    """Whether an assignment is gone that had been seen: its history says so, or two looks that are far
    enough apart."""
    if member.assigned or looks.run != active.run or not looks.seen:
        return False
    if member.unassigned_s is not None and int(looks.seen_s) <= member.unassigned_s <= now_s - SWAP_S:
        return True
    return looks.missing_since_s is not None and now_s - looks.missing_since_s >= APART_S


def _leave(
    active: Placed, leaving: _Leaving, facts: Facts, standing: Standing, choices: Choices
) -> tuple[Step, ...]:
    """Shut the gate, wait for what runs behind it, then end: each in a round of its own."""
    number, member = active.number, facts.member(active.number)
    steps: list[Step] = []
    # An assignment that was there before it was given back does not count as a wish for it.
    again = member is not None and _is_wanted_again(member, standing)
    if leaving.released and (number not in standing.released or again):
        steps.append(Release(number, out=not (member and member.assigned)))
    if choices.gates and standing.gates.get(number) is not False:
        steps.append(Gate(number, False, leaving.why))
    if steps:
        return tuple(steps)
    if choices.gates and number in standing.busy:
        return ()
    assert active.run is not None
    return (End(active.item, number, active.run, leaving.completed, leaving.why, leaving.yields),)


# -- the line, the gates, the assignments --------------------------------------------------------------


def _line(facts: Facts, standing: Standing, wanted: set[int]) -> tuple[Step, ...]:
    """Put in line who may be there and is not; take out who is there and may not."""
    members = {m.number: m for m in facts.members}
    there: set[int] = set()
    steps: list[Step] = []
    for placed in standing.placed:
        if placed.run is not None:
            continue
        number = placed.number
        if number not in wanted:
            steps.append(Withdraw(placed.item, number, _why_not(facts, standing, number)))
        elif number in there or placed.position != position(members[number], standing.order):
            steps.append(Withdraw(placed.item, number, "its place in the line is another"))
        else:
            there.add(number)
    missing = [m for m in _sorted(facts, standing) if m.number in wanted - there]
    # An item of the same number that is withdrawn now is put in line again in the next round.
    gone = {step.number for step in steps if isinstance(step, Withdraw)}
    steps += [Add(m.number, position(m, standing.order), m.title) for m in missing if m.number not in gone]
    return tuple(steps)


def _why_not(facts: Facts, standing: Standing, number: int) -> str:
    member = facts.member(number)
    if member is None:
        return _LEFT[facts.left.get(number, How.DELETED)]
    if member.needs:
        return f"{', '.join(member.needs)} must come first"
    if number in standing.released:
        return "given back"
    if standing.active is not None and standing.active.number == number:
        return "it is active already"
    return "an issue that is assigned already goes first"


def _gates(facts: Facts, standing: Standing, choices: Choices, active: int | None) -> tuple[Step, ...]:
    """Work on an issue may start while it is the active one. Who is no member is not held back."""
    if not choices.gates:
        return tuple(Gate(number, None, "observed only") for number in sorted(standing.gates))
    members = {m.number for m in facts.members}
    steps: list[Step] = [
        Gate(number, None, "no issue of the series")
        for number in sorted(standing.gates)
        if number not in members
    ]
    # One opens only while all others are shut.
    for member in sorted(_sorted(facts, standing), key=lambda m: m.number == active):
        should = member.number == active
        if standing.gates.get(member.number) is not should:
            why = "the active issue" if should else "another issue of the series comes first"
            steps.append(Gate(member.number, should, why))
    return tuple(steps)


def _watch(
    active: Placed, facts: Facts, standing: Standing, choices: Choices, now_s: float
) -> tuple[Step, ...]:
    """Owe the assignment until it was seen; note when it is gone again."""
    member, looks = facts.member(active.number), standing.looks
    assert member is not None and active.run is not None
    mine = looks if looks.run == active.run else Looks(run=active.run)
    if member.assigned:
        if mine.seen and mine.missing_since_s is None:
            return ()
        return (Look(Looks(run=active.run, seen=True, seen_s=mine.seen_s if mine.seen else now_s)),)
    if not mine.seen:
        if choices.mode is Mode.OBSERVE:
            return ()
        others = ((m.number, m.assigned) for m in _sorted(facts, standing) if m.assigned)
        return (Assign(active.number, active.run, tuple(others)),)
    if mine.missing_since_s is None or mine.missing_since_s > now_s:
        return (Look(Looks(run=active.run, seen=True, seen_s=mine.seen_s, missing_since_s=now_s)),)
    return ()


def _doubles(facts: Facts, standing: Standing, choices: Choices, active: int | None) -> tuple[Step, ...]:
    """Who is assigned beside the active issue, or before one of its own series that must come first."""
    steps: list[Step] = []
    flagged = set(standing.flagged)
    for member in _sorted(facts, standing):
        if not member.assigned or member.number == active:
            continue
        if standing.released.get(member.number) is False:
            if choices.mode is not Mode.OBSERVE:
                steps.append(Unassign(member.number, member.assigned, "given back"))
            continue
        if active is not None:
            why = f"#{active} has the series"
        elif member.needs_own:
            why = f"{', '.join(f'#{n}' for n in member.needs_own)} must come first"
        else:
            continue
        if member.number not in standing.flagged:
            steps.append(Flag(member.number))
        if choices.mode is not Mode.OBSERVE:
            steps.append(Unassign(member.number, member.assigned, why))
        flagged.discard(member.number)
    return (*steps, *(Unflag(number) for number in sorted(flagged)))


def _marks(facts: Facts, standing: Standing) -> tuple[Step, ...]:
    """What was given back: seen unassigned, wanted again because somebody assigned it, or gone."""
    steps: list[Step] = []
    for number, out in sorted(standing.released.items()):
        member = facts.member(number)
        if member is None or _is_wanted_again(member, standing):
            steps.append(Want(number))
        elif not out and not member.assigned:
            steps.append(Release(number, out=True))
    return tuple(steps)
