"""One cycle of one series: rounds of look, decide and write, then the state issue."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from interlock.core.errors import (
    GitHubLimited,
    GitHubRefused,
    GitHubUnavailable,
    InterlockError,
    StoreBusy,
)
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
from interlock.github.series.looking import Authors, Look, Repository, Watched
from interlock.github.series.notebook import (
    COUNTED,
    FORGOTTEN_S,
    Notebook,
    Page,
    counts_of,
    late,
    looks_of,
    numbers_of,
)
from interlock.github.series.state_issue import Known, StateIssues
from interlock.service.series import Acquired
from interlock.store.series_port import SeriesNotes

#: More rounds than any state needs.
ROUNDS_MAX = 40
NOBODY, MEMBER_LABEL = "none", "rfc-series"
#: How much is noted: promotions without a comment, issues that left, ignored issues, texts, runs.
UNSAID_MAX, LEFT_MAX, IGNORED_MAX, BODIES_MAX, COUNTED_MAX = 100, 100, 20, 8, 20
FAULTS = (GitHubRefused, GitHubUnavailable, GitHubLimited)


class Rules(Record):
    """What a repository has chosen for its series."""

    titles: Titles = Titles()
    choices: Choices = Choices()
    assigning: Assigning = Assigning()
    #: Whose assignments count; empty: everybody's.
    logins: frozenset[str] = frozenset()
    #: Types of work that only look, and are never held back.
    exempt: tuple[str, ...] = ("issue_triage",)
    #: The label that makes anybody's issue a member, if somebody with write access set it.
    label: str = MEMBER_LABEL


def assigning(rules: Rules, page: Page, number: int) -> Assigning:
    """How an issue is assigned: as somebody asked, or as the rules say."""
    login = numbers_of(page, "logins").get(number)
    return rules.assigning if login in (None, NOBODY) else Assigning(login=login)


class Context(Record):
    """Where a keeper works: a store, a repository, and what that has chosen."""

    lanes: Lanes
    notes: SeriesNotes
    github: GitHub
    repository: Repository
    rules: Rules
    acting: Acting
    authors: Authors
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
        return Look(self.github, self.repository, self.watched, self.authors)

    @property
    def watched(self) -> Watched:
        return Watched(titles=self.rules.titles, logins=self.rules.logins, label=self.rules.label)

    def assigning(self, page: Page, number: int) -> Assigning:
        """How an issue is assigned."""
        return assigning(self.rules, page, number)

    @property
    def comments(self) -> bool:
        """Whether each promotion is told in a comment."""
        return self.rules.choices.mode is Mode.COMMENT

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
        caller_assigns: bool = False,
    ) -> None:
        """`only`: nothing but this issue may start; `caller_assigns`: whoever acquires it assigns it."""
        self._at, self.series, self._look, self._issues, self._only = context, series, look, issues, only
        self._caller_assigns = caller_assigns
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
        self.problems: list[str] = []
        #: Issues that are to be unassigned.
        self._unassigning: set[int] = set()
        #: Whether the caller is to assign the issue that it acquires.
        self.told = False

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
            self._record(standing.active)
            self.facts = self._facts(standing)
            steps = decide(self.facts, standing, self._at.rules.choices, self._at.now_s())
            conflicts = self.counts["conflicts"]
            if not self._carried_out(self._allowed(steps), standing):
                return
            seen |= self._began
            if self.counts["conflicts"] > conflicts:
                self.count("retries")
                stale = self._moved = True
                self.page, self._gates = self.notebook.read() or {}, None
                self._as_read = json.dumps(self.page, sort_keys=True)
                for change in self._unwritten:
                    change(self.page)

    def _facts(self, standing: Standing) -> Facts:
        active, looks = standing.active, standing.looks
        known = [*(each.number for each in self.placed), *standing.released, *standing.gates]
        return self._look.facts(
            self.series,
            [number for number in known if number],
            None if active is None else active.number,
            left=numbers_of(self.page, "left"),
            watch=active is not None and looks.run == active.run and looks.seen,
        )

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
        """An acquire starts and assigns its own issue only; one that is assigned already is adopted."""
        if self._only is None:
            return steps
        return tuple(
            step
            for step in steps
            if not (isinstance(step, Start) and step.number != self._only and step.adopted is None)
            and not (isinstance(step, Assign) and step.number != self._only)
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
                self._note_left(step.number)
                return self._settled(self.lane.withdraw(step), f"#{step.number} out of line: {step.why}")
            case Start():
                return self._start(step)
            case End():
                self._moved = True
                self._note_left(step.number)
                leaving = {"number": step.number, "why": step.why}
                self._note(lambda page: page.update(leaving=leaving, handover=None))
                return self._settled(self.lane.end(step), f"#{step.number} ended: {step.why}")
            case Gate():
                run = standing.active.run if step.open and standing.active else None
                if not self.lane.gate(step, run):
                    return False  # the next cycle opens it
                self._gated(step, standing)
                return self._settled(True, f"#{step.number} {_GATES[step.open]}")
            case Assign():
                return self._assign(step)
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
            self.count("conflicts")
        return True

    def count(self, name: str) -> None:
        """Count something, with the next write of the note."""
        self.counts[name] += 1
        self._note(lambda page: _add(page, name), later=True)

    def _note_left(self, number: int) -> None:
        """Note when an issue was changed that has left, with the next write of the note."""
        if number not in self.facts.left:
            return
        at = self._look.left_at(number) or self._at.stamp()

        def change(page: Page) -> None:
            known = {**(page.get("left") or {}), str(number): at}
            page["left"] = dict(sorted(known.items(), key=lambda each: each[1])[-LEFT_MAX:])

        self._note(change, later=True)

    def _acted(self, new: bool, what: str) -> bool:
        if new:
            self.done.append(what)
        return new

    def _start(self, step: Start) -> bool:
        self._moved = True
        run = self.lane.start(step)
        if run is None:
            return self._settled(False, "")
        self.started.add(step.number)
        self._began.add(run)
        why = "it is assigned already" if step.adopted is not None else ""
        self._promoted(step.number, run, why, login=step.adopted)
        self.done.append(
            f"#{step.number} {'adopted' if step.adopted is not None else 'promoted'}:"
            f" {self.page['promotion']['why']}"
        )
        return True

    def _record(self, active: Placed | None) -> None:
        """Note the promotion of a run that somebody started who died before he noted it."""
        if active is not None and active.run is not None and active.run not in self._counted(self.page):
            self._promoted(active.number, active.run)

    @staticmethod
    def _counted(page: Page) -> list[int]:
        last = (page.get("promotion") or {}).get("run")
        return [*(page.get("counted") or ()), *([] if last is None else [last])]

    def _promoted(self, number: int, run: int, why: str = "", *, login: str | None = None) -> None:
        """Note a promotion, its count, its comment and who assigns: once, before anything shows it."""
        theirs = self._caller_assigns and number == self._only and login is None
        now_s, stamp, told = self._at.now_s(), self._at.stamp(), [False]
        new = [False]

        def change(page: Page) -> None:
            told[0] = new[0] = False
            if theirs and (page.get("handover") or {}).get("run") != run:
                page["handover"] = {"run": run, "by": "caller", "at_s": now_s, "nth": 1, "given": True}
                told[0] = True
            if run in self._counted(page):
                return
            new[0] = True
            leaving = page.pop("leaving", None) or {}
            last = (page.get("promotion") or {}).get("to")
            promotion = {
                "from": leaving.get("number", last),
                "to": number,
                "why": why or leaving.get("why") or "it is next",
                "at": stamp,
                "run": run,
            }
            page["counted"] = [*self._counted(page), run][-COUNTED_MAX:]
            page["promotion"] = promotion
            if self._at.comments:
                page["unsaid"] = [*(page.get("unsaid") or ()), promotion][-UNSAID_MAX:]
            if login is not None:
                page.setdefault("logins", {})[str(number)] = login
            _add(page, "promotion_events")

        self._note(change)
        self.counts["promotion_events"] += new[0]
        self.told = self.told or told[0]

    def take_up(self, number: int) -> None:
        """Let the caller assign the active issue, if a workflow or an earlier caller was to and has not."""
        owner = self.placed[0] if self.placed else None
        if owner is None or owner.number != number or owner.run is None or not self._caller_assigns:
            return
        if any(user for user in (self._look.issue(number) or {}).get("assignees") or ()):
            return
        run, now_s, told = owner.run, self._at.now_s(), [False]

        def change(page: Page) -> None:
            before = page.get("handover") or {}
            mine = before.get("run") == run
            open_to_callers = before.get("by") != "us" and not before.get("given")
            told[0] = not mine or open_to_callers or now_s - before["at_s"] >= FORGOTTEN_S
            if told[0]:
                nth = int(before["nth"]) if mine else 1
                page["handover"] = {
                    **({"what": before["what"]} if mine and "what" in before else {}),
                    "run": run,
                    "by": before["by"] if mine else "caller",
                    "at_s": now_s,
                    "nth": nth,
                    "given": True,
                    "sent": True,
                }

        self._note(change)
        self.told = told[0]

    def _assign(self, step: Assign) -> bool:
        """Note who assigns the active issue, then assign it, or start the workflow that does."""
        how, now_s = self._at.assigning(self.page, step.number), self._at.now_s()
        by = "workflow" if how.workflow else "us" if how.login else "caller"
        claimed = [False]

        def change(page: Page) -> None:
            claimed[0] = False
            before = page.get("handover") or {}
            if before.get("run") != step.run or now_s - before["at_s"] >= FORGOTTEN_S:
                nth = int(before["nth"]) + 1 if before.get("run") == step.run else 1
                before = {"run": step.run, "by": by, "at_s": now_s, "nth": nth, "given": False}
                before["what"] = how.workflow or how.login
            if before["by"] == by == "workflow" and not before.get("sent"):
                claimed[0] = True
                before = {**before, "sent": True}
            page["handover"] = before

        self._note(change)
        if self.page["handover"]["by"] != by or by == "caller":
            return False
        acting, nth = self._at.acting, int(self.page["handover"]["nth"])
        if by == "workflow" and not (claimed[0] or acting.remembers):
            return False
        new = acting.assign(step.number, step.run, how, nth=nth, after=step.after)
        if by == "workflow" and not new and not acting.remembers:
            self._note(lambda page: page["handover"].update(sent=False))
        what = f"{how.workflow} dispatched" if how.workflow else f"assigned to {how.login}"
        return self._acted(new, f"#{step.number} {what}")

    def _unassign(self, step: Unassign, standing: Standing) -> bool:
        """Take assignments away, iff the lane is as it was before GitHub was asked."""
        run = None if standing.active is None else standing.active.run
        if self.lane.run() != run:
            return self._settled(False, "")
        try:
            new = self._at.acting.unassign(step.number, step.logins, run)
        except FAULTS as error:
            self.problems.append(f"#{step.number} could not be unassigned: {error.sentence}")
            return False
        self._unassigning.add(step.number)
        return self._acted(new, f"#{step.number} is unassigned: {step.why}")

    def _flag(self, number: int, *, flagged: bool) -> bool:
        new = [False]

        def change(page: Page) -> None:
            found = set(page.get("flagged") or ())
            new[0] = flagged and number not in found
            page["flagged"] = sorted(found | {number} if flagged else found - {number})
            if new[0]:
                _add(page, "duplicate_prevented")

        self._note(change, later=not flagged)
        if new[0]:
            self.counts["duplicate_prevented"] += 1
            if self._at.rules.choices.mode is Mode.OBSERVE:
                self.done.append(f"#{number} is assigned too (observed)")
        return True

    def want(self, number: int, login: str | None) -> None:
        """Somebody wants an issue: it is given back no longer, and assigned to whom they name."""
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
            status = "acquired" if number in self.started else "already-active"
            return Acquired(status=status, assign=self.told and not (member and member.assigned), **common)
        line = self.queue
        if number in line:
            return Acquired(status="queued", position=line.index(number) + 1, assign=not enforced, **common)
        needed = () if member is None else member.needs
        return Acquired(status="queued-dependency", needs=needed, assign=not enforced, **common)

    def hold_back(self) -> None:
        """Tell the caller to assign only if no other issue is assigned; else the next cycle assigns."""
        others = [m.number for m in self.facts.members if m.assigned and m.number != self._only]
        if not self.told or not others:
            return
        self._at.acting.flush()
        look = self._at.look()
        if any((look.issue(number) or {}).get("assignees") for number in others):
            self.told = False
            self._note(lambda page: page.pop("handover", None))

    def show(self) -> None:
        """Bring the state issue up to date, and say what was promoted. What GitHub refuses is a problem."""
        at = self._at
        active = self.placed[0] if self.placed and self.placed[0].run is not None else None
        problems = self.problems
        if active is not None and active.run is not None:
            at.acting.flush()
            looks = looks_of(self.page)
            if looks.run != active.run or not looks.seen:
                problems.append(at.acting.hindrance(active.number, active.run))
            problems.append(late(self.page, at.now_s()))
        if at.rules.choices.mode is Mode.OBSERVE:
            problems += [f"#{n} is assigned too." for n in self.page.get("flagged") or ()]
        problems += self._look.problems(self.series)
        self.problems = problems = list(dict.fromkeys(each for each in problems if each))
        waiting = {str(m.number): list(m.needs) for m in self.facts.members if m.needs}
        found = self._look.ignored(self.series)
        ignored = {str(number): found[number] for number in sorted(found)[:IGNORED_MAX]}
        member = self.facts.member(active.number if active is not None else None)
        assigned = [] if member is None else list(member.assigned)
        members = {str(m.number) for m in self.facts.members}

        def change(page: Page) -> None:
            page.update(problems=problems, waiting=waiting, ignored=ignored, assigned=assigned)
            page["logins"] = {n: who for n, who in (page.get("logins") or {}).items() if n in members}

        self._note(change, later=True)
        for number in self._unassigning:
            if at.acting.is_unassigned(number):
                self._flag(number, flagged=False)
        try:
            self._show_state(active)
            self._tell()
        except FAULTS as error:
            problems.append(f"The state issue could not be brought up to date: {error.sentence}")
            self._note(lambda page: page.update(problems=problems), later=True)
        at.acting.flush()

    def _show_state(self, active: Placed | None) -> None:
        at, page = self._at, self.page
        known = Known(
            number=page.get("state_issue"),
            made_s=float(page.get("state_issue_at_s") or 0.0),
            bodies=tuple(page.get("bodies") or ()),
        )
        kept = self._issues.keep(self._shown(active, self.problems), at.acting, known, at.now_s())
        self.done += kept.mended

        def change(page: Page) -> None:
            page["state_issue"] = kept.number
            if kept.made:
                page["state_issue_at_s"] = at.now_s()
            if kept.body:
                page["bodies"] = [*(page.get("bodies") or ()), kept.body][-BODIES_MAX:]

        self._note(change, later=True)

    def _tell(self) -> None:
        """Tell promotions in comments, each once."""
        number = self.page.get("state_issue")
        for promotion in list(self.page.get("unsaid") or ()):
            if number is None or not self._at.comments:
                return
            name = f"series-promotion:run-{promotion['run']}"
            self._at.acting.comment(number, name, _promotion(promotion))

            def change(page: Page, said: Mapping[str, Any] = promotion) -> None:
                page["unsaid"] = [each for each in page.get("unsaid") or () if each["run"] != said["run"]]

            self._note(change, later=True)

    def fail(self, error: InterlockError) -> None:
        """Report what ended the cycle of this series, wherever that is possible."""
        self.problems.append(error.sentence)
        try:
            self.show()
        except InterlockError:
            self._note(lambda page: page.update(problems=self.problems), later=True)
        self.write_counts(cycle=True)

    def _shown(self, active: Placed | None, problems: list[str]) -> Shown:
        at, page = self._at, self.page
        line = [each.number for each in self.placed if each is not active]
        places = {number: str(place) for place, number in enumerate(line, 1)}
        if active is not None:
            places[active.number] = "active"
        lines, ignored = [], dict(numbers_of(page, "ignored"))
        order = tuple(page.get("order") or ())
        for member in sorted(self.facts.members, key=lambda m: (position(m, order), m.number)):
            number = member.number
            says = [self._says(member, active, page), ignored.pop(number, "")]
            text = "; ".join(each for each in says if each)
            lines.append(Line(number=number, place=places.get(number, "waits"), says=text))
        lines += [Line(number=number, place="ignored", says=why) for number, why in sorted(ignored.items())]
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
        """Write what was counted and not written yet; of the last cycle, what its reconcile counted.

        Where too many others write, it is lost: what was decided and done stands without it.
        """
        counted = {name: self.counts[name] for name in COUNTED}
        if cycle:
            self._note(lambda page: page.update(cycle=counted), later=True)
        with suppress(StoreBusy):
            self._write_note()


_GATES = {True: "may be worked on", False: "is held back", None: "is not held back any more"}


def _add(page: Page, name: str) -> None:
    """Count one more."""
    counts = counts_of(page)
    page["counts"] = {**counts, name: counts[name] + 1}


def _forget(page: Page, table: str, number: int) -> None:
    (page.get(table) or {}).pop(str(number), None)


def _numbers(numbers: Iterable[int]) -> str:
    return ", ".join(f"#{number}" for number in numbers)


def _promotion(promotion: Mapping[str, Any]) -> str:
    left = f"from #{promotion['from']} " if promotion.get("from") else ""
    return f"{left}to #{promotion['to']}, {promotion['at']}: {promotion['why']}."
