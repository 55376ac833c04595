"""A series in memory: what carrying out steps does to it, and, apart from that, what it should come to.

`expected` is the plain model: it knows no steps, only what a series should be.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from interlock.core.series.decision import (
    Add,
    Assign,
    EndRun,
    MarkDuplicate,
    NoteAssignment,
    Release,
    Requeue,
    SetMemberGate,
    Start,
    Step,
    Unassign,
    UnmarkDuplicate,
    Withdraw,
    decide,
)
from interlock.core.series.snapshot import (
    AssignmentLooks,
    Departure,
    LanePlacement,
    Member,
    RolloutStage,
    SeriesFacts,
    SeriesOptions,
    SeriesSnapshot,
    position,
)

ROUNDS_MAX = 20


@dataclass
class World:
    """GitHub and a store, as far as one series goes."""

    members: dict[int, Member]
    choices: SeriesOptions = field(default_factory=SeriesOptions)
    placed: list[LanePlacement] = field(default_factory=list)
    gates: dict[int, bool] = field(default_factory=dict)
    busy: set[int] = field(default_factory=set)
    looks: AssignmentLooks = field(default_factory=AssignmentLooks)
    released: dict[int, bool] = field(default_factory=dict)
    flagged: set[int] = field(default_factory=set)
    left: dict[int, Departure] = field(default_factory=dict)
    now_s: float = 1_000.0
    items: int = 100
    runs: int = 100

    def snapshot(self) -> SeriesSnapshot:
        owner = [p for p in self.placed if p.run is not None] or self.placed[:1]
        line = sorted((p for p in self.placed if p not in owner), key=lambda p: (p.position, p.item))
        return SeriesSnapshot(
            placed=(*owner, *line),
            gates=dict(self.gates),
            busy=frozenset(self.busy),
            looks=self.looks,
            released=dict(self.released),
            flagged=frozenset(self.flagged),
        )

    def facts(self) -> SeriesFacts:
        known = {p.number for p in self.placed} | set(self.released)
        left = {n: self.left.get(n, Departure.ABANDONED) for n in known if n not in self.members}
        return SeriesFacts(members=tuple(self.members.values()), left=left)

    @property
    def active(self) -> int | None:
        found = [p.number for p in self.placed if p.run is not None]
        assert len(found) <= 1, found
        return found[0] if found else None

    def settle(self) -> list[Step]:
        """Decide and carry out until nothing is left to do; all steps."""
        done: list[Step] = []
        for _ in range(ROUNDS_MAX):
            steps = decide(self.facts(), self.snapshot(), self.choices, self.now_s)
            if not steps:
                return done
            for step in steps:
                self.carry_out(step)
            done += steps
        raise AssertionError(f"no end: {done[-6:]}")

    def carry_out(self, step: Step) -> None:  # noqa: PLR0912  (one line for each step)
        match step:
            case Add(number, where, _):
                self.items += 1
                self.placed.append(LanePlacement(item=self.items, number=number, position=where))
                self._promote()
            case Withdraw(item, _, _):
                self.placed = [p for p in self.placed if p.item != item]
                self._promote()
            case Start(item, number, _):
                owner = self.snapshot().owner
                assert self.active is None
                assert owner is not None
                assert owner.item == item
                self.runs += 1
                self._change(
                    item, LanePlacement(item=item, number=number, position=owner.position, run=self.runs)
                )
            case EndRun(item, _, run, _, _, _):
                assert any(p.item == item and p.run == run for p in self.placed)
                self.placed = [p for p in self.placed if p.item != item]
                self._promote()
            case SetMemberGate(number, None, _):
                del self.gates[number]
            case SetMemberGate(number, bool() as is_open, _):
                self.gates[number] = is_open
            case Assign(number, _, _):
                self._assign(number, ("bot",))
            case Unassign(number, _, _):
                self._assign(number, ())
            case MarkDuplicate(number):
                self.flagged.add(number)
            case UnmarkDuplicate(number):
                self.flagged.discard(number)
            case NoteAssignment(looks):
                self.looks = looks
            case Release(number, out):
                self.released[number] = out
            case Requeue(number):
                self.released.pop(number, None)
            case _:
                raise AssertionError(step)

    def _promote(self) -> None:
        """The kernel: who owns the lane stays first; else the first of the line."""
        if not any(p.run is not None for p in self.placed) and self.placed:
            first = self.placed[0]
            if not getattr(self, "_owner", None) or self._owner not in [p.item for p in self.placed]:
                first = min(self.placed, key=lambda p: (p.position, p.item))
            else:
                first = next(p for p in self.placed if p.item == self._owner)
            self._owner: int | None = first.item
            self.placed = [first, *(p for p in self.placed if p is not first)]
        elif not self.placed:
            self._owner = None

    def _change(self, item: int, now: LanePlacement) -> None:
        self.placed = [now if p.item == item else p for p in self.placed]

    def _assign(self, number: int, logins: tuple[str, ...]) -> None:
        if number in self.members:
            member = self.members[number]
            self.members[number] = Member(
                number=number,
                micro=member.micro,
                assigned=logins,
                needs=member.needs,
                needs_own=member.needs_own,
            )


@dataclass
class Expected:
    active: int | None
    line: list[int]
    assigned: set[int]
    gates: dict[int, bool]


def expected(world: World) -> Expected:
    """What a series should be after one reconcile."""
    members, released = world.members, world.released
    observed = world.choices.stage is RolloutStage.OBSERVE
    order = sorted(members.values(), key=lambda m: (m.micro, m.number))
    had = next((p for p in world.placed if p.run is not None), None)
    active = None
    gone: set[int] = set()
    if had is not None and had.number in members:
        member = members[had.number]
        again = released.get(had.number) and member.assigned
        if (had.number in released and not again) or had.stopped:
            gone.add(had.number)
        elif not member.needs_own:
            active = had.number
    if active is None:
        # What was given back counts again once somebody assigns it.
        free = [
            m
            for m in order
            if m.assigned and not m.needs_own and m.number not in gone and released.get(m.number) is not False
        ]
        ready = [m for m in order if not m.needs and m.number not in released and m.number not in gone]
        first = free or ([] if observed else ready)
        active = first[0].number if first else None
    assigned = {m.number for m in order if m.assigned}
    if not observed:
        assigned = {active} if active is not None else set()
        seen = had is not None and active == had.number and world.looks.run == had.run and world.looks.seen
        if seen and active is not None and not members[active].assigned:
            assigned = set()  # somebody took it away, and it is kept without
    line = []
    for member in order:
        back = member.number in gone or (
            member.number in released and not (released[member.number] and member.assigned)
        )
        if not member.needs and not back and member.number != active:
            line.append(member.number)
    gates = {} if observed else {m.number: m.number == active for m in order}
    return Expected(active, line, assigned, gates)


def check(world: World) -> None:
    """Settle a world, and compare it with what it should be."""
    wanted = expected(world)
    world.settle()
    assert world.active == wanted.active
    assert [p.number for p in world.snapshot().placed if p.run is None] == wanted.line
    assert {m.number for m in world.members.values() if m.assigned} == wanted.assigned
    assert world.gates == wanted.gates
    assert all(p.position == position(world.members[p.number]) for p in world.placed)
