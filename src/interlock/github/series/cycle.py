"""One cycle of a series: rounds that observe, decide and write, until nothing is left to do."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from interlock.core.errors import (
    GitHubLimited,
    GitHubRefused,
    GitHubUnavailable,
    StoreBusy,
)
from interlock.core.record import Record
from interlock.core.series import document
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
from interlock.core.series.snapshot import LanePlacement, RolloutStage, SeriesFacts, SeriesSnapshot, position
from interlock.github.series.context import SeriesContext
from interlock.github.series.handover import Handover
from interlock.github.series.lane import NO_GATES, SeriesGates
from interlock.github.series.observation import Observation
from interlock.github.series.series_note import (
    COUNTED,
    NoteData,
    NoteDraft,
    add_count,
    looks_of,
    numbers_of,
)
from interlock.github.series.state_issue import StateIssues
from interlock.service.series import Acquired

#: The most rounds of a cycle. No state needs as many.
ROUNDS_MAX = 40
#: The most departed issues that are noted.
LEFT_MAX = 100
#: The most changes of a reconcile that are noted.
DONE_MAX = 20
FAULTS = (GitHubRefused, GitHubUnavailable, GitHubLimited)


class EarlierSeries(Record):
    """The state of a series before GitHub was read. A write is refused if the lane has changed since."""

    data: NoteData
    placed: tuple[LanePlacement, ...] = ()
    gates: SeriesGates = NO_GATES


class SeriesCycle:
    """One cycle of one series."""

    def __init__(
        self,
        context: SeriesContext,
        before: EarlierSeries | None,
        series: str,
        look: Observation,
        issues: StateIssues,
        *,
        only: int | None = None,
        caller_assigns: bool = False,
    ) -> None:
        """`only` is the one issue that may start. With `caller_assigns`, the caller of `acquire` assigns
        it."""
        self.context, self.series, self.look, self.issues, self._only = context, series, look, issues, only
        self.lane, data = context.lane(series), {} if before is None else before.data
        self.note = NoteDraft(context.note(series), data)
        self.handover = Handover(context, self.note, acquired=only, caller_assigns=caller_assigns)
        self.facts = SeriesFacts()
        self.placed = () if before is None else before.placed
        #: Whether the lane has changed since it was read. `_gates` has its gates, unless they have changed.
        self._moved = before is None
        self._began_late = before is None
        self._gates = None if before is None else before.gates
        #: Issues that we started, and their runs.
        self.started: set[int] = set()
        self._began: set[int] = set()
        self.done: list[str] = []
        self.problems: list[str] = []
        #: Issues to unassign.
        self.unassigning: set[int] = set()

    @property
    def data(self) -> NoteData:
        """The data of the note."""
        return self.note.data

    def check(self) -> None:
        """Raise if a newer version manages the series. On first contact, take over the state of an older
        tool."""
        self.issues.check(self.series)
        if self.data or self._snapshot().placed:
            return
        left = self.issues.left_by_another(self.series)
        order: tuple[int, ...] = ()
        if left is not None:
            known = {m.number: m for m in self.look.facts(self.series, (), None).members}
            order = tuple(n for n in document.order(left, left.active_issue) if n in known)
            self.done.append(f"taken over from its state issue: {_numbers(order)}" if order else "taken over")
            natural = sorted(known, key=lambda n: position(known[n]))
            if tuple(natural[: len(order)]) == order:
                order = ()

        def first(data: NoteData) -> None:
            data.setdefault("order", list(order))

        self.note.change(first)

    # -- rounds -----------------------------------------------------------------------------------

    def rounds(self) -> None:
        """Decide and carry out until nothing is left to do.

        Unchanged state is not read again: on git each read is a fetch.
        """
        #: Runs that existed before GitHub was read: its answer does not cover later ones.
        seen = set() if self._began_late else {each.run for each in self.placed if each.run is not None}
        stale = False
        for _ in range(ROUNDS_MAX):
            snapshot = self._snapshot()
            run = None if snapshot.active is None else snapshot.active.run
            if stale or (run is not None and run not in seen):
                self.look, stale = self.context.look(), False
                seen |= {run} if run is not None else set()
            self.handover.record(snapshot.active)
            self.facts = self._facts(snapshot)
            steps = decide(self.facts, snapshot, self.context.rules.choices, self.context.now_s())
            conflicts = self.note.counts["conflicts"]
            if not self._carried_out(self._allowed(steps), snapshot):
                return
            seen |= self._began
            if self.note.counts["conflicts"] > conflicts:
                self.note.count("retries")
                stale, self._moved, self._gates = True, True, None
                self.note.reread()

    def _facts(self, snapshot: SeriesSnapshot) -> SeriesFacts:
        active, looks = snapshot.active, snapshot.looks
        known = [*(each.number for each in self.placed), *snapshot.released, *snapshot.gates]
        return self.look.facts(
            self.series,
            [number for number in known if number],
            None if active is None else active.number,
            left=numbers_of(self.data, "left"),
            watch=active is not None and looks.run == active.run and looks.seen,
        )

    def _snapshot(self) -> SeriesSnapshot:
        if self._moved:
            self.placed, self._moved = self.lane.placed(), False
        if self._gates is None:
            self._gates = self.lane.gates() if self.context.rules.choices.gated else NO_GATES
        return SeriesSnapshot(
            placed=self.placed,
            gates=self._gates.open,
            busy=self._gates.busy,
            looks=looks_of(self.data),
            released=numbers_of(self.data, "released"),
            order=tuple(self.data.get("order") or ()),
            flagged=frozenset(self.data.get("flagged") or ()),
        )

    def _allowed(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """Filter the steps: an acquire starts and assigns only its own issue. An assigned issue is
        adopted."""
        if self._only is None:
            return steps
        return tuple(
            step
            for step in steps
            if not (isinstance(step, Start) and step.number != self._only and step.adopted is None)
            and not (isinstance(step, Assign) and step.number != self._only)
        )

    def _carried_out(self, steps: tuple[Step, ...], snapshot: SeriesSnapshot) -> bool:
        """Carry out steps in order; gives whether any of them changed something."""
        changed = False
        adds = [step for step in steps if isinstance(step, Add)]
        for step in steps:
            if isinstance(step, Add):
                continue
            changed = self._carry_out(step, snapshot) or changed
        if adds:
            self._moved = True
            self.lane.add(adds)
            self.done += [f"#{step.number} queued" for step in adds]
            changed = True
        return changed

    def _carry_out(self, step: Step, snapshot: SeriesSnapshot) -> bool:
        match step:
            case Withdraw():
                self._moved = True
                self._note_left(step.number)
                return self._settled(self.lane.withdraw(step), f"#{step.number} dequeued: {step.why}")
            case Start():
                return self._start(step)
            case EndRun():
                self._moved = True
                self._note_left(step.number)
                leaving = {"number": step.number, "why": step.why}
                self.note.change(lambda data: data.update(leaving=leaving, handover=None))
                return self._settled(self.lane.end(step), f"#{step.number} ended: {step.why}")
            case SetMemberGate():
                run = snapshot.active.run if step.open and snapshot.active else None
                if not self.lane.gate(step, run):
                    return False  # the next cycle opens it
                self._gated(step, snapshot)
                return self._settled(True, f"#{step.number} {_GATES[step.open]}")
            case Assign():
                return self._acted(self.handover.assign(step))
            case Unassign():
                return self._unassign(step, snapshot)
            case MarkDuplicate() | UnmarkDuplicate():
                return self.mark_duplicate(step.number, marked=isinstance(step, MarkDuplicate))
            case NoteAssignment() | Release() | Requeue():
                return self._noted(step)
            case Add():
                raise AssertionError("issues are queued together")

    def _gated(self, step: SetMemberGate, snapshot: SeriesSnapshot) -> None:
        """Remember a moved gate. The runs behind the gate of a leaving issue are read again."""
        if self._gates is None or (snapshot.active is not None and snapshot.active.number == step.number):
            self._gates = None
            return
        others = {number: is_open for number, is_open in self._gates.open.items() if number != step.number}
        moved = {} if step.open is None else {step.number: step.open}
        self._gates = SeriesGates(open={**others, **moved}, busy=self._gates.busy)

    def _noted(self, step: NoteAssignment | Release | Requeue) -> bool:
        def change(data: NoteData) -> None:
            match step:
                case NoteAssignment(looks):
                    data["looks"] = {name: getattr(looks, name) for name in looks.PARTS}
                case Release(number, out):
                    data.setdefault("released", {})[str(number)] = out
                case Requeue(number):
                    _forget(data, "released", number)

        self.note.change(change, later=isinstance(step, NoteAssignment))
        return True

    def _settled(self, written: bool, what: str) -> bool:
        """Record the outcome of a write to the lane. A conflict is also a change, made by another process."""
        if written:
            self.done.append(what)
        else:
            self.note.count("conflicts")
        return True

    def _note_left(self, number: int) -> None:
        """Note when a departed issue was last changed, with the next write of the note."""
        if number not in self.facts.left:
            return
        at = self.look.left_at(number) or self.context.stamp()

        def change(data: NoteData) -> None:
            known = {**(data.get("left") or {}), str(number): at}
            data["left"] = dict(sorted(known.items(), key=lambda each: each[1])[-LEFT_MAX:])

        self.note.change(change, later=True)

    def _acted(self, what: str) -> bool:
        if what:
            self.done.append(what)
        return bool(what)

    def _start(self, step: Start) -> bool:
        self._moved = True
        run = self.lane.start(step)
        if run is None:
            return self._settled(False, "")
        self.started.add(step.number)
        self._began.add(run)
        why = "already assigned" if step.adopted is not None else ""
        self.handover.promoted(step.number, run, why, login=step.adopted)
        self.done.append(
            f"#{step.number} {'adopted' if step.adopted is not None else 'promoted'}:"
            f" {self.data['promotion']['why']}"
        )
        return True

    def _unassign(self, step: Unassign, snapshot: SeriesSnapshot) -> bool:
        """Remove assignees, iff the lane is unchanged since GitHub was read."""
        run = None if snapshot.active is None else snapshot.active.run
        if self.lane.run() != run:
            return self._settled(False, "")
        try:
            new = self.context.effects.unassign(step.number, step.logins, run)
        except FAULTS as error:
            self.problems.append(f"#{step.number} could not be unassigned: {error.sentence}")
            return False
        self.unassigning.add(step.number)
        return self._acted(f"#{step.number} unassigned: {step.why}" if new else "")

    def mark_duplicate(self, number: int, *, marked: bool) -> bool:
        """Note whether an issue is assigned in addition to the active one. Each is counted once."""
        new = False

        def change(data: NoteData) -> None:
            nonlocal new
            found = set(data.get("flagged") or ())
            new = marked and number not in found
            data["flagged"] = sorted(found | {number} if marked else found - {number})
            if new:
                add_count(data, "duplicate_prevented")

        self.note.change(change, later=not marked)
        if new:
            self.note.counts["duplicate_prevented"] += 1
            if self.context.rules.choices.stage is RolloutStage.OBSERVE:
                self.done.append(f"#{number} also assigned (not enforced)")
        return True

    def requeue(self, number: int, login: str | None) -> None:
        """Queue a released issue again, and note the account to assign."""
        if self.active is not None and self.active.number == number:
            return  # it is active, and the first caller chose its assignee

        def change(data: NoteData) -> None:
            _forget(data, "released", number)
            if login is not None:
                data.setdefault("logins", {})[str(number)] = login

        if login is not None or number in numbers_of(self.data, "released"):
            self.note.change(change)

    # -- results ----------------------------------------------------------------------------------

    @property
    def owner(self) -> LanePlacement | None:
        """The issue that has the lane, with or without a run."""
        return self.placed[0] if self.placed else None

    @property
    def active(self) -> LanePlacement | None:
        """The issue that has the lane and a run."""
        return self.owner if self.owner is not None and self.owner.run is not None else None

    @property
    def active_issue(self) -> int | None:
        """The active issue. While the series is enforced, also a promoted one without a run."""
        owner = self.owner
        enforced = self.context.rules.choices.stage is not RolloutStage.OBSERVE
        return owner.number if owner is not None and (owner.run is not None or enforced) else None

    @property
    def queue(self) -> tuple[int, ...]:
        return tuple(each.number for each in self.placed if each.number != self.active_issue)

    def answer(self, number: int) -> Acquired:
        owner = self.owner
        enforced = self.context.rules.choices.stage is not RolloutStage.OBSERVE
        member = self.facts.member(number)
        common: dict[str, Any] = {
            "series": self.series,
            "issue": number,
            "active_issue": self.active_issue,
        }
        if owner is not None and owner.number == number and owner.run is not None:
            status = "acquired" if number in self.started else "already-active"
            assign = self.handover.caller_is_next and not (member and member.assigned)
            return Acquired(status=status, assign=assign, **common)
        line = self.queue
        if number in line:
            return Acquired(status="queued", position=line.index(number) + 1, assign=not enforced, **common)
        needed = () if member is None else member.needs
        return Acquired(status="queued-dependency", needs=needed, assign=not enforced, **common)

    def write_counts(self, *, cycle: bool) -> None:
        """Write the unwritten counts. With `cycle`, this cycle's counts are also noted as the last cycle's.

        If too many processes write at once, the counts are lost; decisions and their effects stand.
        """
        counted = {name: self.note.counts[name] for name in COUNTED}
        if cycle:
            noted: dict[str, Any] = {"cycle": counted}
            if self.context.store.github is not None:  # in git, each note is a push
                noted |= {"cycle_at": self.context.stamp(), "cycle_done": self.done[:DONE_MAX]}
            self.note.change(lambda data: data.update(noted), later=True)
        with suppress(StoreBusy):
            self.note.write()


_GATES = {True: "gate opened", False: "gate closed", None: "gate removed"}


def _forget(data: NoteData, table: str, number: int) -> None:
    (data.get(table) or {}).pop(str(number), None)


def _numbers(numbers: Iterable[int]) -> str:
    return ", ".join(f"#{number}" for number in numbers)
