"""One cycle of one series: rounds of look, decide and write, then the state issue."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from interlock.core.errors import StoreBusy
from interlock.core.record import Record
from interlock.core.series import document
from interlock.core.series.deciding import (
    Add,
    Assign,
    End,
    Flag,
    Gate,
    Release,
    Start,
    Step,
    Unassign,
    Unflag,
    Want,
    Withdraw,
    decide,
)
from interlock.core.series.deciding import (
    Look as Seen,
)
from interlock.core.series.document import Document, Line, Shown
from interlock.core.series.standing import Choices, Facts, Member, Mode, Placed, Standing, position
from interlock.core.series.titles import Titles
from interlock.github.client import GitHub
from interlock.github.series.acting import Acting, Assigning
from interlock.github.series.lane import NO_GATES, Gates, Lanes, Reading, SeriesLane, lane_of
from interlock.github.series.looking import Look, Repository, Watched
from interlock.github.series.notebook import COUNTED, Notebook, Page, counts_of, looks_of, numbers_of
from interlock.github.series.state_issue import StateIssues
from interlock.service.series import Acquired
from interlock.store.series_port import SeriesNotes

#: More rounds than any state needs.
ROUNDS_MAX = 40
#: Whoever was told to assign an issue and has not done so after this time has probably died.
FORGOTTEN_S = 600.0
NOBODY = "none"


class Rules(Record):
    """What a repository has chosen for its series."""

    titles: Titles = Titles()
    choices: Choices = Choices()
    assigning: Assigning = Assigning()
    #: Whose assignments count; empty: everybody's.
    logins: frozenset[str] = frozenset()
    #: Types of work that only look, and are never held back.
    exempt: tuple[str, ...] = ("issue_triage",)


def assigning(rules: Rules, page: Page, number: int) -> Assigning:
    """How an issue is assigned: as somebody asked, or as the rules say."""
    login = numbers_of(page, "logins").get(number)
    if login is None:
        return rules.assigning
    return Assigning(login="" if login == NOBODY else login)


class Context(Record):
    """Where a keeper works: a store, a repository, and what that has chosen."""

    lanes: Lanes
    notes: SeriesNotes
    github: GitHub
    repository: Repository
    rules: Rules
    acting: Acting
    #: What the lanes of the repository are called by.
    lane_name: str
    clock: Callable[[], float] = time.time
    #: Makes a lane readable again, where people can break it by hand.
    mend: Callable[..., object] | None = None
    #: Reads all lanes at once, where reading one is a request of its own.
    at_once: Callable[[], Reading] | None = None
    #: Reads what the store itself has counted on lanes.
    counts: Callable[[], Callable[[str], Mapping[str, int]]] | None = None

    def reading(self) -> Reading:
        """The lanes as they are now."""
        return self.lanes if self.at_once is None else self.at_once()

    def lane(self, series: str) -> SeriesLane:
        return SeriesLane(self.lanes, self.lane_name, series, exempt=self.rules.exempt, mend=self.mend)

    def notebook(self, series: str) -> Notebook:
        return Notebook(self.notes, lane_of(self.lane_name, series))

    def look(self) -> Look:
        return Look(self.github, self.repository, self.watched)

    @property
    def watched(self) -> Watched:
        return Watched(titles=self.rules.titles, logins=self.rules.logins)

    def assigning(self, page: Page, number: int) -> Assigning:
        """How an issue is assigned."""
        return assigning(self.rules, page, number)

    def now_s(self) -> float:
        """GitHub's clock, which is the same for all."""
        return self.clock() + (self.github.limits.skew_s or 0.0)

    def stamp(self) -> str:
        return datetime.fromtimestamp(self.now_s(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Before(Record):
    """A series as it was before GitHub was asked. What is written is refused if its lane has changed."""

    page: Page
    placed: tuple[Placed, ...] = ()
    gates: Gates = NO_GATES


class Work:
    """One cycle of one series."""

    def __init__(
        self,
        context: Context,
        before: Before | None,
        series: str,
        look: Look,
        issues: StateIssues,
        *,
        only: int | None = None,
    ) -> None:
        self._at, self.series, self._look, self._issues, self._only = context, series, look, issues, only
        self.lane, self.notebook = context.lane(series), context.notebook(series)
        self.page: Page = {} if before is None else before.page
        self._as_read = json.dumps(self.page, sort_keys=True)
        self.facts = Facts()
        self.placed = () if before is None else before.placed
        #: Whether the lane has changed since it was read; its gates, unless they have.
        self._moved = before is None
        self._began_late = before is None
        self._gates = None if before is None else before.gates
        #: Changes of the note that can wait for the end: losing them costs a second look.
        self._unwritten: list[Callable[[Page], None]] = []
        self.counts: Counter[str] = Counter()
        #: Issues that we started, and their runs.
        self.started: set[int] = set()
        self._began: set[int] = set()
        self.done: list[str] = []
        #: Why whoever had the series last gave it up.
        self._gave_up = ""
        self._from: int | None = None

    def check(self) -> None:
        """Raise if the series is not ours to keep; on first contact take over what an older tool left."""
        self._issues.check(self.series)
        if self.page or self._standing().placed:
            return
        left = self._issues.left_by_another(self.series)
        order: tuple[int, ...] = ()
        if left is not None:
            known = {m.number: m for m in self._look.facts(self.series, (), None).members}
            order = tuple(n for n in document.order(left, left.active_issue) if n in known)
            self.done.append(f"taken over from its state issue: {_numbers(order)}" if order else "taken over")
            natural = sorted(known, key=lambda n: position(known[n]))
            if tuple(natural[: len(order)]) == order:
                order = ()

        def first(page: Page) -> None:
            page.setdefault("order", list(order))

        self._note(first)

    # -- rounds -----------------------------------------------------------------------------------

    def rounds(self) -> None:
        """Decide and carry out until nothing is left to do.

        What nobody has changed here is not read again: on git each read is a fetch.
        """
        #: Runs that were there before GitHub was asked: its answer says nothing of later ones.
        seen = set() if self._began_late else {each.run for each in self.placed if each.run is not None}
        stale = False
        for _ in range(ROUNDS_MAX):
            standing = self._standing()
            run = None if standing.active is None else standing.active.run
            if stale or (run is not None and run not in seen):
                self._look, stale = self._at.look(), False
                seen |= {run} if run is not None else set()
            known = [*(each.number for each in self.placed), *standing.released, *standing.gates]
            active = None if standing.active is None else standing.active.number
            self.facts = self._look.facts(self.series, known, active)
            steps = decide(self.facts, standing, self._at.rules.choices, self._at.now_s())
            conflicts = self.counts["conflicts"]
            if not self._carried_out(self._allowed(steps), standing):
                return
            seen |= self._began
            if self.counts["conflicts"] > conflicts:
                self.counts["retries"] += 1
                stale = self._moved = True
                self.page, self._gates = self.notebook.read() or {}, None
                self._as_read = json.dumps(self.page, sort_keys=True)
                for change in self._unwritten:
                    change(self.page)

    def _standing(self) -> Standing:
        if self._moved:
            self.placed, self._moved = self.lane.placed(), False
        if self._gates is None:
            self._gates = self.lane.gates() if self._at.rules.choices.gated else NO_GATES
        return Standing(
            placed=self.placed,
            gates=self._gates.open,
            busy=self._gates.busy,
            looks=looks_of(self.page),
            released=numbers_of(self.page, "released"),
            order=tuple(self.page.get("order") or ()),
            flagged=frozenset(self.page.get("flagged") or ()),
        )

    def _allowed(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """An acquire starts nothing but its own issue, unless that is assigned already."""
        if self._only is None:
            return steps
        return tuple(
            step
            for step in steps
            if not (isinstance(step, Start) and step.number != self._only and step.adopted is None)
        )

    def _carried_out(self, steps: tuple[Step, ...], standing: Standing) -> bool:
        """Carry out steps in order; whether any of them changed something."""
        changed = False
        adds = [step for step in steps if isinstance(step, Add)]
        for step in steps:
            if isinstance(step, Add):
                continue
            changed = self._carry_out(step, standing) or changed
        if adds:
            self._moved = True
            self.lane.add(adds)
            self.done += [f"#{step.number} in line" for step in adds]
            changed = True
        return changed

    def _carry_out(self, step: Step, standing: Standing) -> bool:
        match step:
            case Withdraw():
                self._moved = True
                return self._settled(self.lane.withdraw(step), f"#{step.number} out of line: {step.why}")
            case Start():
                return self._start(step)
            case End():
                self._moved = True
                ended = self.lane.end(step)
                if ended:
                    self._from, self._gave_up = step.number, step.why
                return self._settled(ended, f"#{step.number} ended: {step.why}")
            case Gate():
                run = standing.active.run if step.open and standing.active else None
                if not self.lane.gate(step, run):
                    return False  # the next cycle opens it
                self._gated(step, standing)
                return self._settled(True, f"#{step.number} {_GATES[step.open]}")
            case Assign():
                how = self._at.assigning(self.page, step.number)
                new = self._at.acting.assign(step.number, step.run, how)
                return self._acted(new, f"#{step.number} is assigned")
            case Unassign():
                return self._unassign(step, standing)
            case Flag() | Unflag():
                return self._flag(step.number, flagged=isinstance(step, Flag))
            case Seen() | Release() | Want():
                return self._noted(step)
            case Add():
                raise AssertionError("issues are put in line together")

    def _gated(self, step: Gate, standing: Standing) -> None:
        """Know of a gate that we moved. What runs behind the leaving issue's is read anew."""
        if self._gates is None or (standing.active is not None and standing.active.number == step.number):
            self._gates = None
            return
        others = {number: is_open for number, is_open in self._gates.open.items() if number != step.number}
        moved = {} if step.open is None else {step.number: step.open}
        self._gates = Gates(open={**others, **moved}, busy=self._gates.busy)

    def _note(self, change: Callable[[Page], None], *, later: bool = False) -> None:
        """Change the note, now or with the next write."""
        change(self.page)
        self._unwritten.append(change)
        if not later:
            self._write_note()

    def _write_note(self) -> None:
        unwritten, self._unwritten = self._unwritten, []

        def change(page: Page) -> None:
            for each in unwritten:
                each(page)

        if unwritten and json.dumps(self.page, sort_keys=True) != self._as_read:
            self.page = self.notebook.change(change)
            self._as_read = json.dumps(self.page, sort_keys=True)

    def _noted(self, step: Seen | Release | Want) -> bool:
        def change(page: Page) -> None:
            match step:
                case Seen(looks):
                    page["looks"] = {name: getattr(looks, name) for name in looks.PARTS}
                case Release(number, out):
                    page.setdefault("released", {})[str(number)] = out
                case Want(number):
                    _forget(page, "released", number)

        self._note(change, later=isinstance(step, Seen))
        return True

    def _settled(self, written: bool, what: str) -> bool:
        """Note what came of a write to the lane. A conflict is a change too: somebody made it."""
        if written:
            self.done.append(what)
        else:
            self.counts["conflicts"] += 1
        return True

    def _acted(self, new: bool, what: str) -> bool:
        if new:
            self.done.append(what)
        return new

    def _start(self, step: Start) -> bool:
        if step.adopted is not None:
            self._keep_login(step.number, step.adopted)
        self._moved = True
        run = self.lane.start(step)
        if run is None:
            return self._settled(False, "")
        self.started.add(step.number)
        self._began.add(run)
        self.counts["promotion_events"] += 1
        last = (self.page.get("promotion") or {}).get("to")
        why = "it is assigned already" if step.adopted is not None else self._gave_up or "it is next"
        promotion = {
            "from": self._from if self._from is not None else last,
            "to": step.number,
            "why": why,
            "at": self._at.stamp(),
            "run": run,
        }
        self._note(lambda page: page.update(promotion=promotion), later=True)
        self.done.append(f"#{step.number} {'adopted' if step.adopted is not None else 'promoted'}: {why}")
        return True

    def _unassign(self, step: Unassign, standing: Standing) -> bool:
        """Take assignments away, iff the lane is as it was before GitHub was asked."""
        run = None if standing.active is None else standing.active.run
        if self.lane.run() != run:
            return self._settled(False, "")
        new = self._at.acting.unassign(step.number, step.logins, run)
        if new and step.double:
            self.counts["duplicate_prevented"] += 1
        return self._acted(new, f"#{step.number} is unassigned: {step.why}")

    def _flag(self, number: int, *, flagged: bool) -> bool:
        def change(page: Page) -> None:
            found = set(page.get("flagged") or ())
            page["flagged"] = sorted(found | {number} if flagged else found - {number})

        self._note(change, later=True)
        if flagged:
            self.counts["duplicate_prevented"] += 1
            self.done.append(f"#{number} is assigned too (observed)")
        return True

    def _keep_login(self, number: int, login: str) -> None:
        def change(page: Page) -> None:
            page.setdefault("logins", {})[str(number)] = login

        self._note(change)

    def want(self, number: int, login: str | None) -> None:
        """Somebody wants an issue: it is given back no longer, and assigned as they say."""
        placed = self.placed
        if placed and placed[0].run is not None and placed[0].number == number:
            return  # it is active, and assigned as whoever was first has said

        def change(page: Page) -> None:
            _forget(page, "released", number)
            if login is not None:
                page.setdefault("logins", {})[str(number)] = login

        if login is not None or number in numbers_of(self.page, "released"):
            self._note(change)

    # -- what came of it --------------------------------------------------------------------------

    @property
    def active_issue(self) -> int | None:
        """The active issue; while it is enforced, also one that is promoted and has no run yet."""
        owner = self.placed[0] if self.placed else None
        enforced = self._at.rules.choices.mode is not Mode.OBSERVE
        return owner.number if owner is not None and (owner.run is not None or enforced) else None

    @property
    def queue(self) -> tuple[int, ...]:
        return tuple(each.number for each in self.placed if each.number != self.active_issue)

    def answer(self, number: int) -> Acquired:
        placed = self.placed
        owner = placed[0] if placed else None
        enforced = self._at.rules.choices.mode is not Mode.OBSERVE
        member = self.facts.member(number)
        common: dict[str, Any] = {
            "series": self.series,
            "issue": number,
            "active_issue": self.active_issue,
        }
        if owner is not None and owner.number == number and owner.run is not None:
            started = number in self.started
            theirs = self._is_theirs(number) and not (member and member.assigned)
            assign = theirs and (started or self._was_forgotten(owner.run))
            return Acquired(status="acquired" if started else "already-active", assign=assign, **common)
        line = self.queue
        if number in line:
            return Acquired(status="queued", position=line.index(number) + 1, assign=not enforced, **common)
        needed = () if member is None else member.needs
        return Acquired(status="queued-dependency", needs=needed, assign=not enforced, **common)

    def _is_theirs(self, number: int) -> bool:
        """Whether somebody else is to assign an issue."""
        by_us = self._at.assigning(self.page, number)
        return not (by_us.login or by_us.workflow)

    def _was_forgotten(self, run: int) -> bool:
        """Whether nobody assigned the active issue in all the time since somebody was told to."""
        looks, promotion = looks_of(self.page), self.page.get("promotion") or {}
        if (looks.run == run and looks.seen) or promotion.get("run") != run:
            return False
        return self._at.now_s() - datetime.fromisoformat(promotion["at"]).timestamp() >= FORGOTTEN_S

    def show(self) -> None:
        """Bring the state issue up to date, and say what was promoted."""
        at, page = self._at, self.page
        placed = self.placed
        active = placed[0] if placed and placed[0].run is not None else None
        problems = []
        if active is not None and active.run is not None:
            at.acting.flush()
            looks = looks_of(page)
            if looks.run != active.run or not looks.seen:
                problems = [at.acting.hindrance(active.number, active.run)]
            if self._is_theirs(active.number) and self._was_forgotten(active.run):
                since = page["promotion"]["at"]
                problems.append(
                    f"#{active.number} has the series since {since}, and whoever was to assign it has not."
                    f" Assign it, or ask again: interlock series acquire {active.number}."
                )
        problems = [each for each in problems if each]
        if at.rules.choices.mode is Mode.OBSERVE:
            problems += [f"#{n} is assigned too." for n in page.get("flagged") or ()]
        waiting = {str(m.number): list(m.needs) for m in self.facts.members if m.needs}
        shown = self._shown(active, problems)
        kept = self._issues.keep(shown, at.acting, known=page.get("state_issue"), body=page.get("body") or "")
        self.done += kept.mended
        promotion = page.get("promotion") or {}
        unsaid = promotion.get("run") not in (None, page.get("said"))
        if at.rules.choices.mode is Mode.COMMENT and unsaid:
            name = f"series-promotion:run-{promotion['run']}"
            at.acting.comment(kept.number, name, _promotion(promotion))

        def change(page: Page) -> None:
            page.update(state_issue=kept.number, body=kept.body, problems=problems, waiting=waiting)
            member = self.facts.member(active.number if active is not None else None)
            page["assigned"] = [] if member is None else list(member.assigned)
            if promotion.get("run") is not None:
                page["said"] = promotion["run"]
            members = {str(m.number) for m in self.facts.members}
            page["logins"] = {n: who for n, who in (page.get("logins") or {}).items() if n in members}

        self._note(change, later=True)
        at.acting.flush()

    def _shown(self, active: Placed | None, problems: list[str]) -> Shown:
        at, page = self._at, self.page
        line = [each.number for each in self.placed if each is not active]
        places = {number: str(place) for place, number in enumerate(line, 1)}
        if active is not None:
            places[active.number] = "active"
        lines = []
        order = tuple(page.get("order") or ())
        for member in sorted(self.facts.members, key=lambda m: (position(m, order), m.number)):
            number = member.number
            says = self._says(member, active, page)
            lines.append(Line(number=number, place=places.get(number, "waits"), says=says))
        promotion = page.get("promotion") or {}
        return Shown(
            document=Document(
                series=self.series,
                active_issue=None if active is None else active.number,
                queue=tuple(line),
                updated_at=at.stamp(),
            ),
            mode=at.rules.choices.mode,
            lines=tuple(lines),
            promotion=_promotion(promotion) if promotion else "",
            problems=tuple(problems),
        )

    def _says(self, member: Member, active: Placed | None, page: Page) -> str:
        if active is not None and active.number == member.number:
            return f"assigned to {', '.join(member.assigned)}" if member.assigned else "assigning"
        if member.needs:
            return f"waits for {', '.join(member.needs)}"
        if member.number in numbers_of(page, "released"):
            return "given back: it waits until somebody assigns or acquires it"
        return ""

    def write_counts(self, *, cycle: bool) -> None:
        """Add what was counted. Of the last cycle there is what its reconcile counted.

        Where too many others write, it is lost: what was decided and done stands without it.
        """
        counted = {name: self.counts[name] for name in COUNTED}

        def change(page: Page) -> None:
            before = counts_of(page)
            page["counts"] = {name: before[name] + counted[name] for name in COUNTED}
            if cycle:
                page["cycle"] = counted

        if cycle or any(counted.values()):
            self._note(change, later=True)
        with suppress(StoreBusy):
            self._write_note()


_GATES = {True: "may be worked on", False: "is held back", None: "is not held back any more"}


def _forget(page: Page, table: str, number: int) -> None:
    (page.get(table) or {}).pop(str(number), None)


def _numbers(numbers: Iterable[int]) -> str:
    return ", ".join(f"#{number}" for number in numbers)


def _promotion(promotion: Mapping[str, Any]) -> str:
    left = f"from #{promotion['from']} " if promotion.get("from") else ""
    return f"{left}to #{promotion['to']}, {promotion['at']}: {promotion['why']}."
